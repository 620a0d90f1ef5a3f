"""Attaches srun to a step: shows its output, forwards input and signals, and reports in Slurm's words how it ended.

Imports as little as `program`. The main thread reads the step's stream and resumes it at any server that knows the step;
another thread sends input. Signal handlers forward their signals.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
import _thread
from _struct import Struct
from binascii import a2b_base64, b2a_base64
from posix import O_APPEND, O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY, read, strerror, urandom, write
from posix import open as open_file
from time import monotonic, sleep

from lattice.cli.slurm.exchange import Broken, Unreachable, read_answer, scan, send_request
from lattice.cli.slurm.place import Place
from lattice.cli.views.task_output import MergedOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PATIENCE_S = 60.0
AGAIN_S = 0.05
INPUT_BYTES = 1 << 16
RECENT_BYTES = 1 << 16  # that who joins a step sees of what it wrote before
# Forwarded to the tasks; the others that end a program end the step.
FORWARDED = (_signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGALRM, _signal.SIGCONT)
ENDING = (_signal.SIGTERM, _signal.SIGHUP)
FAILED = 125
_record = Struct(">BII")
_NAMES = {
    1: "Hangup",
    2: "Interrupt",
    3: "Quit",
    6: "Aborted",
    9: "Killed",
    11: "Segmentation fault",
    13: "Broken pipe",
    14: "Alarm clock",
    15: "Terminated",
}


class Descriptor:
    """A file descriptor with a write method."""

    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[write(self._number, view) :]

    def flush(self) -> None:
        return


class AttachedStep:
    """One step; `about` is the answer's field `attend`."""

    def __init__(self, place: Place, about: "dict[str, Any]", program: str = "srun") -> None:
        self._place = place
        self._program = program
        self._detaches = bool(about.get("detaches"))
        self._client = urandom(8).hex() if self._detaches else ""
        self._only = {1: int(about.get("only_stdout", -1)), 2: int(about.get("only_stderr", -1))}
        self._fed = "" if int(about.get("only_stdin", -1)) < 0 else f',"task":{about["only_stdin"]}'
        self._about = about
        self._path = f"/api/v1/allocations/{about['allocation']}/steps/{about['step']}"
        self._places: dict[int, int] = {}
        self._begins = f"recent:{RECENT_BYTES}" if self._detaches else ""
        self._interrupts = 0
        self._result: dict[str, Any] | None = None

    def attend(self, noted: list[int]) -> int:
        """Returns the exit code of the step. `noted` are signals that arrived before it started. Raises Unreachable, OSError for a file that cannot be opened."""
        about = self._about
        is_terminal = bool(about.get("pty"))
        output = MergedOutput(self._targets(), about["tasks"], label=bool(about.get("label")), raw=is_terminal)
        source = self._source()
        before = self._catch_signals(is_terminal=is_terminal)
        restore = _raw_terminal() if is_terminal else None
        try:
            for number in noted[:1]:
                self._interrupted(number, None)
            if is_terminal and not self._detaches:
                self._resize()
            if source >= 0:
                _thread.start_new_thread(self._feed, (source,))
            for name, fields in self._events():
                self._take(name, fields, output)
            output.finish()
        except BrokenPipeError:
            if not self._detaches:
                self._post("DELETE", self._path, "")
            raise
        finally:
            if restore is not None:
                restore()
            for number, handler in before.items():
                _signal.signal(number, handler)
        return self._ended()

    # Output.

    def _targets(self) -> "dict[int, Any]":
        about = self._about
        flags = O_WRONLY | O_CREAT | (O_APPEND if about.get("append") else O_TRUNC)
        out = err = Descriptor(1)
        err = Descriptor(2)
        if path := about.get("stdout"):
            out = err = Descriptor(open_file(path, flags, 0o666))
        if (path := about.get("stderr")) and path != about.get("stdout"):
            err = Descriptor(open_file(path, flags, 0o666))
        return {1: out, 2: err}

    def _take(self, name: str, fields: "dict[str, Any]", output: MergedOutput) -> None:
        if name == "result":
            self._result = fields
        elif name == "gap":
            self._places[fields["node"]] = fields["next"]
            _say(
                f"{self._program}: error: {fields['bytes']} bytes of output were dropped: they were not read in time\n"
            )
        elif name == "message":
            self._places[fields["node"]] = fields["next"]
            data = a2b_base64(fields["data"])
            at = 0
            while at < len(data):
                stream, rank, length = _record.unpack_from(data, at)
                at += _record.size + length
                if self._only.get(stream, -1) in (-1, rank):
                    output.write(rank, stream, data[at - length : at])

    def _events(self) -> "Iterator[tuple[str, Any]]":
        """Returns when the step has ended; reconnects as often as necessary."""
        deadline = monotonic() + PATIENCE_S
        while self._result is None:
            for endpoint in self._place.endpoints:
                try:
                    for event in self._stream(endpoint):
                        deadline = monotonic() + PATIENCE_S
                        if event[0] == "end":
                            return
                        yield event
                except (OSError, Broken) as error:
                    if monotonic() > deadline:
                        raise Unreachable(f"cannot follow the step: {error}") from None
            sleep(AGAIN_S)

    def _stream(self, endpoint: str) -> "Iterator[tuple[str, Any]]":
        places = ",".join(f"{node}:{at}" for node, at in self._places.items()) or self._begins
        more = f"last-event-id: {places}\r\n" if places else ""
        connection = send_request(self._place, endpoint, "GET", f"{self._path}/stream", b"", more)
        try:
            name, data = "message", ""
            for line in _lines(connection):
                if line.startswith("data:"):
                    data += line[5:].lstrip()
                elif line.startswith("event:"):
                    name = line[6:].strip()
                elif not line and data:
                    yield name, scan(data)
                    name, data = "message", ""
        finally:
            connection.close()

    def _ended(self) -> int:
        result = self._result
        if result is None:
            return FAILED
        code = int(result.get("exit_code", 0))
        for line in result.get("failures", ()):
            texts, own = in_slurms_words(line)
            _say("".join(f"{text}\n" for text in texts).replace("srun: ", f"{self._program}: "))
            code = own or code
        if code and not result.get("failures") and result.get("message"):
            _say(f"{self._program}: error: {result['message']}\n")
        return min(code, 255)

    # Signals.

    def _catch_signals(self, *, is_terminal: bool) -> "dict[int, Any]":
        if self._detaches:
            return {_signal.SIGINT: _signal.signal(_signal.SIGINT, _leave)}
        before = {_signal.SIGINT: _signal.signal(_signal.SIGINT, self._interrupted)}
        for number in FORWARDED:
            before[number] = _signal.signal(number, self._forwarded)
        for number in ENDING:
            before[number] = _signal.signal(number, self._ending)
        if is_terminal:
            before[_signal.SIGWINCH] = _signal.signal(_signal.SIGWINCH, lambda _number, _frame: self._resize())
        return before

    def _interrupted(self, number: int, _frame: object) -> None:
        """The first interrupt goes to the tasks, the second ends the step, the third detaches from it."""
        self._interrupts += 1
        if self._interrupts == 1:
            _say(
                f"{self._program}: sending Ctrl-C to StepId={self._about['allocation'].lstrip('a')}.{self._about['step']}\n"
            )
            self._forwarded(number, None)
        elif self._interrupts == 2:
            _say(f"{self._program}: forcing job termination\n")
            self._post("DELETE", self._path, "")
        else:
            raise KeyboardInterrupt

    def _forwarded(self, number: int, _frame: object) -> None:
        self._post("POST", f"{self._path}/signal", f'{{"signal":{int(number)}}}')

    def _ending(self, _number: int, _frame: object) -> None:
        _say(f"{self._program}: forcing job termination\n")
        self._post("DELETE", self._path, "")

    def _resize(self) -> None:
        from posix import get_terminal_size

        try:
            columns, rows = get_terminal_size(0)
        except OSError:
            return
        self._post("POST", f"{self._path}/window", f'{{"rows":{rows},"columns":{columns}}}')

    def _post(self, method: str, path: str, body: str) -> "dict[str, Any]":
        """A server's answer, or nothing if none answers or it refuses: the stream reports the state of the step."""
        for endpoint in self._place.endpoints:
            try:
                connection = send_request(self._place, endpoint, method, path, body.encode())
                try:
                    status, text = read_answer(connection)
                finally:
                    connection.close()
            except (OSError, Broken):
                continue
            if status < 300:
                found = scan(text) if text.strip() else {}
                return found if isinstance(found, dict) else {}
            if status != 503:
                return {}
        return {}

    # Input.

    def _source(self) -> int:
        if not self._about.get("fed", True):
            return -1
        path = self._about.get("stdin")
        return open_file(path, O_RDONLY) if path else 0

    def _feed(self, source: int) -> None:
        offset, is_open = 0, True
        while is_open and self._result is None:
            try:
                data = read(source, INPUT_BYTES)
            except OSError:
                data = b""
            is_open = bool(data)
            end = offset + len(data)
            while self._result is None:
                text = b2a_base64(data, newline=False).decode()
                body = f'{{"offset":{offset},"data":"{text}","client":"{self._client}"{self._fed},"eof":{"false" if is_open else "true"}}}'
                taken = int(self._post("POST", f"{self._path}/input", body).get("upto", -1))
                if taken > offset:
                    data, offset = data[taken - offset :], taken
                if offset >= end and taken >= 0:
                    break
                sleep(AGAIN_S)


