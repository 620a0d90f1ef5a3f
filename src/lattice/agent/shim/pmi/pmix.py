"""PMIx for the ranks of a step on one node: listens for them, and starts the server of libpmix with the first that connects.

The server is a program of its own (`agent/pmix/host.c`), run as the user. Ranks are connected through here, so that a step without
PMIx costs one open port, and all ranks are registered before the first of them is answered.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable

from lattice.agent.shim.loop import Loop
from lattice.agent.shim.pmi.links import Wire
from lattice.agent.shim.pmi.space import MAX_SPACE_BYTES

READ_BYTES = 1 << 18
BACKLOG = 1024
LOOPBACK = "127.0.0.1"
# Bounds for ranks that misbehave: bytes that wait between a rank and the server, connections at a time and connections that the server
# closed first, each for one rank and besides.
MAX_WAITING_BYTES = 1 << 20
MAX_CONNECTIONS = (8, 16)
MAX_REFUSED = (4, 16)
_HEAD = struct.Struct("!cI")
_NUMBER = struct.Struct("!I")
_ABORT = struct.Struct("!Ii")


class Events:
    """What the service wants to know."""

    __slots__ = ("aborted", "failed", "fence", "met", "spawn")

    def __init__(
        self,
        met: Callable[[int], None],
        fence: Callable[[bytes], None],
        aborted: Callable[[int, int], None],
        failed: Callable[[str], None],
        spawn: Callable[[], None],
    ) -> None:
        """`spawn`: a rank asked for further processes, and was refused."""
        self.met, self.fence, self.aborted, self.failed, self.spawn = met, fence, aborted, failed, spawn


def listen() -> socket.socket:
    """A port for the ranks of this node."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, 0))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def step_text(space: str, nodes: list[str], node_ranks: list[list[int]], place: int, directory: str) -> bytes:
    """What the server has to know of the step."""
    ranks = ";".join(",".join(map(str, each)) for each in node_ranks)
    size = sum(map(len, node_ranks))
    return "\n".join((space, str(size), str(place), ",".join(nodes), ranks, directory)).encode()


class PmixRanks:
    """`step` is what the server hears first; `ranks` is how many there are on this node."""

    def __init__(
        self, loop: Loop, listener: socket.socket, program: str, step: bytes, events: Events, ranks: int = 1
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._program = program
        self._step = step
        self._events = events
        self._to = self._from = -1  # the server's stdin and stdout
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._port = 0  # of the server, once all ranks are registered
        self._port_said = 0
        self._waiting: list[socket.socket] = []
        self._awaiting: list[Callable[[], None]] = []  # are called when the server is ready
        self._pairs: list[list[Wire]] = []  # connections that are passed on
        self._refused = 0  # those that the server closed first
        self._max_open, self._max_refused = (each * ranks + besides for each, besides in (MAX_CONNECTIONS, MAX_REFUSED))
        loop.watch(listener.fileno(), select.EPOLLIN, self._accept)

    def prepare(self, ready: Callable[[], None]) -> None:
        """Start the server before a rank connects; `ready` when all ranks are registered."""
        if self._from < 0:
            self._start()
        if self._port:
            ready()
        else:
            self._awaiting.append(ready)

    def complete(self, result: bytes) -> None:
        """The open fence has this result."""
        self._send(b"D", result)

    def close(self) -> None:
        """The server ends by itself then."""
        self._loop.unwatch(self._listener.fileno())
        for connection in (self._listener, *self._waiting):
            connection.close()
        for wire in (wire for pair in self._pairs for wire in pair):
            wire.close()
        for fd in (self._to, self._from):
            if fd >= 0:
                self._loop.unwatch(fd)
                os.close(fd)
        self._to = self._from = -1

    # The ranks.

    def _accept(self, _mask: int) -> None:
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return
        except OSError as error:
            self._give_up(f"cannot accept a rank: {error.strerror}")
            return
        if not is_own(address[1], self._listener.getsockname()[1]):
            connection.close()
            return
        if len(self._pairs) + len(self._waiting) >= self._max_open:
            connection.close()
            self._give_up(f"its ranks have more than {self._max_open} connections")
            return
        if self._from < 0:
            self._start()
        if self._port:
            self._join(connection)
        else:
            self._waiting.append(connection)

    def _join(self, connection: socket.socket) -> None:
        """Pass everything on between a rank and the server, until one of them closes. Neither is read while the other does not read."""
        try:
            inner = socket.create_connection((LOOPBACK, self._port))
        except OSError:
            connection.close()
            return
        pair: list[Wire] = []

        def passing(place: int) -> Callable[[bytes], None]:
            def passed(data: bytes) -> None:
                pair[1 - place].send(data)
                if pair[1 - place].backlog > MAX_WAITING_BYTES:
                    pair[place].hold()

            return passed

        def ended(place: int) -> None:
            for wire in pair:
                wire.close()
            self._pairs.remove(pair)
            self._refused += place
            if self._refused > self._max_refused:
                self._give_up(f"{self._refused} connections of its ranks did not speak PMIx")

        self._pairs.append(pair)
        pair.append(Wire(self._loop, connection, passing(0), lambda: ended(0)))
        pair.append(Wire(self._loop, inner, passing(1), lambda: ended(1)))
        pair[0].drained, pair[1].drained = pair[1].resume, pair[0].resume

    def _give_up(self, why: str) -> None:
        """Nothing more is accepted."""
        self._loop.unwatch(self._listener.fileno())
        self._events.failed(why)

    # The server.

    def _start(self) -> None:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        moves = [(os.POSIX_SPAWN_DUP2, theirs_in, 0), (os.POSIX_SPAWN_DUP2, theirs_out, 1)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/"}
        try:
            os.posix_spawn(self._program, [self._program], environment, file_actions=moves, setsigmask=[])
        except OSError as error:
            self._events.failed(f"cannot start {self._program}: {error.strerror}")
        os.close(theirs_in)
        os.close(theirs_out)
        for fd in (self._to, self._from):
            os.set_blocking(fd, False)
        self._loop.watch(self._from, select.EPOLLIN, self._heard)
        self._send(b"J", self._step)

    def _send(self, kind: bytes, content: bytes) -> None:
        self._outbox += _HEAD.pack(kind, len(content)) + content
        self._flush()

    def _flush(self, _mask: int = 0) -> None:
        try:
            while self._outbox:
                del self._outbox[: os.write(self._to, self._outbox[:READ_BYTES])]
        except BlockingIOError:
            self._loop.watch(self._to, select.EPOLLOUT, self._flush)
            return
        except OSError:
            self._outbox.clear()
        self._loop.unwatch(self._to)

    def _heard(self, _mask: int) -> None:
        try:
            data = os.read(self._from, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.unwatch(self._from)
            self._events.failed("the PMIx server ended")
            return
        self._inbox += data
        while len(self._inbox) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._inbox)
            if length > MAX_SPACE_BYTES:
                self._events.failed(f"the PMIx server sent {length:,} bytes")
                return
            if len(self._inbox) < _HEAD.size + length:
                return
            content = bytes(self._inbox[_HEAD.size : _HEAD.size + length])
            del self._inbox[: _HEAD.size + length]
            self._obey(kind, content)

    def _obey(self, kind: bytes, content: bytes) -> None:
        if kind == b"V" and content.startswith(b"PMIX_SERVER_URI"):
            port = content.rpartition(b":")[2]
            self._port_said = int(port) if port.isdigit() else 0
        elif kind == b"R":
            self._port = self._port_said
            waiting, self._waiting = self._waiting, []
            for connection in waiting:
                self._join(connection)
            awaiting, self._awaiting = self._awaiting, []
            for ready in awaiting:
                ready()
        elif kind == b"C" and len(content) == _NUMBER.size:
            self._events.met(_NUMBER.unpack(content)[0])
        elif kind == b"F":
            self._events.fence(content)
        elif kind == b"A" and len(content) == _ABORT.size:
            self._events.aborted(*_ABORT.unpack(content))
        elif kind == b"S":
            self._events.spawn()
        elif kind == b"X":
            self._events.failed(content[:500].decode("utf-8", "replace"))


def is_own(peer: int, own: int) -> bool:
    """Whether the other end of a connection over the loopback is a process of this user: the kernel's table says whose it is."""
    wanted = f"0100007F:{peer:04X} 0100007F:{own:04X} "
    try:
        with open("/proc/net/tcp") as table:
            for line in table:
                if wanted in line:
                    return int(line.split()[7]) == os.geteuid()
    except (OSError, ValueError, IndexError):
        return False
    return False
