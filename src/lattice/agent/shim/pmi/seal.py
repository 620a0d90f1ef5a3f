"""Frames between the services of a step: sealed with the key of its launch. Bytes in, frames out; no I/O.

    member -> head   MAGIC, its place in the step, a nonce
    head -> member   a nonce, tag of both ("head")         a stranger on the port cannot make it
    member -> head   tag of both ("node")                  nor a stranger who connects
    both             frames: length, content, tag of its sum  under a key of this connection, numbered in each direction

The tag is BLAKE2b with a key (RFC 7693), from the interpreter's own module: `hmac` would load a library of several MiB into the shim,
and every fork would pay for it. What ranks put can be hidden as well (`Veil`), under the key of the launch, so that a result is hidden
once for all nodes. Its stream is SHAKE-256 (FIPS 202) of the key, direction, place and number, which together never come twice with
another content.
"""

from __future__ import annotations

import struct
from _blake2 import blake2b
from _operator import _compare_digest as is_same

MAGIC = b"LPMI1"
NONCE_BYTES = 16
TAG_BYTES = 32
HELLO = struct.Struct(f"!{len(MAGIC)}sI{NONCE_BYTES}s")
CHALLENGE_BYTES = NONCE_BYTES + TAG_BYTES
_LENGTH = struct.Struct("!I")
_COUNT = struct.Struct("!Q")
# Ports below the range from which Linux gives ports to clients.
FIRST_PORT = 20_000
PORTS = 12_000
TRIED_PORTS = 16


class BadSeal(Exception):
    """The other side does not know the key, or a third party changed what it sent."""


def summary_of(content: bytes) -> bytes:
    """What stands for a content in tags: made once for all who get the same."""
    return blake2b(content, digest_size=TAG_BYTES).digest()


def tag(key: bytes, *parts: bytes) -> bytes:
    """Lengths separate the parts."""
    made = blake2b(key=key, digest_size=TAG_BYTES)
    for part in parts:
        made.update(_COUNT.pack(len(part)))
        made.update(part)
    return made.digest()


class Veil:
    """Hides contents from a reader of the network; `key` is that of the launch, empty where nothing is hidden."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def turn(self, way: bytes, place: int, number: int, content: bytes) -> bytes:
        """The content hidden, or the hidden one in the clear."""
        if not self._key:
            return content
        from _sha3 import shake_256  # type: ignore[import-not-found]

        seed = tag(self._key, b"veil", way, _COUNT.pack(place), _COUNT.pack(number))
        stream = shake_256(seed).digest(len(content))
        mixed = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
        return mixed.to_bytes(len(content), "little")


def key_of_head(key: bytes, place: int) -> bytes:
    """What a head of a branch and its members prove to know, and where they meet: unlike the first node's, and other heads'."""
    return tag(key, b"branch", _COUNT.pack(place))


def ports(key: bytes) -> list[int]:
    """Where the head listens: on the first of these that is free there."""
    found: dict[int, None] = {}
    for each in range(64):
        found[FIRST_PORT + int.from_bytes(tag(key, b"port", b"%d" % each)[:4], "big") % PORTS] = None
        if len(found) == TRIED_PORTS:
            break
    return list(found)


def hello(place: int, nonce: bytes) -> bytes:
    return HELLO.pack(MAGIC, place, nonce)


def read_hello(data: bytes) -> int:
    """The place that the other side claims. Raises BadSeal."""
    magic, place, _ = HELLO.unpack(data)
    if magic != MAGIC:
        raise BadSeal("not a service of a step")
    return int(place)


def challenge(key: bytes, greeting: bytes, nonce: bytes) -> bytes:
    return nonce + tag(key, b"head", greeting, nonce)


def check_challenge(key: bytes, greeting: bytes, data: bytes) -> bytes:
    """The head's nonce. Raises BadSeal."""
    nonce, proof = data[:NONCE_BYTES], data[NONCE_BYTES:]
    if not is_same(proof, tag(key, b"head", greeting, nonce)):
        raise BadSeal("the other side does not know the key")
    return nonce


def proof(key: bytes, greeting: bytes, nonce: bytes) -> bytes:
    return tag(key, b"node", greeting, nonce)


def check_proof(key: bytes, greeting: bytes, nonce: bytes, data: bytes) -> None:
    if not is_same(data, proof(key, greeting, nonce)):
        raise BadSeal("the other side does not know the key")


class Channel:
    """One connection after the handshake."""

    __slots__ = ("_buffer", "_key", "_most", "_ours", "_received", "_sent", "_theirs")

    def __init__(self, key: bytes, greeting: bytes, nonce: bytes, *, is_head: bool, most: int) -> None:
        self._key = tag(key, b"session", greeting, nonce)
        self._ours, self._theirs = (b"h", b"m") if is_head else (b"m", b"h")
        self._most = most
        self._sent = self._received = 0
        self._buffer = bytearray()

    def pack(self, content: bytes, summary: bytes = b"") -> tuple[bytes, bytes, bytes]:
        """The pieces of a frame; `summary` is that of the content, where it is known already."""
        self._sent += 1
        seal = tag(self._key, self._ours, _COUNT.pack(self._sent), summary or summary_of(content))
        return _LENGTH.pack(len(content)), content, seal

    def take(self, data: bytes) -> list[bytes]:
        """The contents of the frames that are complete now. Raises BadSeal."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._most:
                raise BadSeal(f"a frame of {length:,} bytes")
            end = _LENGTH.size + length
            if len(self._buffer) < end + TAG_BYTES:
                break
            with memoryview(self._buffer) as view:
                content = bytes(view[_LENGTH.size : end])
            self._received += 1
            seal = tag(self._key, self._theirs, _COUNT.pack(self._received), summary_of(content))
            if not is_same(bytes(self._buffer[end : end + TAG_BYTES]), seal):
                raise BadSeal("a frame was changed")
            del self._buffer[: end + TAG_BYTES]
            found.append(content)
        return found
