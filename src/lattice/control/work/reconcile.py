"""Compares, now and then, what the state believes with what the nodes say, and ends what outlived its walltime."""

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from lattice.control.loop import Guard, Slices, keep_turning
from lattice.control.settings import seconds_setting
from lattice.control.work.runs import open_parts
from lattice.core.machine.commands import ExpireAllocation
from lattice.core.model.work.allocations import Allocation, PartPhase
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import AgentLinks
from lattice.ports.quorum.replica import Replica

_log = logging.getLogger(__name__)

ACTOR = "reconcile"
WALLTIME_MARGIN_S = 60.0


class ReconcileSettings(Struct, frozen=True, kw_only=True):
    every_s: float = 30.0
    grace_s: float = 30.0
    margin_s: float = WALLTIME_MARGIN_S


class Reconcile:
    """`running_of` tells how many live runs a node counted last; None when it has not said."""

    def __init__(
        self,
        replica: Replica,
        links: AgentLinks,
        clock: Clock,
        settings: ReconcileSettings,
        running_of: Callable[[str], int | None],
    ) -> None:
        self._replica = replica
        self._links = links
        self._clock = clock
        self._settings = settings
        self._running_of = running_of
        self._guard = Guard(ACTOR)
        self._short: dict[str, frozenset[int]] = {}  # nodes that counted too few runs at the last look

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        await asyncio.sleep(self._settings.every_s)
        await self.compare()

    async def compare(self) -> None:
        """One look at every node that holds work."""
        slices = Slices()
        overdue: dict[int, ExpireAllocation] = {}
        short: dict[str, frozenset[int]] = {}
        for node in list(self._replica.state.nodes):
            with self._guard.item(node):
                self._look_at(node, overdue, short)
            await slices.pause()
        self._ask_again(short)
        if overdue:
            _log.warning("%d allocations outlived their walltime", len(overdue))
            await self._replica.propose_many(list(overdue.values()), ACTOR)

    def _look_at(self, node: str, overdue: dict[int, ExpireAllocation], short: dict[str, frozenset[int]]) -> None:
        running = self._running_on(node)
        for allocation in running:
            if self._is_overdue(allocation):
                overdue[allocation.number] = ExpireAllocation(number=allocation.number, run=allocation.run)
        counted = self._running_of(node)
        if counted is not None and counted < len(running):
            short[node] = frozenset(allocation.number for allocation in running)

    def _running_on(self, node: str) -> list[Allocation]:
        return [
            allocation
            for allocation, part in open_parts(self._replica.state, node)
            if part.phase is PartPhase.RUNNING and allocation.is_running
        ]

    def _is_overdue(self, allocation: Allocation) -> bool:
        # A node that copies results may do so for longer than the walltime; its shim has ended the processes.
        if not allocation.walltime_s or allocation.paused_at or allocation.stages_out:
            return False
        grace_s = seconds_setting(self._replica.state, "agent.grace_s", self._settings.grace_s)
        limit_s = allocation.walltime_s + grace_s + self._settings.margin_s
        return self._clock.now_ms() > allocation.started_at + allocation.paused_ms + int(limit_s * 1000)

    def _ask_again(self, short: dict[str, frozenset[int]]) -> None:
        """A node that twice counted fewer runs than the same ones we know of has to register, and lists its runs then."""
        for node, numbers in short.items():
            if self._short.get(node) == numbers:
                _log.warning("node counts fewer runs than the state", extra={"node_id": node})
                with self._guard.item(node):
                    self._links.close(node, "runs are missing; register again")
        self._short = short
