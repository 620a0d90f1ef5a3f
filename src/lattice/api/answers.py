"""Answers: a page of a list, and what is not just one record under the usual status: another status, text or events piece by piece."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from lattice.api.limits import MAX_DECODED_HERE, MAX_ENCODED_HERE
from lattice.ports.nodes.tunnels import Tunnel
from lattice.wire.slurm.commands import SlurmAnswer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Some bytes; `dropped` more should stand before them and are gone."""

    data: bytes
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Bytes as they are."""

    pieces: AsyncGenerator[TextPiece, None]


@dataclass(frozen=True, slots=True)
class TunnelAnswer:
    """A connection, made when the wire is ready to carry it; `release` is called when that is over or was never begun."""

    connect: Callable[[], Awaitable[Tunnel]]
    release: Callable[[], None] = lambda: None


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; `next_cursor` is None on the last page."""

    items: list[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class OtherStatus(Generic[T]):
    """A record under another status than the operation's usual one."""

    status: int
    answer: T


@dataclass(frozen=True, slots=True)
class Drawn(Generic[T]):
    """A record that REST sends as a text of another type; other wires send the record."""

    answer: T
    media_type: str
    text: str


@dataclass(slots=True)
class Shared(Generic[T]):
    """A record that several callers get. The first one whose wire is REST has it encoded for all of them."""

    answer: T
    encoded: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ServerEvent(Generic[T]):
    """One event of a stream; `data` is encoded as JSON, an empty `id` leaves the last one in force."""

    data: T
    id: str = ""
    event: str = ""

    def encode(self) -> bytes:
        """The lines of a server-sent event. JSON has no line breaks, so one data line is enough."""
        head = f"event: {self.event}\n" if self.event else ""
        if self.id:
            head += f"id: {self.id}\n"
        return head.encode() + b"data: " + msgspec.json.encode(self.data) + b"\n\n"


@dataclass(frozen=True, slots=True)
class EventAnswer(Generic[T]):
    events: AsyncGenerator[ServerEvent[T], None]


def is_long(answer: object) -> bool:
    """Whether encoding it would hold up the event loop."""
    if isinstance(answer, SlurmAnswer):
        return len(answer.stdout) > MAX_DECODED_HERE
    items = getattr(answer, "items", None)
    return isinstance(items, list) and len(items) > MAX_ENCODED_HERE
