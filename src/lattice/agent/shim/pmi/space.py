"""The key-value space of a step on one node: what its ranks put, and what fences brought from the others. Pure.

A rank sees its own node's keys immediately and those of other nodes after the next fence. A key that is put again has the new value;
of two nodes that put the same key before one fence, the one that comes later in the step wins on every node.
"""

from __future__ import annotations

import struct

from lattice.agent.shim.pmi.requests import MAX_KEY, MAX_VALUE, BadRank, shown

MAX_KEYS_PER_RANK = 4096
_ENTRY = struct.Struct("!HH")
# Of all nodes together, and so of one message of a fence.
MAX_SPACE_BYTES = 256 << 20


class BadBlob(Exception):
    """A node sent something that is no set of keys."""


class KeySpace:
    """`fresh` is what was put here since the last fence."""

    __slots__ = ("_fresh", "_puts", "_values")

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._fresh: dict[str, str] = {}
        self._puts: dict[int, int] = {}

    def put(self, rank: int, key: str, value: str) -> None:
        """Raises BadRank when the rank has put too much."""
        if not key or len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise BadRank(
                f'put the key "{shown(key)}" of {len(key):,} bytes with {len(value):,} bytes;'
                f" the limits are {MAX_KEY} and {MAX_VALUE:,}"
            )
        count = self._puts.get(rank, 0) + 1
        if count > MAX_KEYS_PER_RANK:
            raise BadRank(f"put more than {MAX_KEYS_PER_RANK:,} keys")
        self._puts[rank] = count
        self._values[key] = self._fresh[key] = value

    def get(self, key: str) -> str | None:
        return self._values.get(key)

    def take_fresh(self) -> bytes:
        """What the other nodes do not have yet, packed."""
        fresh, self._fresh = self._fresh, {}
        return pack(fresh)

    def apply(self, blob: bytes) -> None:
        """Add what a fence brought. Raises BadBlob."""
        self._values.update(unpack(blob))


def pack(values: dict[str, str]) -> bytes:
    parts = []
    for key, value in values.items():
        parts += [_ENTRY.pack(len(key), len(value)), key.encode("ascii"), value.encode("ascii")]
    return b"".join(parts)


def unpack(blob: bytes) -> dict[str, str]:
    """Raises BadBlob. Blobs may be joined: the last value of a key counts."""
    values = {}
    place = 0
    try:
        while place < len(blob):
            key_length, value_length = _ENTRY.unpack_from(blob, place)
            place += _ENTRY.size
            middle, end = place + key_length, place + key_length + value_length
            if not 0 < key_length <= MAX_KEY or value_length > MAX_VALUE or end > len(blob):
                raise BadBlob("an entry has an impossible length")
            values[blob[place:middle].decode("ascii")] = blob[middle:end].decode("ascii")
            place = end
    except (struct.error, UnicodeDecodeError) as error:
        raise BadBlob(str(error)) from None
    return values
