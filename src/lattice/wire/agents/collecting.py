"""What nodes and collectors say to each other: frames of a length and a record, and the seal of a heartbeat.

A node connects to its collector, shows its ticket, and answers when asked. The seal is made with a key that the node has from the
server: a collector can hold a heartbeat back, never make or change one.
"""

import asyncio
import contextlib
import hmac
from hashlib import blake2s
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

SEAL_BYTES = 8
KEY_BYTES = 16
MAX_FRAME = 8 << 20
MAX_FIRST_FRAME = 64  # before a ticket was shown
MAX_BEAT = 512  # with its seal
MAX_SHARES = 4096
MAX_SERIES = 1 << 20
_LENGTH_BYTES = 4

# Messages of others are checked before they are forwarded: the server ends the stream of a sender of invalid ones.
Uint32 = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
SealedBeat = Annotated[bytes, Meta(max_length=MAX_BEAT)]
Series = Annotated[bytes, Meta(max_length=MAX_SERIES)]
NodeName = Annotated[str, Meta(max_length=253)]


class BadFrame(ValueError):
    """The peer speaks another protocol."""


class Hello(Struct, frozen=True, tag="h", array_like=True):
    """A node: which of the share's members it is, and the ticket that it has from the server."""

    member: int
    ticket: int


class Ask(Struct, frozen=True, tag="a", array_like=True, omit_defaults=True):
    """A collector: say how you are. `figures`: it has a store, and takes what you measured."""

    figures: bool = False


class Answer(Struct, frozen=True, tag="b", array_like=True):
    """A node: its sealed heartbeat."""

    beat: SealedBeat


class GatheredShare(Struct, frozen=True, array_like=True):
    """Columns of one share; ages in milliseconds."""

    collector: NodeName
    members: list[Uint32]
    ages_ms: list[Uint32]
    beats: list[SealedBeat]

    @property
    def is_sound(self) -> bool:
        """Whether the columns are alike."""
        return len(self.members) == len(self.ages_ms) == len(self.beats)


class Bring(Struct, frozen=True, tag="g", array_like=True):
    """A collector, to the one above it: what it gathered, and what those below it brought."""

    shares: Annotated[list[GatheredShare], Meta(max_length=MAX_SHARES)]


class Figures(Struct, frozen=True, tag="f", array_like=True):
    """A node, to a collector that takes them: series as a time-series store takes them."""

    number: Uint32
    series: Series


class Taken(Struct, frozen=True, tag="t", array_like=True):
    """A collector: the store has what was sent under this number, or refused it for good."""

    number: Uint32


class Probe(Struct, frozen=True, tag="k", array_like=True):
    """Probe: is the peer alive?"""


class Alive(Struct, frozen=True, tag="l", array_like=True):
    """The agent that listens; `is_served` when it has a server."""

    node: str
    is_served: bool


Frame = Hello | Ask | Answer | Bring | Probe | Alive | Figures | Taken

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    body = _encoder.encode(frame)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class Frames:
    """Bytes in, frames out. `limit` bounds the next frame, so that a stranger cannot fill the memory."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now; raises BadFrame."""
        self._rest += data
        found: list[Frame] = []
        while len(self._rest) >= _LENGTH_BYTES:
            length = int.from_bytes(self._rest[:_LENGTH_BYTES], "big")
            if length > self.limit:
                raise BadFrame(f"a frame of {length:,} bytes; the limit is {self.limit:,}")
            end = _LENGTH_BYTES + length
            if len(self._rest) < end:
                break
            try:
                found.append(_decoder.decode(bytes(self._rest[_LENGTH_BYTES:end])))
            except msgspec.DecodeError as error:
                raise BadFrame(str(error)) from error
            del self._rest[:end]
        return found


def seal(key: bytes, beat: bytes) -> bytes:
    """The heartbeat behind what proves that it is the key holder's."""
    return blake2s(beat, key=key, digest_size=SEAL_BYTES).digest() + beat


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """The heartbeat; None when its seal is not of this key."""
    beat = sealed[SEAL_BYTES:]
    proof = blake2s(beat, key=key, digest_size=SEAL_BYTES).digest()
    return beat if hmac.compare_digest(proof, sealed[:SEAL_BYTES]) else None


async def probe(address: str, within_s: float) -> Alive | None:
    """Who listens there, if anybody does."""
    host, _, port = address.rpartition(":")
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode(Probe()))
            frames = Frames(limit=256)
            while data := await reader.read(1024):
                for frame in frames.feed(data):
                    return frame if isinstance(frame, Alive) else None
    except (OSError, ValueError, TimeoutError):
        return None
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return None
