"""Connections to nodes that only listen."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from lattice.ports.nodes.agents import Order, OutputName, OutputPiece
from lattice.ports.nodes.steps import AnyStepOrder, StepOrder


@dataclass
class FakeLinks:
    """Implements `AgentLinks` and `StepLinks`: remembers what was sent to whom.

    `open` are the nodes that are connected; `heard` is set by every order.
    """

    open: set[str] = field(default_factory=set)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    sent: list[tuple[str, Order]] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    step_orders: list[tuple[str, AnyStepOrder]] = field(default_factory=list)
    fed: list[tuple[str, int, bytes, bool]] = field(default_factory=list)

    def send(self, node: str, order: Order) -> bool:
        if node not in self.open:
            return False
        self.sent.append((node, order))
        self.heard.set()
        return True

    def is_connected(self, node: str) -> bool:
        return node in self.open

    def connected(self) -> frozenset[str]:
        return frozenset(self.open)

    def close(self, node: str, why: str) -> None:
        self.closed.append((node, why))
        self.open.discard(node)

    async def read_output(
        self,
        node: str,
        number: int,
        run: int,
        stream: OutputName,
        *,
        offset: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(offset=0, data=b"")

    def order_step(self, node: str, order: AnyStepOrder) -> bool:
        if node not in self.open:
            return False
        self.step_orders.append((node, order))
        return True

    async def feed_step(self, node: str, order: StepOrder, offset: int, data: bytes, *, eof: bool) -> int:
        self.fed.append((node, offset, data, eof))
        return offset + len(data)

    async def read_journal(
        self, node: str, order: StepOrder, *, offset: int, follow: bool
    ) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(offset=offset, data=b"")

    def take(self) -> list[tuple[str, Order]]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent
