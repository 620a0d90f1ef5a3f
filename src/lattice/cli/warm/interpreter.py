"""The warm interpreter: a process with the usual commands imported, which forks for each line that forward.c sends it.

It serves only its own user, on a socket in a directory of that user, and runs what the Python command would run: a child takes over
the caller's streams, directory, umask and environment and then calls the same code. It ends after ten minutes without a caller, and
when a file that it has imported changes or its socket is gone.

    child -> caller   its process id and a newline: it listens
    caller -> child   8 hexadecimal digits: size of the rest; with them stdin, stdout, stderr and the directory as descriptors
                      umask, program, number of arguments, arguments, NAME=VALUE...; each ends with a zero byte
    child -> caller   one byte: the exit code

A caller that does not get the first line starts Python itself, and a line that did not arrive whole is not run: each runs once.
"""

from lattice.cli.light_imports import collect_again  # isort: skip - comes before everything that is large
import array
import fcntl
import gc
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple, NoReturn

from lattice.cli.context import Streams
from lattice.cli.main import run_line
from lattice.cli.parsing import load_command
from lattice.cli.registry import COMMANDS, Branch

SERVED = ("status", "submit", "run", "logs", "cancel", "explain", "nodes")
# What these import only when they need it.
ALSO = (
    "encodings.ascii",
    "getpass",
    "lattice.cli.following",
    "lattice.cli.input.advice",
    "lattice.cli.input.preflight",
    "lattice.cli.input.submission",
    "lattice.cli.pager",
    "lattice.cli.progress",
)
IDLE_S = 600.0
MAX_CALLERS = 64
DESCRIPTORS = 4
SIZE_BYTES = 8
MAX_BYTES = 8 << 20
REQUEST_S = 5.0
QUEUE = 64
LOCK = 3  # descriptor of the lock, from forward.c


class Request(NamedTuple):
    """A command line, and whatever else a program inherits."""

    umask: int
    program: str
    arguments: list[str]
    environment: dict[bytes, bytes]


class Damaged(Exception):
    """The caller went away, or sent something else."""


def main() -> None:
    path = sys.argv[1]
    warm()
    listener = _listening(path)
    own = _stamp(path)
    try:
        serve(listener, lambda: _stamp(path) == own)
    finally:
        if _stamp(path) == own:
            os.unlink(path)


def warm() -> None:
    """Import what the commands need, and keep it out of the sight of the collector."""
    for word in SERVED:
        entry = COMMANDS[word]
        while isinstance(entry, Branch):
            entry = entry.entries[entry.default]
        load_command(entry)
    for name in ALSO:
        import_module(name)
    gc.collect()
    collect_again()
    gc.freeze()


def _listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = f"{path}.{os.getpid()}"
    listener.bind(fresh)
    listener.listen(QUEUE)
    os.rename(fresh, path)  # callers see it when it listens
    return listener


def serve(listener: socket.socket, can_be_found: Callable[[], bool]) -> None:
    """Until no caller has come for a while, or this code is out of date."""
    files = _imported()
    children: set[int] = set()
    last = time.monotonic()
    while time.monotonic() - last < IDLE_S or children:
        ready, _, _ = select.select([listener], [], [], IDLE_S / 10)
        _reap(children)
        if not ready:
            if not can_be_found():
                return
            continue
        connection, _ = listener.accept()
        last = time.monotonic()
        with connection:
            if files != _stamps(files):
                return
            if not _is_own(connection) or len(children) >= MAX_CALLERS:
                continue
            child = os.fork()
            if child == 0:
                listener.close()
                _let_go()
                _answer(connection)
            children.add(child)


def _let_go() -> None:
    """Only the process that listens holds the lock: where it has ended, the next caller may start another."""
    with suppress(OSError):
        os.close(LOCK)


def _reap(children: set[int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            children.discard(ended)


def _imported() -> dict[str, tuple[int, int]]:
    """The files of Lattice in memory, as they are now."""
    names = [name for name in sys.modules if name.split(".")[0] in {"lattice", "lattice_sdk"} or name == "__main__"]
    return _stamps(dict.fromkeys(str(getattr(sys.modules[name], "__file__", "") or "") for name in names))


def _stamps(files: "dict[str, tuple[int, int]] | dict[str, None]") -> dict[str, tuple[int, int]]:
    return {path: _stamp(path) for path in files if path}


def _stamp(path: str) -> tuple[int, int]:
    try:
        about = os.stat(path)
    except OSError:
        return (0, 0)
    return (about.st_mtime_ns, about.st_ino)


def _is_own(connection: socket.socket) -> bool:
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return bool(struct.unpack("3i", data)[1] == os.geteuid())


def _answer(connection: socket.socket) -> NoReturn:
    """In the child: run the caller's line and tell the code."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setpgid(0, 0)  # the caller sends signals to the whole group
        connection.settimeout(REQUEST_S)
        connection.sendall(b"%d\n" % os.getpid())
        request, descriptors = _received(connection)
        connection.settimeout(None)
        _end_with(connection)
        _become(request, descriptors)
    except BaseException:  # noqa: BLE001 - nothing of a child may get back to the loop, which would end and remove the socket
        os._exit(1)  # the caller has not asked for anything yet
    try:
        code = run_line(Streams.of_process())
    except BaseException:  # noqa: BLE001 - ends as an interpreter ends
        traceback.print_exc()
    with suppress(OSError):
        connection.send(bytes((code & 0xFF,)))
    os._exit(code)


def _received(connection: socket.socket) -> tuple[Request, list[int]]:
    data, passed, _, _ = connection.recvmsg(1 << 16, socket.CMSG_SPACE(DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for level, kind, content in passed:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    pieces, size = [data], len(data)
    while size < SIZE_BYTES or size < SIZE_BYTES + _size(pieces):
        if not (data := connection.recv(1 << 18)) or size > MAX_BYTES:
            raise Damaged
        pieces.append(data)
        size += len(data)
    if len(numbers) != DESCRIPTORS:
        raise Damaged
    return parsed(b"".join(pieces)[SIZE_BYTES:]), list(numbers)


def _size(pieces: list[bytes]) -> int:
    try:
        return int(b"".join(pieces[:SIZE_BYTES])[:SIZE_BYTES], 16)
    except ValueError:
        raise Damaged from None


def parsed(body: bytes) -> Request:
    """A request from its bytes; raises Damaged."""
    if not body.endswith(b"\0"):
        raise Damaged
    try:
        mask, program, count, *words = body[:-1].split(b"\0")
        arguments = [os.fsdecode(word) for word in words[: int(count)]]
        pairs = (word.partition(b"=") for word in words[int(count) :])
        return Request(int(mask, 8), os.fsdecode(program), arguments, {name: value for name, _, value in pairs if name})
    except ValueError:
        raise Damaged from None


def _end_with(connection: socket.socket) -> None:
    """A caller that is gone is a closed terminal: SIGHUP."""
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGHUP)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([connection], [], [], 0)[0]:
        raise Damaged  # it was gone before


def _become(request: Request, descriptors: list[int]) -> None:
    """Take over what the caller's own process would have inherited."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.fchdir(descriptors[3])
    for descriptor in descriptors:
        os.close(descriptor)
    os.umask(request.umask)
    os.environb.clear()
    os.environb.update(request.environment)
    time.tzset()
    sys.argv = [request.program, *request.arguments]


if __name__ == "__main__":
    main()
