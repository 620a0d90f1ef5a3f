"""A Slurm command: sends its line to the server, prints the answer and exits with its code.

Shell loops start it hundreds of times, so it imports almost nothing: a socket, and the C half of the JSON module.
"""

import sys
from _json import encode_basestring_ascii as quoted
from _signal import SIG_IGN, SIGTERM, signal  # type: ignore[import-not-found]  # without its enumerations
from posix import (
    O_RDONLY,
    _exit,
    close,
    environ,
    fstat,
    getcwd,
    getgid,
    getpid,
    getuid,
    read,
    readlink,
    umask,
    uname,
    urandom,
    write,
)
from posix import (
    open as open_file,
)

from lattice.cli.slurm.exchange import Unreachable, ask, asked_before
from lattice.cli.slurm.place import quick_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from lattice.cli.slurm.place import Place

    Asker = Callable[[bytes], Mapping[str, Any]]
    Perform = Callable[[Place, Mapping[str, Any], list[int]], tuple[int, str]]

MAX_SCRIPT = 4 << 20
SUBMITTERS = frozenset({"sbatch", "salloc", "srun"})
SCRIPTED = frozenset({"sbatch", "srun"})  # srun: file of --multi-prog
# A job that requests its own requeue or end is stopped by that request; it must still receive the answer.
ENDERS = frozenset({"scontrol", "scancel"})
PREFIXES = (
    "SLURM_",
    "SBATCH_",
    "SALLOC_",
    "SRUN_",
    "SQUEUE_",
    "SACCT_",
    "SINFO_",
    "SCANCEL_",
    "SCONTROL_",
    "SPRIO_",
    "SSHARE_",
    "SSTAT_",
)
# Left by the forwarder if it could not finish; the last one names a connection on which it sent the request already.
REQUEST, RESUMED, ASKED = "LATTICE_SLURM_REQUEST", "LATTICE_SLURM_RESUME", "LATTICE_SLURM_ASKED"
_FORWARDED = (REQUEST, RESUMED, ASKED)
ZONE = "LATTICE_TIME_ZONE"  # the caller's time zone, as the server reads it
SECRETS = frozenset({"LATTICE_TOKEN", "LATTICE_TOKEN_FILE", "LATTICE_AGENT_TOKEN", "LATTICE_AGENT_TOKEN_FILE"})
# Options of sbatch without a value: a word after any other may be its value, not the script.
FLAGS = frozenset(
    [
        "-H",
        "--hold",
        "--parsable",
        "-Q",
        "--quiet",
        "-v",
        "--verbose",
        "-W",
        "--wait",
        "--requeue",
        "--no-requeue",
        "--exclusive",
        "--test-only",
        "-O",
        "--overcommit",
        "-s",
        "--oversubscribe",
        "-k",
        "--no-kill",
        "--contiguous",
        "--ignore-pbs",
        "--spread-job",
        "--use-min-nodes",
        "--reboot",
        "--get-user-env",
        "--nice",
        "--propagate",
    ]
)


