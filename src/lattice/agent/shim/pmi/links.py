"""The connections between the services of a step: the first node listens, the others connect when one of their ranks speaks.

A stranger who connects, or who sits on the port, gets one message and is dropped. A connection that breaks is made again; the member
sends its part of the open fence again then.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Collection

from lattice.agent.shim.loop import Loop, Timer, boot_now
from lattice.agent.shim.pmi import seal
from lattice.agent.shim.pmi.space import MAX_SPACE_BYTES

# Below the size from which memory for a piece would be mapped and unmapped each time.
CHUNK_BYTES = 1 << 16
HANDSHAKE_S = 5.0
AGAIN_S = 0.02
MAX_AGAIN_S = 1.0
MAX_STRANGERS = 64
BACKLOG = 1024


class Wire:
    """One socket: reads what comes, writes what it can."""

    __slots__ = ("_ended", "_is_held", "_loop", "_mask", "_outbox", "_received", "drained", "socket")

    def __init__(
        self, loop: Loop, connection: socket.socket, received: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._loop = loop
        self.socket = connection
        self._mask = 0  # what is watched for
        self._is_held = False  # nothing is read meanwhile
        self.drained: Callable[[], None] | None = None  # called when everything was written
        self._outbox = bytearray()
        self._received = received
        self._ended = ended
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._outbox += piece
        self._ready(select.EPOLLOUT)

    @property
    def backlog(self) -> int:
        """Bytes that the other side has not taken yet."""
        return len(self._outbox)

    def hold(self) -> None:
        """Read nothing until `resume`: the writer waits."""
        self._set_held(is_held=True)

    def resume(self) -> None:
        self._set_held(is_held=False)

    def _set_held(self, *, is_held: bool) -> None:
        self._is_held = is_held
        if self.socket.fileno() >= 0:
            self._watch()

    def rewire(self, received: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        """From now on these read."""
        self._received, self._ended = received, ended

    def close(self) -> None:
        if self.socket.fileno() >= 0:
            self._loop.unwatch(self.socket.fileno())
            self.socket.close()

    def _watch(self) -> None:
        mask = (0 if self._is_held else select.EPOLLIN) | (select.EPOLLOUT if self._outbox else 0)
        if mask != self._mask:
            self._mask = mask
            self._loop.watch(self.socket.fileno(), mask, self._ready)

    def _ready(self, mask: int) -> None:
        try:
            if self._outbox:
                sent = self.socket.send(self._outbox)
                del self._outbox[:sent]
                if not self._outbox and self.drained is not None:
                    self.drained()
            if mask & ~select.EPOLLOUT:
                data = self.socket.recv(CHUNK_BYTES)
                if not data:
                    raise ConnectionError
                self._received(data)
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, seal.BadSeal):
            self.close()
            self._ended()
            return
        if self.socket.fileno() >= 0:
            self._watch()


class _Stranger:
    """A client that connected to the head and has not proved anything yet."""

    __slots__ = ("greeting", "inbox", "nonce", "wire")

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.inbox = bytearray()
        self.greeting = b""
        self.nonce = b""


class Head:
    """The side of a node to which those at `places` give. `received` gets the contents of sealed frames, with the place of the node that sent them."""

    def __init__(
        self,
        loop: Loop,
        key: bytes,
        listener: socket.socket,
        places: Collection[int],
        received: Callable[[int, bytes], None],
    ) -> None:
        self._loop = loop
        self._key = key
        self._places = places
        self._received = received
        self._members: dict[int, tuple[Wire, seal.Channel]] = {}
        self._strangers: list[_Stranger] = []
        self._listener = listener
        loop.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    def send(self, place: int, content: bytes, summary: bytes = b"") -> bool:
        """False when the node is not connected."""
        member = self._members.get(place)
        if member is None:
            return False
        wire, channel = member
        wire.send(*channel.pack(content, summary))
        return True

    def close(self) -> None:
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        for wire in (*(wire for wire, _ in self._members.values()), *(each.wire for each in self._strangers)):
            if wire is not None:
                wire.close()

    def _accept(self, _mask: int) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._strangers) >= MAX_STRANGERS + len(self._places):
            self._drop(self._strangers[0])
        stranger = _Stranger()
        self._strangers.append(stranger)
        self._loop.call_at(boot_now() + HANDSHAKE_S, lambda: self._drop(stranger))
        stranger.wire = Wire(
            self._loop, connection, lambda data: self._met(stranger, data), lambda: self._drop(stranger)
        )

    def _drop(self, stranger: _Stranger) -> None:
        if stranger in self._strangers:
            self._strangers.remove(stranger)
            if stranger.wire is not None:
                stranger.wire.close()

    def _met(self, stranger: _Stranger, data: bytes) -> None:
        """Bytes of a client that may be a member. Raises BadSeal."""
        stranger.inbox += data
        wire = stranger.wire
        if wire is None:
            return
        if not stranger.greeting:
            if len(stranger.inbox) < seal.HELLO.size:
                return
            stranger.greeting = bytes(stranger.inbox[: seal.HELLO.size])
            del stranger.inbox[: seal.HELLO.size]
            if seal.read_hello(stranger.greeting) not in self._places:
                raise seal.BadSeal("no such node")
            stranger.nonce = os.urandom(seal.NONCE_BYTES)
            wire.send(seal.challenge(self._key, stranger.greeting, stranger.nonce))
        if len(stranger.inbox) >= seal.TAG_BYTES:
            self._admit(stranger, wire)

    def _admit(self, stranger: _Stranger, wire: Wire) -> None:
        inbox = bytes(stranger.inbox)
        seal.check_proof(self._key, stranger.greeting, stranger.nonce, inbox[: seal.TAG_BYTES])
        place = seal.read_hello(stranger.greeting)
        channel = seal.Channel(self._key, stranger.greeting, stranger.nonce, is_head=True, most=MAX_SPACE_BYTES)
        self._strangers.remove(stranger)
        former = self._members.get(place)
        if former is not None:
            former[0].close()
        self._members[place] = (wire, channel)

        def received(data: bytes) -> None:
            for content in channel.take(data):
                self._received(place, content)

        def ended() -> None:
            if self._members.get(place, (None,))[0] is wire:
                del self._members[place]

        wire.rewire(received, ended)
        received(inbox[seal.TAG_BYTES :])


class Member:
    """The side of a node that gives to another. `opened` is called after each handshake."""

    def __init__(
        self,
        loop: Loop,
        key: bytes,
        host: str,
        place: int,
        received: Callable[[bytes], None],
        opened: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._key = key
        self._host = host
        self._place = place
        self._received = received
        self._opened = opened
        self._ports = seal.ports(key)
        self._tried = 0
        self._inbox = bytearray()
        self._greeting = b""
        self._wire: Wire | None = None
        self._channel: seal.Channel | None = None
        self._patience: Timer | None = None
        self._again_s = AGAIN_S

    def connect(self) -> None:
        """Begin, unless that has happened; continues until the process ends."""
        if self._wire is None and self._patience is None:
            self._try()

    def send(self, content: bytes) -> bool:
        if self._wire is None or self._channel is None:
            return False
        self._wire.send(*self._channel.pack(content))
        return True

    def close(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._wire is not None:
            self._wire.close()

    def _try(self) -> None:
        port = self._ports[self._tried % len(self._ports)]
        self._tried += 1
        self._inbox.clear()
        self._channel = None
        self._greeting = seal.hello(self._place, os.urandom(seal.NONCE_BYTES))
        self._patience = self._loop.call_at(boot_now() + HANDSHAKE_S, self._failed)
        try:
            # As bytes: for a text Python would load a codec, and half of its library with it.
            host = self._host.encode("ascii" if self._host.isascii() else "idna")
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            connection = socket.socket(family, kind, protocol)
            connection.setblocking(False)
            connection.connect_ex(address)
        except OSError:
            self._failed()
            return
        self._wire = Wire(self._loop, connection, self._took, self._failed)
        self._wire.send(self._greeting)

    def _failed(self) -> None:
        """The port is closed, a stranger's, or the connection broke: the next port, and after all of them, or a broken connection, a
        pause. Most connections break because the step is over."""
        was_open = self._channel is not None
        if self._patience is not None:
            self._patience.cancel()
        if self._wire is not None:
            self._wire.close()
        self._wire = self._channel = None
        if self._tried % len(self._ports) and not was_open:
            self._patience = self._loop.call_soon(self._try)
        else:
            self._patience = self._loop.call_at(boot_now() + self._again_s, self._try)
            self._again_s = min(self._again_s * 2, MAX_AGAIN_S)

    def _took(self, data: bytes) -> None:
        """Raises BadSeal."""
        if self._channel is not None:
            for content in self._channel.take(data):
                self._received(content)
            return
        self._inbox += data
        if len(self._inbox) < seal.CHALLENGE_BYTES:
            return
        inbox = bytes(self._inbox)
        nonce = seal.check_challenge(self._key, self._greeting, inbox[: seal.CHALLENGE_BYTES])
        if self._wire is not None:
            self._wire.send(seal.proof(self._key, self._greeting, nonce))
        if self._wire is None:  # the connection broke just now
            return
        self._channel = seal.Channel(self._key, self._greeting, nonce, is_head=False, most=MAX_SPACE_BYTES)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._tried = (self._tried - 1) % len(self._ports)  # the same port again if the connection breaks
        self._again_s = AGAIN_S
        self._opened()
        self._took(inbox[seal.CHALLENGE_BYTES :])


def listen(host: str, numbers: list[int]) -> socket.socket:
    """A listener on the first port that is free; OSError when there is none. A loopback address works on this machine alone; any other
    may belong to a host name or a translated network."""
    is_loopback = host.startswith("127.") or host == "::1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    failure = OSError("no port is free")
    for number in numbers:
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host if is_loopback else "", number))
            listener.listen(BACKLOG)
        except OSError as error:
            failure = error
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise failure
