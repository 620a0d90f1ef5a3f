"""Collectors as the server speaks to them: who gathers whom, and what they bring."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class CollectOrder(Struct, frozen=True, kw_only=True):
    """Gather these members and no others; without any: gather nothing. Tickets are in the order of the members."""

    generation: int
    interval_s: float
    limit_s: float
    members: tuple[int, ...] = ()
    tickets: tuple[int, ...] = ()


class ReportOrder(Struct, frozen=True, kw_only=True, gc=False):
    """Where a node's periodic heartbeats go; without a collector to the server. An interval of 0: one now, then none."""

    generation: int
    interval_s: float
    collector: str = ""
    address: str = ""
    member: int = 0
    ticket: int = 0
    key: bytes = b""


CollectingOrder = CollectOrder | ReportOrder


class Share(Struct, frozen=True, kw_only=True):
    """What one collector gathered, as columns: who answered, how long ago, and the sealed heartbeat."""

    collector: str
    members: Sequence[int]
    ages_ms: Sequence[int]
    beats: Sequence[bytes]


class CollectingLinks(Protocol):
    """The agents that take such orders."""

    def order_collecting(self, node: str, order: CollectingOrder) -> bool:
        """Queues the order; False when the node takes none now."""
        ...
