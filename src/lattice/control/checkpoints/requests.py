"""Carries requests for checkpoints to the nodes and what the nodes say into the log.

The state is the only memory: orders are derived from it, and sent again until the state shows that the node has answered, across changes
of leader and restarts of agents. A checkpoint of which nothing more is heard is given up. See docs/architecture/checkpoints.md.
"""

import asyncio
from collections.abc import Callable

from lattice.control.checkpoints.orders import checkpoint_orders, deferral_s, given_up_at
from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import Envelope, ExpireCheckpoint, ReportCheckpoint
from lattice.core.machine.events import AnyEvent, CheckpointAdvanced, CheckpointEnded, CheckpointRequested
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.checkpoints import CheckpointPhase, OpenCheckpoint
from lattice.ports.clock import Clock
from lattice.ports.nodes.checkpoints import (
    PROBED,
    REMOVED,
    STORAGE_AWAY,
    STORED,
    UNSTORED,
    CheckpointLinks,
    CheckpointReport,
)
from lattice.ports.quorum.replica import Replica

LOOP = "checkpoints"
ACTOR = "checkpoint"
MIN_INTERVAL_S = 0.02
AWAY_FOR_S = 60.0  # the storage of a node counts as away this long after the node said so
FORCED_AFTER_MS = 5_000  # work that loses its nodes is not kept longer by storage that is away
_HEARD = (CheckpointRequested, CheckpointAdvanced, CheckpointEnded)


class CheckpointRequests:
    """Keeps the numbers of work with an open checkpoint; `retry_s` is the time between two orders to a node that said nothing."""

    def __init__(self, replica: Replica, links: CheckpointLinks, clock: Clock, retry_s: float = 2.0) -> None:
        self._replica = replica
        self._links = links
        self._clock = clock
        self._retry_s = retry_s
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._open: dict[int, None] = {}
        self._fresh: dict[int, None] = {}
        self._reports: list[ReportCheckpoint] = []
        self._next_s = 0.0
        self._away: dict[str, tuple[float, str]] = {}  # nodes that do not find the storage: when they said so, and why
        self.on_removed: Callable[[str, int], None] = lambda node, number: None  # checkpoints of ended work are gone
        self.on_probed: Callable[[str, CheckpointReport], None] = lambda node, report: None  # how fast the storage is
        self.on_copied: Callable[[str, CheckpointReport], None] = lambda node, report: (
            None
        )  # to the object store, or not
        replica.subscribe(self._note, of=_HEARD)
        self.reset()

    def reset(self) -> None:
        """Looks through the whole state; for the start, and for a new leader."""
        records = self._replica.state.allocations
        self._open = {number: None for number, record in records.items() if record.checkpoints.open is not None}
        self._fresh = dict(self._open)
        self._alarm.ring()

    def node_opened(self, node: str) -> None:
        """The node takes orders from now on: it may have missed some."""
        for number in self._open:
            record = self._replica.state.allocations.get(number)
            if record is not None and node in record.nodes:
                self._fresh[number] = None
        self._alarm.ring()

    def report(self, node: str, report: CheckpointReport) -> None:
        """What the node said will be in the log before long; if that fails, the order is repeated, and with it the report."""
        if report.phase == PROBED:
            self.on_probed(node, report)
            return
        if report.phase in (STORED, UNSTORED):
            self.on_copied(node, report)
            return
        if report.phase == REMOVED:
            self.on_removed(node, report.key.number)
            return
        if report.phase == STORAGE_AWAY:
            # Not asked again at once: a node whose storage is away answers as fast as it is asked.
            if self._is_asked(node, report):
                self._away[node] = (self._clock.monotonic_s(), report.message)
            return
        self._away.pop(node, None)
        self._reports.append(
            ReportCheckpoint(
                number=report.key.number,
                run=report.key.run,
                n=report.n,
                node=node,
                phase=CheckpointPhase(report.phase),
                bytes=report.bytes,
                elapsed_s=report.elapsed_s,
                message=report.message,
            )
        )
        self._alarm.ring()

    def _is_asked(self, node: str, report: CheckpointReport) -> bool:
        """Whether the node is to write the checkpoint that it speaks of."""
        record = self._replica.state.allocations.get(report.key.number)
        checkpoint = None if record is None else record.checkpoints.open
        if checkpoint is None or (checkpoint.run, checkpoint.n) != (report.key.run, report.n):
            return False
        return any(each.node == node for each in checkpoint.nodes)

    def is_storage_away(self) -> bool:
        """Whether a node that was to write a checkpoint lately did not find the place for it."""
        oldest_s = self._clock.monotonic_s() - AWAY_FOR_S
        self._away = {node: said for node, said in self._away.items() if said[0] >= oldest_s}
        return bool(self._away)

    def _away_for(self, checkpoint: OpenCheckpoint) -> str:
        """Why nothing can be written on one of its nodes; empty = nothing is known to be in the way."""
        if not self.is_storage_away():
            return ""
        nodes = [each.node for each in checkpoint.nodes if each.node in self._away]
        return "" if not nodes else f"node {nodes[0]}: the checkpoint storage is away: {self._away[nodes[0]][1]}"

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        wait_s = max(0.0, self._next_s - self._clock.monotonic_s()) if self._open else None
        await self._alarm.wait(wait_s)
        await self.turn()
        await asyncio.sleep(MIN_INTERVAL_S)

    async def turn(self) -> None:
        """Records what was reported, sends what is due, gives up what takes too long."""
        reports, self._reports = self._reports, []
        if reports:
            await self._replica.propose_many(reports, ACTOR)
        is_due = self._clock.monotonic_s() >= self._next_s
        numbers = list(self._open) if is_due else [number for number in self._fresh if number in self._open]
        self._fresh.clear()
        if is_due:
            self._next_s = self._clock.monotonic_s() + self._retry_s
        given_up: list[ExpireCheckpoint] = []
        for number in numbers:
            with self._guard.item(allocation_id(number)):
                self._care_for(number, given_up)
        if given_up:
            await self._replica.propose_many(given_up, ACTOR)

    def _care_for(self, number: int, given_up: list[ExpireCheckpoint]) -> None:
        state, now = self._replica.state, self._clock.now_ms()
        record = state.allocations.get(number)
        checkpoint = None if record is None else record.checkpoints.open
        if record is None or checkpoint is None:
            self._open.pop(number, None)
            return
        if now >= given_up_at(checkpoint, deferral_s(state, record)):
            silent = [each.node for each in checkpoint.nodes if each.phase is CheckpointPhase.ASKED]
            of_whom = f" of {', '.join(silent[:5])}" if silent else ""
            given_up.append(
                ExpireCheckpoint(number=number, n=checkpoint.n, message=f"nothing was heard{of_whom} in time")
            )
            return
        away = self._away_for(checkpoint) if checkpoint.stops and now >= checkpoint.asked_at + FORCED_AFTER_MS else ""
        if away:  # the work that waits for its nodes does not wait for the storage
            given_up.append(ExpireCheckpoint(number=number, n=checkpoint.n, message=away))
            return
        for node, order in checkpoint_orders(state, record, now):
            self._links.ask_checkpoint(node, order)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, CheckpointRequested | CheckpointAdvanced):
                self._open[event.number] = self._fresh[event.number] = None
                self._alarm.ring()
            elif isinstance(event, CheckpointEnded):
                self._open.pop(event.number, None)
