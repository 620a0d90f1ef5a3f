"""Connections to ports of running work. A frame is four bytes of length, most significant first, and that many bytes; length 0 ends
one direction. `Tunnel.relay` joins one to a socket; `read`, `write` and `end` are for programs that speak themselves."""

import contextlib
import selectors
import socket
import struct
from collections import deque

from lattice_sdk.errors import Unreachable
from lattice_sdk.session import PREFIX, Request, Session, explain
from lattice_sdk.transport import Connection, quote

PIECE = 1 << 18
MAX_WAITING = 1 << 20
NAME = "lattice-tunnel"
_WANTS = ("SSLWantReadError", "SSLWantWriteError", "BlockingIOError")
_RESET, _REGULAR = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)  # struct linger


def open_tunnel(session: Session, allocation_id: str, port: int | str, node: str) -> "Tunnel":
    """Raises what the server refuses, and Unreachable."""
    path = f"{PREFIX}/allocations/{quote(allocation_id)}/ports/{quote(str(port))}/connect"
    upgrade = (("Connection", "Upgrade"), ("Upgrade", NAME))
    query = (("node", node),) if node else ()
    stream = session.open(Request(method="GET", path=path, query=query, headers=upgrade))
    return Tunnel(stream.connection, session.addresses)


class Tunnel:
    """One connection; close it at the end."""

    def __init__(self, connection: Connection, addresses: tuple[str, ...]) -> None:
        self._socket, early = connection.detach()
        self._addresses = addresses
        self._frames = _Frames()
        self._ready = deque(self._frames.take(early))

    def __enter__(self) -> "Tunnel":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Raises Unreachable when the connection is gone."""
        for place in range(0, len(data), PIECE):
            piece = data[place : place + PIECE]
            self._send(len(piece).to_bytes(4, "big") + piece)

    def end(self) -> None:
        """Nothing more is written."""
        self._send(bytes(4))

    def read(self) -> bytes:
        """The next bytes; none when the other side has ended. Raises Unreachable when it breaks off."""
        while not self._ready:
            if self._frames.is_over:
                return b""
            try:
                data = self._socket.recv(PIECE)
            except OSError as error:
                raise self._gone(error) from None
            if not data:
                raise self._gone(ConnectionResetError("closed in the middle"))
            self._ready.extend(self._frames.take(data))
        return self._ready.popleft()

    def relay(self, local: socket.socket) -> None:
        """Carries everything between this and a connected socket until both directions have ended; closes both.

        Raises Unreachable when this end breaks off: then the other end of `local` sees a reset, not an end.
        So it does when this process is killed.
        """
        _close_by(local, _RESET)
        pump = _Pump(self._socket, local, self._frames, self._ready)
        try:
            pump.run()
            _close_by(local, _REGULAR)
        except _Broken as broken:
            raise self._gone(broken.error) from None
        finally:
            local.close()
            self.close()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._gone(error) from None

    def _gone(self, error: OSError) -> Unreachable:
        return Unreachable(self._addresses, f"the connection broke off, {explain(error)}", 0.0)


def _close_by(which: socket.socket, linger: bytes) -> None:
    with contextlib.suppress(OSError):
        which.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


class _Broken(Exception):
    """The connection to the server ended in the middle."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class _Frames:
    """Bytes in, payloads out; a payload may come in parts."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self.is_over = False

    def take(self, data: bytes) -> list[bytes]:
        found: list[bytes] = []
        place = 0
        while place < len(data) and not self.is_over:
            if self._left:
                piece = data[place : place + self._left]
                found.append(piece)
                place += len(piece)
                self._left -= len(piece)
                continue
            part = data[place : place + 4 - len(self._head)]
            self._head += part
            place += len(part)
            if len(self._head) == 4:
                self._left, self._head = int.from_bytes(self._head, "big"), b""
                self.is_over = not self._left
        return found


class _Pump:
    """Two sockets in one thread, neither of which may wait for the other: a program that echoes would stop both."""

    def __init__(self, server: socket.socket, local: socket.socket, frames: _Frames, ready: deque[bytes]) -> None:
        self._server, self._local = server, local
        self._frames = frames
        self._upward: deque[bytes] = deque()
        self._downward = ready
        self._waiting_up = 0
        self._waiting_down = sum(map(len, ready))
        self._has_ended = False  # the local side sends no more
        self._was_told = False  # that no more comes from the server

    def run(self) -> None:
        self._server.setblocking(False)
        self._local.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            selector.register(self._local, selectors.EVENT_READ)
            while True:
                self._pass_on()
                if self._is_done:
                    return
                self._watch(selector, self._server, self._reads_server, bool(self._upward))
                self._watch(selector, self._local, self._reads_local, bool(self._downward))
                is_pending = self._reads_server and getattr(self._server, "pending", int)() > 0
                for key, _ in selector.select(0 if is_pending else None):
                    if key.fileobj is self._local and self._reads_local:
                        self._read_local()
                if self._reads_server:
                    self._read_server()

    @property
    def _is_done(self) -> bool:
        return self._was_told and self._has_ended and not self._upward

    @property
    def _reads_server(self) -> bool:
        return not self._frames.is_over and self._waiting_down < MAX_WAITING

    @property
    def _reads_local(self) -> bool:
        return not self._has_ended and self._waiting_up < MAX_WAITING

    def _watch(self, selector: selectors.BaseSelector, which: socket.socket, reads: bool, writes: bool) -> None:
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)
        is_known = which in selector.get_map()
        if events and is_known:
            selector.modify(which, events)
        elif events:
            selector.register(which, events)
        elif is_known:
            selector.unregister(which)

    def _read_local(self) -> None:
        try:
            data = self._local.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            raise _Broken(ConnectionResetError("the program here has gone")) from None
        self._has_ended = not data
        self._upward.append(len(data).to_bytes(4, "big"))
        if data:
            self._upward.append(data)
        self._waiting_up += len(data) + 4

    def _read_server(self) -> None:
        try:
            data = self._server.recv(PIECE)
        except OSError as error:
            if type(error).__name__ in _WANTS:
                return
            raise _Broken(error) from None
        if not data:
            raise _Broken(ConnectionResetError("closed in the middle"))
        for piece in self._frames.take(data):
            self._downward.append(piece)
            self._waiting_down += len(piece)

    def _pass_on(self) -> None:
        self._waiting_up -= _flush(self._server, self._upward)
        try:
            self._waiting_down -= _flush(self._local, self._downward)
        except _Broken:
            raise _Broken(ConnectionResetError("the program here has gone")) from None
        if self._frames.is_over and not self._downward and not self._was_told:
            self._was_told = True
            with contextlib.suppress(OSError):
                self._local.shutdown(socket.SHUT_WR)


def _flush(to: socket.socket, pieces: deque[bytes]) -> int:
    """Sends what fits; how much."""
    sent = 0
    try:
        while pieces:
            count = to.send(pieces[0])
            sent += count
            if count == len(pieces[0]):
                pieces.popleft()
            else:
                pieces[0] = pieces[0][count:]
    except OSError as error:
        if type(error).__name__ not in _WANTS:
            raise _Broken(error) from None
    return sent
