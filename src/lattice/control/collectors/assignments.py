"""What a number in a collector's share stands for: one node in one session, whose heartbeats have to come in one share, under one key.

A new assignment makes the one before it void. Anything that arrives under an unassigned number, in another's share, or with a seal that is
not of its key, is not believed and counted.
"""

import secrets
from collections import Counter
from collections.abc import Iterator

from google.protobuf.message import DecodeError
from msgspec import Struct

from lattice.core.model.nodes.observations import Beat
from lattice.ports.nodes.collecting import Share
from lattice.wire.agents.collecting import KEY_BYTES, unseal
from lattice.wire.agents.heartbeats import beat_of
from lattice.wire.pb import agent_pb2 as pb

TICKET_BITS = 64
NUMBER_BITS = 32


class Assignment(Struct, frozen=True, kw_only=True, gc=False):
    """`share` is whose share it has to come in: that of its collector, or a collector's own."""

    node: str
    session: int
    share: str
    through: str
    member: int
    ticket: int
    key: bytes


class Assignments:
    """Those in force, by their numbers."""

    def __init__(self) -> None:
        # By the number that a share names its members by. A node has one at most: `CollectorTree` voids the old one first.
        self._rows: dict[int, Assignment] = {}

    def issue(self, node: str, session: int, *, share: str, through: str) -> Assignment:
        made = Assignment(
            node=node,
            session=session,
            share=share,
            through=through,
            member=self._fresh_number(),
            ticket=1 + secrets.randbelow((1 << TICKET_BITS) - 1),
            key=secrets.token_bytes(KEY_BYTES),
        )
        self._rows[made.member] = made
        return made

    def __len__(self) -> int:
        return len(self._rows)

    def void(self, member: int) -> None:
        self._rows.pop(member, None)

    def share_of(self, member: int) -> str:
        """Empty where there is no such number."""
        found = self._rows.get(member)
        return "" if found is None else found.share

    def clear(self) -> None:
        self._rows.clear()

    def believed(self, share: Share, counts: Counter[str], seen: set[int]) -> Iterator[tuple[Assignment, Beat, float]]:
        """The heartbeats of this share that are genuine, with their ages in seconds.

        `seen` are the numbers that the same message had already: a seal costs time, and no node answers twice in a round.
        """
        rows, name = self._rows, share.collector
        for member, age_ms, sealed in zip(share.members, share.ages_ms, share.beats, strict=True):
            row = rows.get(member)
            if row is None or row.share != name or member in seen:
                counts["refused"] += 1
                continue
            seen.add(member)
            plain = unseal(row.key, sealed)
            beat = None if plain is None else _read(plain)
            if beat is None:
                counts["forged"] += 1
            else:
                yield row, beat, age_ms / 1000

    def _fresh_number(self) -> int:
        while (number := secrets.randbits(NUMBER_BITS)) in self._rows or not number:
            continue
        return number


def _read(plain: bytes) -> Beat | None:
    try:
        return beat_of(pb.Heartbeat.FromString(plain))
    except DecodeError:
        return None
