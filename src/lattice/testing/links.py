"""Connections to nodes that only listen."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from lattice.ports.nodes.agents import AgentUnreachable, Order, OutputName, OutputPiece, RunKey
from lattice.ports.nodes.checkpoints import CheckpointOrder
from lattice.ports.nodes.images import ImagesAsk, NodeImagesTold
from lattice.ports.nodes.measures import GroupUse, MissingFeature, NodeUse
from lattice.ports.nodes.steps import AnyStepOrder, InputPiece, StepOrder
from lattice.ports.nodes.telemetry import NOT_MEASURED, TelemetryAsk, TelemetryTold


@dataclass
class FakeLinks:
    """Implements `AgentLinks`, `StepLinks` and `CheckpointLinks`: remembers what was sent to whom.

    `open` are the nodes that are connected; `heard` is set by every order. `files` is what runs wrote, by node, number, run and
    stream; a file that is followed ends once its run is in `ended`.
    """

    open: set[str] = field(default_factory=set)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    sent: list[tuple[str, Order]] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    step_orders: list[tuple[str, AnyStepOrder]] = field(default_factory=list)
    checkpoints: list[tuple[str, CheckpointOrder]] = field(default_factory=list)
    fed: list[tuple[str, int, bytes, bool]] = field(default_factory=list)
    files: dict[tuple[str, int, int, str], bytes] = field(default_factory=dict)
    ended: set[tuple[int, int]] = field(default_factory=set)
    figures: dict[str, tuple[GroupUse, ...]] = field(default_factory=dict)  # what runs use, by node
    missing: dict[str, tuple[MissingFeature, ...]] = field(default_factory=dict)  # what nodes lack
    logged: dict[str, list[str]] = field(default_factory=dict)  # what agents logged
    images: dict[str, NodeImagesTold] = field(default_factory=dict)  # what nodes say of their images
    asked: list[tuple[str, ImagesAsk]] = field(default_factory=list)  # what they were asked about them
    telemetry: dict[tuple[str, RunKey | None], tuple[TelemetryTold, ...]] = field(default_factory=dict)
    telemetry_asked: list[tuple[str, TelemetryAsk]] = field(default_factory=list)
    reads: list[tuple[str, int, bool]] = field(default_factory=list)  # node, offset, whether it was followed
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, node: str, number: int, run: int, stream: str, data: bytes) -> None:
        """The run writes."""
        key = (node, number, run, stream)
        self.files[key] = self.files.get(key, b"") + data
        self._wake()

    def end(self, number: int, run: int) -> None:
        """The run has ended: nothing more is written."""
        self.ended.add((number, run))
        self._wake()

    def ask_checkpoint(self, node: str, order: CheckpointOrder) -> bool:
        self.checkpoints.append((node, order))
        return node in self.open

    def lose(self, node: str) -> None:
        """The node is not connected any more."""
        self.open.discard(node)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

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
        self.lose(node)

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
        self.reads.append((node, offset, follow))
        key = (node, number, run, stream)
        if tail_lines:
            data = self.files.get(key, b"")
            offset = len(data) - len(b"".join(data.splitlines(keepends=True)[-tail_lines:]))
        while True:
            if node not in self.open:
                raise AgentUnreachable(f"node {node} is not connected")
            data = self.files.get(key, b"")[offset:]
            if data:
                yield OutputPiece(offset=offset, data=data)
                offset += len(data)
            elif not follow or (number, run) in self.ended:
                return
            else:
                await self._changed.wait()

    async def measure(self, node: str, key: RunKey | None = None) -> tuple[GroupUse, ...]:
        if node not in self.open:
            raise AgentUnreachable(f"node {node} is not connected")
        return tuple(use for use in self.figures.get(node, ()) if key in (None, use.key))

    async def measure_node(self, node: str) -> NodeUse:
        return NodeUse(groups=await self.measure(node), missing=self.missing.get(node, ()))

    async def read_log(self, node: str, since_s: float) -> list[str]:
        if node not in self.open:
            raise AgentUnreachable(f"node {node} is not connected")
        return self.logged.get(node, [])

    async def ask_images(self, node: str, ask: ImagesAsk) -> NodeImagesTold:
        if node not in self.open:
            raise AgentUnreachable(f"node {node} is not connected")
        self.asked.append((node, ask))
        return self.images.get(node, NodeImagesTold())

    async def ask_telemetry(self, node: str, ask: TelemetryAsk) -> TelemetryTold:
        async for told in self.follow_telemetry(node, ask):
            return told
        raise AgentUnreachable(f"node {node} does not answer")

    async def follow_telemetry(self, node: str, ask: TelemetryAsk) -> AsyncIterator[TelemetryTold]:
        if node not in self.open:
            raise AgentUnreachable(f"node {node} is not connected")
        self.telemetry_asked.append((node, ask))
        told = self.telemetry.get((node, ask.key), ())
        for each in told if ask.follow else told[:1]:
            yield each
        if not told:
            yield TelemetryTold(error=f"run {ask.key} {NOT_MEASURED}")

    def order_step(self, node: str, order: AnyStepOrder) -> bool:
        if node not in self.open:
            return False
        self.step_orders.append((node, order))
        return True

    async def feed_step(self, node: str, order: StepOrder, piece: InputPiece) -> int:
        self.fed.append((node, piece.offset, piece.data, piece.eof))
        return piece.offset + len(piece.data)

    async def read_journal(
        self, node: str, order: StepOrder, *, offset: int, follow: bool
    ) -> AsyncIterator[OutputPiece]:
        yield OutputPiece(offset=offset, data=b"")

    def take(self) -> list[tuple[str, Order]]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent
