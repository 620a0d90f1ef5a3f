"""The fence between the nodes of a step, as its first node decides it: who gave, who is missing, what the result is. Pure.

Fences are numbered from 1. A node gives its keys once per fence; what it gives again, after a broken connection, changes nothing and
is answered with the result once there is one. The next fence cannot begin before every node gave to this one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from lattice.agent.shim.pmi.layout import ranks_text
from lattice.agent.shim.pmi.space import MAX_SPACE_BYTES

GIVE, DONE, LATE, ASK, MISSING, END = b"G", b"D", b"L", b"A", b"M", b"E"
_HEAD = struct.Struct("!cI")
SHOWN_NODES = 5
MAX_TEXT = 4096


class BadFrame(Exception):
    """A node sent a frame that makes no sense."""


def write_frame(kind: bytes, number: int, body: bytes = b"") -> bytes:
    return _HEAD.pack(kind, number) + body


def read_frame(content: bytes) -> tuple[bytes, int, bytes]:
    """Kind, number of the fence, body. Raises BadFrame."""
    if len(content) < _HEAD.size:
        raise BadFrame("too short")
    kind, number = _HEAD.unpack_from(content)
    return kind, number, content[_HEAD.size :]


def write_ranks(ranks: Sequence[int]) -> bytes:
    return struct.pack(f"!{len(ranks)}I", *ranks)


def read_ranks(body: bytes, known: Sequence[int]) -> list[int]:
    """Those of the ranks that the node has."""
    if len(body) % 4:
        raise BadFrame("not a list of ranks")
    own = set(known)
    return [rank for rank in struct.unpack(f"!{len(body) // 4}I", body) if rank in own]


class Star:
    """The first node's side."""

    def __init__(self, nodes: Sequence[str], node_ranks: Sequence[Sequence[int]]) -> None:
        self._nodes = nodes
        self._node_ranks = node_ranks
        self.number = 1  # of the fence that is open
        self.result = b""  # of the one before
        self._given: dict[int, bytes] = {}
        self._told: dict[int, list[int]] = {}  # ranks that a node said it misses itself
        self._kind = ""
        self._bytes = 0

    def give(self, place: int, number: int, body: bytes) -> bool:
        """Whether this completes the fence; its result is then in `result`. Raises BadFrame."""
        kind, blob = body[:4].decode("ascii", "replace"), body[4:]
        if number != self.number or place in self._given:
            return False
        if self._kind and kind != self._kind:
            raise BadFrame(f"the ranks on {self._nodes[place]} speak another PMI than the others")
        self._kind = kind
        self._bytes += len(blob)
        if self._bytes > MAX_SPACE_BYTES:
            raise BadFrame(f"the ranks put more than {MAX_SPACE_BYTES >> 20} MiB of keys")
        self._given[place] = blob
        if len(self._given) < len(self._nodes):
            return False
        self.result = b"".join(self._given[each] for each in range(len(self._nodes)))
        self.number += 1
        self._given = {}
        self._told = {}
        return True

    @property
    def has_begun(self) -> bool:
        return bool(self._given)

    def missing(self) -> list[int]:
        """Places that gave nothing yet."""
        return [place for place in range(len(self._nodes)) if place not in self._given]

    def tell(self, place: int, ranks: list[int]) -> None:
        """A node says which of its ranks it waits for."""
        self._told[place] = ranks

    @property
    def is_explained(self) -> bool:
        """Whether every missing node said which ranks it waits for."""
        return all(place in self._told for place in self.missing())

    def verdict(self) -> str:
        parts = []
        for place in self.missing():
            ranks = self._told.get(place) or self._node_ranks[place]
            parts.append(f"{ranks_text(ranks)} on {self._nodes[place]}")
        if len(parts) > SHOWN_NODES:
            parts = [*parts[:SHOWN_NODES], f"and others on {len(parts) - SHOWN_NODES} more nodes"]
        return "PMI fence timeout: waited for " + ", ".join(parts)