def _leave(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _lines(connection: "Any") -> "Iterator[str]":  # noqa: ANN401 - a socket, plain or wrapped
    """Yields the lines of the answer's body as they arrive. Raises Broken unless it is a stream of events."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        if not piece:
            raise Broken("the connection was closed")
        data += piece
    head, _, data = data.partition(b"\r\n\r\n")
    fields = head.decode("latin-1").lower()
    status = int(fields.split(" ", 2)[1])
    if status != 200:
        raise Broken(f"status {status}")
    is_chunked = "transfer-encoding: chunked" in fields
    rest = b""
    while True:
        body, data = _dechunked(data) if is_chunked else (data, b"")
        *lines, rest = (rest + body).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode()
        piece = connection.recv(1 << 16)
        if not piece:
            return
        data += piece


def _dechunked(data: bytes) -> tuple[bytes, bytes]:
    """The complete chunks at the start, and the remainder."""
    body = b""
    while True:
        end = data.find(b"\r\n")
        if end < 0:
            return body, data
        size = int(data[:end].partition(b";")[0], 16)
        if len(data) < end + 4 + size:
            return body, data
        body += data[end + 2 : end + 2 + size]
        data = data[end + 4 + size :]


def in_slurms_words(line: str) -> tuple[list[str], int]:
    """`tasks 0-1 on n1: exited with code 3` in srun's words, and the code of programs that could not be started."""
    if line.startswith("warning: "):
        return [f"srun: {line}"], 0
    who, _, how = line.partition(": ")
    tasks, _, node = who.rpartition(" on ")
    head = f"srun: error: {node}: {tasks}: "
    if how.startswith("exited with code "):
        return [f"{head}Exited with exit code {how.rpartition(' ')[2]}"], 0
    if how.startswith("killed by signal "):
        number = int(how.split(" ")[3])
        return [f"{head}{_NAMES.get(number, f'Signal {number}')}"], 0
    if how.startswith("not started: "):
        why = how.partition(": ")[2]
        code = 13 if "Permission denied" in why else 2
        return [f"slurmstepd: error: execve(): {why}", f"{head}Exited with exit code {code}"], code
    return [f"srun: error: {line}"], 0


def _raw_terminal() -> "Any":  # noqa: ANN401 - a function, or None without a terminal
    import termios
    import tty

    try:
        before = termios.tcgetattr(0)
        tty.setraw(0)
    except termios.error:
        return None
    return lambda: termios.tcsetattr(0, termios.TCSADRAIN, before)


def _say(text: str) -> None:
    try:
        write(2, text.encode("utf-8", "surrogateescape"))
    except OSError:
        return


def failed_file(error: OSError) -> str:
    """srun's message about a file that it cannot open."""
    return f"srun: error: Could not open {error.filename}: {strerror(error.errno or 0)}\n"
