"""`salloc`: gets an allocation, runs a program or a shell with its variables on this machine, and releases it."""

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
import sys
from posix import WEXITSTATUS, WIFSIGNALED, WTERMSIG, _exit, environ, execve, fork, waitpid

from lattice.cli.slurm.own_line import may_set, names_program, unnamed
from lattice.cli.slurm.place import Place
from lattice.cli.slurm.program import Stopped, go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NOT_FOUND = 127
# For the program, which shares the terminal.
IGNORED = (_signal.SIGINT, _signal.SIGQUIT)


def main(program: str) -> None:
    """Never returns."""
    go(program, _spawn)


def _spawn(place: Place, answer: "Mapping[str, Any]", noted: list[int]) -> tuple[int, str]:
    """The exit code, and what to report to the server."""
    if answer.get("attend"):
        return _sit(place, answer["attend"], noted)
    about = answer["spawn"]
    if noted:
        return 1, str(about.get("resume", "")).replace("CODE", "1")
    given = about.get("environment", {}).items()
    variables = {**environ, **{name.encode(): value.encode() for name, value in given if may_set(name)}}
    shell = environ.get(b"SHELL") or b"/bin/sh"
    words = list(about.get("argv") or ())
    if not names_program(own_words(), words):
        raise Stopped(unnamed("salloc", "run", words))
    argv = [os_bytes(word) for word in sys.argv[len(sys.argv) - len(words) :]] or [shell]
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


def _sit(place: Place, attended: "dict[str, Any]", noted: list[int]) -> tuple[int, str]:
    """Attends to a shell on the first node, where the site wants it there."""
    from lattice.cli.slurm.attending import AttachedStep
    from lattice.cli.slurm.exchange import Unreachable

    about = {**attended, "stdin": "", "stdout": "", "stderr": "", "fed": True}
    try:
        code = AttachedStep(place, about, program="salloc").attend(noted)
    except Unreachable as error:
        raise Stopped(f"salloc: error: {error}\n") from None
    except BrokenPipeError:
        code = 141
    return code, str(about.get("resume", "")).replace("CODE", str(code))


def own_words() -> list[str]:
    """The words of the line as sent to the server."""
    return [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in sys.argv[1:]]


def os_bytes(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


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
