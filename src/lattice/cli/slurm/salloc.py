"""`salloc`: gets an allocation, runs a program or a shell with its variables here, and gives it back."""

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
from posix import WEXITSTATUS, WIFSIGNALED, WTERMSIG, _exit, environ, execve, fork, waitpid

from lattice.cli.slurm.place import Place
from lattice.cli.slurm.program import go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NOT_FOUND = 127
# Meant for the program, which has the same terminal.
IGNORED = (_signal.SIGINT, _signal.SIGQUIT)


def main(program: str) -> None:
    """Never returns."""
    go(program, _spawn)


def _spawn(_place: Place, answer: "Mapping[str, Any]", noted: list[int]) -> tuple[int, str]:
    """The exit code, and what to tell the server about it."""
    about = answer["spawn"]
    if noted:
        return 1, str(about.get("resume", "")).replace("CODE", "1")
    variables = {**environ, **{name.encode(): value.encode() for name, value in about.get("environment", {}).items()}}
    shell = environ.get(b"SHELL") or b"/bin/sh"
    argv = [word.encode("utf-8", "surrogateescape") for word in about.get("argv") or ()] or [shell]
    before = {number: _signal.signal(number, _signal.SIG_IGN) for number in IGNORED}
    child = fork()
    if child == 0:
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
        _become(argv, variables)
    for number in (_signal.SIGTERM, _signal.SIGHUP):
        before[number] = _signal.signal(number, lambda number, _frame: _hand_on(child, number))
    _, status = waitpid(child, 0)
    for number, handler in before.items():
        _signal.signal(number, handler)
    code = 128 + WTERMSIG(status) if WIFSIGNALED(status) else WEXITSTATUS(status)
    return code, str(about.get("resume", "")).replace("CODE", str(code))


def _hand_on(child: int, number: int) -> None:
    from posix import kill

    try:
        kill(child, number)
    except OSError:
        return


def _become(argv: list[bytes], variables: dict[bytes, bytes]) -> None:
    """Never returns."""
    folders = [b""] if b"/" in argv[0] else variables.get(b"PATH", b"/usr/bin:/bin").split(b":")
    try:
        for folder in folders:
            path = folder + b"/" + argv[0] if folder else argv[0]
            try:
                execve(path, argv, variables)
            except OSError:
                continue
        from posix import write

        write(2, b'salloc: error: Unable to exec command "' + argv[0] + b'"\n')
    finally:
        _exit(NOT_FOUND)
