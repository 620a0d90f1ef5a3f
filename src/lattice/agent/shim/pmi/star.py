"""The fence between the nodes of a step, as a node decides it to which others give: who gave, who is missing, what the sum is. Pure.

Fences are numbered from 1. A node gives its keys once per fence; what it gives again, after a broken connection, changes nothing and
is answered with the result once there is one. The next fence cannot begin before every node gave to this one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from lattice.agent.shim.pmi.layout import ranks_text
from lattice.agent.shim.pmi.ranks import NAMES
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
    """`below` are the places whose keys each member brings, itself included; members and what they bring are in order of place."""

    def __init__(
        self, nodes: Sequence[str], node_ranks: Sequence[Sequence[int]], below: Mapping[int, Sequence[int]]
    ) -> None:
        self._nodes = nodes
        self._node_ranks = node_ranks
        self.below = below
        self.number = 1  # of the fence that is open
        self.sum = b""  # of the one before
        self.kind = ""
        self._first = 0  # the member that told the kind
        self._given: dict[int, bytes] = {}
        self._told: dict[int, list[int]] = {}  # ranks that a member said it misses itself
        self._bytes = 0

    def give(self, place: int, number: int, kind: str, blob: bytes) -> bool:
        """Whether this completes the fence; its sum is then in `sum`. Raises BadFrame."""
        if number != self.number or place in self._given:
            return False
        if self.kind and kind != self.kind:
            raise BadFrame(
                f"ranks on {self._nodes[place]} speak {NAMES.get(kind, 'something else')}, and ranks on"
                f" {self._nodes[self._first]} {NAMES.get(self.kind, 'something else')};"
                " start all ranks with the same MPI library"
            )
        if not self.kind:
            self.kind, self._first = kind, place
        self._bytes += len(blob)
        if self._bytes > MAX_SPACE_BYTES:
            raise BadFrame(f"the ranks put more than {MAX_SPACE_BYTES >> 20} MiB of keys")
        self._given[place] = blob
        if len(self._given) < len(self.below):
            return False
        self.sum = b"".join(self._given[each] for each in self.below)
        self.number += 1
        self._given = {}
        self._told = {}
        return True

    def missing(self) -> list[int]:
        """Members that gave nothing yet."""
        return [place for place in self.below if place not in self._given]

    def awaited(self) -> set[int]:
        """Places of all nodes below them."""
        return {place for member in self.missing() for place in self.below[member]}

    def tell(self, place: int, ranks: list[int]) -> None:
        """A member says which ranks it waits for."""
        self._told[place] = ranks

    def ranks_below(self, member: int) -> list[int]:
        return [rank for place in self.below[member] for rank in self._node_ranks[place]]

    @property
    def is_explained(self) -> bool:
        """Whether every missing member said which ranks it waits for."""
        return all(place in self._told for place in self.missing())

    def missing_ranks(self) -> list[int]:
        """As far as it is known: all ranks of a member that said nothing."""
        return [rank for member in self.missing() for rank in self._told.get(member) or self.ranks_below(member)]

    def verdict(self) -> str:
        waited = set(self.missing_ranks())
        parts = []
        for member in self.missing():
            for place in self.below[member]:
                ranks = [rank for rank in self._node_ranks[place] if rank in waited]
                if ranks:
                    parts.append(f"{ranks_text(ranks)} on {self._nodes[place]}")
        if len(parts) > SHOWN_NODES:
            parts = [*parts[:SHOWN_NODES], f"and others on {len(parts) - SHOWN_NODES} more nodes"]
        return "PMI fence timeout: waited for " + ", ".join(parts)