class Stopped(Exception):
    """The program exits with this text and this code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Patience:
    """Interrupts of a continuing command: noted during a request, because work may have started; raised while it only waits."""

    def __init__(self, *, are_held: bool = False) -> None:
        """`are_held`: the forwarder has held interrupts back, until now."""
        import _signal  # `signal` without its enumerations

        self.may_end = False
        self.noted: list[int] = []
        _signal.signal(_signal.SIGINT, self._interrupted)
        if are_held:
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))

    def _interrupted(self, number: int, _frame: object) -> None:
        if self.may_end:
            raise KeyboardInterrupt
        self.noted.append(number)


def main(program: str) -> None:
    """Never returns. Falls back to the client library for unusual cases."""
    if program in ENDERS:
        signal(SIGTERM, SIG_IGN)
    go(program)


def go(program: str, perform: "Perform | None" = None) -> None:
    """Never returns. `perform` carries out what an answer requests on this machine, and receives earlier interrupts;
    it returns the exit code, and what to send to the server afterwards."""
    try:
        code = run(program, sys.argv[1:], perform)
    except Stopped as stopped:
        _put(2, str(stopped))
        code = stopped.code
    except KeyboardInterrupt:
        code = 130
    _exit(code)


def run(program: str, argv: list[str], perform: "Perform | None" = None) -> int:
    """Sends requests until the command is complete; returns the exit code."""
    variables = _variables()
    fixed = _fixed(program, argv, variables)
    path, script = _likely_script(program, argv)
    more = _script_fields(path, script) if script is not None else ""
    if resumed := variables.get(RESUMED):
        more = f',"resume":{quoted(resumed)}'
    patience = Patience(are_held=ASKED in variables) if perform is not None else None
    asker = _after(variables.get(ASKED, ""), _asker(program, variables))
    while True:
        try:
            if patience is not None:
                patience.may_end = '"resume":"wait:' in more
            answer = asker(f"{{{fixed}{more}}}".encode("ascii"))
        except Unreachable as error:
            raise Stopped(f"{program}: error: {error}\n") from None
        except KeyboardInterrupt:
            # A user who interrupts the wait for nodes no longer wants them.
            if patience is None:
                raise
            patience.may_end = False
            more = more.replace('"wait:', '"cancel:')
            continue
        _put(1, answer.get("stdout", ""))
        _put(2, answer.get("stderr", ""))
        if needs := answer.get("needs"):
            more = _demanded(program, argv, str(needs), str(answer.get("path", "")), variables)
        elif perform is not None and (answer.get("attend") or answer.get("spawn")):
            code, word = perform(_own_place(program, variables), answer, patience.noted if patience else [])
            if not word:
                return code
            more = f',"resume":{quoted(word)}'
        elif resume := answer.get("resume"):
            if patience is not None and patience.noted:
                resume = resume.replace("wait:", "cancel:")
            more = f',"resume":{quoted(resume)}'
        else:
            return int(answer.get("code", 0))


def _asker(program: str, variables: dict[str, str]) -> "Asker":
    place = quick_place(variables)
    if place is not None:
        return lambda body: ask(place, body)
    from lattice.cli.slurm.long_way import ask_slowly, connect

    try:
        client = connect(variables)
    except Unreachable as error:
        raise Stopped(f"{program}: error: {error}\n") from None
    return lambda body: ask_slowly(client, body)


def _after(descriptor: str, asker: "Asker") -> "Asker":
    """The first answer is that to the request which the forwarder has sent, if it did and one comes."""
    sent = [descriptor] if descriptor else []

    def ask_next(body: bytes) -> "Mapping[str, Any]":
        answer = asked_before(sent.pop()) if sent else None
        return asker(body) if answer is None else answer

    return ask_next


def _own_place(program: str, variables: dict[str, str]) -> "Place":
    place = quick_place(variables)
    if place is None:
        from lattice.cli.slurm.long_way import place_of

        try:
            place = place_of(variables)
        except Unreachable as error:
            raise Stopped(f"{program}: error: {error}\n") from None
    return place


def _variables() -> dict[str, str]:
    """Variables whose names and values are UTF-8; others cannot be sent."""
    found = {}
    for name, value in environ.items():
        try:
            found[name.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return found


def _fixed(program: str, argv: list[str], variables: dict[str, str]) -> str:
    takes_all = program in SUBMITTERS
    mask = umask(0o022)
    umask(mask)
    sent = ",".join(
        f"{quoted(name)}:{quoted(value)}"
        for name, value in variables.items()
        if (takes_all or name.startswith(PREFIXES)) and name not in SECRETS and name not in (*_FORWARDED, ZONE)
    )
    zone = variables.get("TZ", _site_zone())
    if zone is not None:
        sent += f"{',' if sent else ''}{quoted(ZONE)}:{quoted(zone)}"
    words = ",".join(quoted(_clean(word)) for word in argv)
    return (
        f'"program":{quoted(program)},"argv":[{words}],"cwd":{quoted(_clean(directory()))},"environment":{{{sent}}},'
        f'"host":{quoted(uname().nodename)},"uid":{getuid()},"gid":{getgid()},"umask":{mask},'
        f'"request_id":{quoted(variables.get(REQUEST) or f"{urandom(8).hex()}{getpid():x}")}'
    )


def _site_zone() -> str | None:
    """The zone of this machine: what its link names; None where there is none, so that the server's zone counts."""
    try:
        return _clean(readlink("/etc/localtime"))
    except OSError:
        return None


def directory() -> str:
    try:
        return getcwd()
    except OSError:
        return "/"


def _clean(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _likely_script(program: str, argv: list[str]) -> tuple[str, str | None]:
    """The script, if the line is unambiguous; otherwise the server asks for it."""
    if program != "sbatch":
        return "", None
    before = ""
    for word in argv:
        if word.startswith("-") and word != "-":
            if word.startswith(("--wrap", "--help", "--version", "--usage")):
                return "", None
            before = word
            continue
        if before and before not in FLAGS and "=" not in before and not (len(before) > 2 and before[1] != "-"):
            before = ""  # most likely its value
            continue
        return _opened(word, _variables().get("PATH", ""))
    return "", None


def _opened(name: str, search: str) -> tuple[str, str | None]:
    """Full path and text of the script, from the directory or, if it has no slash, from PATH."""
    folders = ["", *([] if "/" in name else search.split(":"))]
    for folder in folders:
        path = f"{folder}/{name}" if folder else name
        try:
            descriptor = open_file(path, O_RDONLY)
        except OSError:
            continue
        try:
            if (fstat(descriptor).st_mode & 0o170000) == 0o040000:
                continue
            text = _text(_read_all(descriptor))
        except OSError:
            continue
        finally:
            close(descriptor)
        return path if path.startswith("/") else f"{directory().rstrip('/')}/{path}", text
    return "", None


def _read_all(descriptor: int) -> bytes:
    pieces, size = [], 0
    while piece := read(descriptor, 1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_SCRIPT:
            raise Stopped(f"sbatch: error: the script is larger than {MAX_SCRIPT >> 20} MiB\n")
    return b"".join(pieces)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _script_fields(path: str, script: str) -> str:
    return f',"script_path":{quoted(_clean(path))},"script":{quoted(script)}'


def _demanded(program: str, argv: list[str], needs: str, name: str, variables: dict[str, str]) -> str:
    from lattice.cli.slurm.own_line import names_file, unnamed  # seldom needed

    if program not in SCRIPTED or not (needs == "stdin" or names_file(argv, name)):
        raise Stopped(unnamed(program, "read", [name or needs]))
    if needs == "stdin":
        return _script_fields("", _text(_read_all(0)))
    path, script = _opened(name, variables.get("PATH", ""))
    if script is None:
        raise Stopped(f"{program}: error: Unable to open file {name}\n")
    return _script_fields(path, script)


def _put(descriptor: int, text: str) -> None:
    """Writes everything, also through a pipe that accepts it in pieces; a closed reader is not an error."""
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        while data:
            data = data[write(descriptor, data) :]
    except OSError:
        return
