"""Ports of this machine that lead to ports of running work: each connection gets a tunnel of its own."""

import contextlib
import errno
import selectors
import socket
import struct
import threading
from dataclasses import dataclass

from lattice.cli.context import Context
from lattice.cli.errors import CommandError
from lattice_sdk.client import Client
from lattice_sdk.errors import ApiError, LatticeError, Unreachable

HERE = "127.0.0.1"
# Ends of work are noticed between two connections, too.
LOOK_EVERY_S = 15.0
_BACKLOG = 128
_RESET = struct.pack("ii", 1, 0)  # struct linger


@dataclass(frozen=True, kw_only=True)
class Forward:
    """One port here and where it leads to."""

    allocation: str
    port: int
    node: str = ""
    local: int | None = None  # None = the same, 0 = a free one
    name: str = ""  # by which the allocation exposes it


class Forwarder:
    """Listens as soon as it is made; `serve` until the work has ended or Ctrl-C. Raises CommandError when a port here is taken."""

    def __init__(self, context: Context, forwards: list[Forward]) -> None:
        self._context = context
        self._complaints: set[str] = set()
        self._sockets: dict[socket.socket, Forward] = {}
        self._is_over = threading.Event()
        self._wake, self._woken = socket.socketpair()
        try:
            for forward in forwards:
                self._sockets[_listen(forward)] = forward
        except BaseException:
            self.close()
            raise

    @property
    def ports(self) -> list[tuple[int, Forward]]:
        """The ports here, in the order in which they were asked for."""
        return [(each.getsockname()[1], forward) for each, forward in self._sockets.items()]

    def close(self) -> None:
        for each in (*self._sockets, self._wake, self._woken):
            each.close()

    def serve(self) -> None:
        """Returns when the work has ended."""
        with selectors.DefaultSelector() as selector:
            for each in (*self._sockets, self._woken):
                selector.register(each, selectors.EVENT_READ)
            while not self._is_over.is_set():
                ready = selector.select(LOOK_EVERY_S)
                for key, _ in ready:
                    if isinstance(key.fileobj, socket.socket) and key.fileobj in self._sockets:
                        self._accept(key.fileobj)
                if not ready:
                    self._look()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            local, _ = listener.accept()
            local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = self._context.client.twin()
            carrying = lambda: self._carry(client, local, self._sockets[listener])  # noqa: E731 - one line of a thread
            threading.Thread(target=carrying, daemon=True).start()

    def _carry(self, client: Client, local: socket.socket, forward: Forward) -> None:
        try:
            tunnel = client.connect_port(forward.allocation, forward.name or forward.port, node=forward.node)
        except LatticeError as error:
            # A reset: nothing was carried, and an end would look like an empty answer.
            local.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            local.close()
            self._complain(forward, error)
            if isinstance(error, ApiError):
                self._look()
            return
        with contextlib.suppress(Unreachable):
            tunnel.relay(local)

    def _complain(self, forward: Forward, error: LatticeError) -> None:
        """Says everything once: a browser tries again and again."""
        text = f"port {forward.port}: {error}"
        if text not in self._complaints:
            self._complaints.add(text)
            self._context.note(text)

    def _look(self) -> None:
        """Whether the work still runs; what cannot be known is assumed."""
        client = self._context.client.twin()
        with contextlib.suppress(LatticeError), contextlib.closing(client):
            name = next(iter(self._sockets.values())).allocation
            state = client.get_allocation(name)
            if state.is_terminal and not self._is_over.is_set():
                self._context.note(f"{state.id} has ended: {state.state}")
                self._is_over.set()
                self._wake.send(b"x")


def _listen(forward: Forward) -> socket.socket:
    port = forward.port if forward.local is None else forward.local
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HERE, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used: {(error.strerror or '').lower()}"
        raise CommandError(
            f"port {port} of this machine {why}",
            hint=f"choose another one, as in {port + 1000 if port < 60000 else 8000}:{forward.port}, or 0:{forward.port} for any",
        ) from None
    return listener
