"""Cancels work that asked to be ended when it is not used: no input, no step, no connection to its ports, and less than 1 % of one CPU.

What is idle is this leader's own knowledge. A new one begins to count when it leads, so that work ends later, never earlier.
A node that does not answer, or does not measure, counts as in use.
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import CancelAllocation, Envelope
from lattice.core.machine.events import AllocationStarted, AnyEvent
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import AgentLinks, AgentUnreachable, RunKey
from lattice.ports.nodes.steps import StepView
from lattice.ports.quorum.replica import Replica

ACTOR = "idle-end"
LOOP = "idle"
LOOK_EVERY_S = 15.0
REST_S = 3600.0  # while there is nothing to look at
BUSY_SHARE = 0.01  # of one CPU
CONCURRENCY = 16


@dataclass
class _Watch:
    used_at: int  # milliseconds
    run: int = 0
    cpu_s: float = -1.0  # at `measured_at`; -1 = not measured yet
    measured_at: int = 0


class IdleEnds:
    """Implements `IdleView`. `steps` gives the live steps of an allocation, `reached` the runs to whose ports somebody was connected
    since it was last asked."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        links: AgentLinks,
        steps: Callable[[int], Sequence[StepView]],
        reached: Callable[[], Container[RunKey]] = tuple,
    ) -> None:
        self._reached = reached
        self._replica = replica
        self._clock = clock
        self._links = links
        self._steps = steps
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._watched: dict[int, _Watch] = {}
        replica.subscribe(self._note, of=(AllocationStarted,))
        self.reset()

    def reset(self) -> None:
        """Looks through the whole state; for the start, and for a new leader."""
        now = self._clock.now_ms()
        self._watched = {
            number: _Watch(now, record.run)
            for number, record in self._replica.state.allocations.items()
            if record.idle_end_s and record.is_holding
        }
        self._alarm.ring()

    def ends_at(self, number: int) -> int:
        watch, record = self._watched.get(number), self._replica.state.allocations.get(number)
        if watch is None or record is None or not record.is_running:
            return 0
        return watch.used_at + record.idle_end_s * 1000

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(LOOK_EVERY_S if self._watched else REST_S)
        await self.look()

    async def look(self) -> None:
        """Finds out what is in use, and cancels what was not for too long."""
        gate = asyncio.Semaphore(CONCURRENCY)

        reached = self._reached()

        async def one(number: int) -> None:
            async with gate:
                with self._guard.item(allocation_id(number)):
                    await self._judge(number, reached)

        await asyncio.gather(*(one(number) for number in list(self._watched)))

    async def _judge(self, number: int, reached: Container[RunKey]) -> None:
        record = self._replica.state.allocations.get(number)
        if record is None or not record.is_holding:
            self._watched.pop(number, None)
            return
        watch, now = self._watched[number], self._clock.now_ms()
        if not record.is_running or record.paused_at or record.run != watch.run:
            self._watched[number] = _Watch(now, record.run)
            return
        is_reached = RunKey(number, record.run) in reached
        if self._has_step(number, watch) or is_reached or await self._is_computing(record, watch):
            watch.used_at = now
        elif now - watch.used_at >= record.idle_end_s * 1000:
            await self._replica.propose(CancelAllocation(number=number), actor=ACTOR)

    def _has_step(self, number: int, watch: _Watch) -> bool:
        """Whether a step runs; input of terminals is noted."""
        live = [view for view in self._steps(number) if not view.has_ended]
        watch.used_at = max([watch.used_at, *(max(view.fed_at, view.started_at) for view in live)])
        return any(not view.is_terminal for view in live)

    async def _is_computing(self, record: Allocation, watch: _Watch) -> bool:
        cpu_s = await self._measured(record)
        if cpu_s is None:
            return True
        before, watch.cpu_s = watch.cpu_s, cpu_s
        since, watch.measured_at = watch.measured_at, self._clock.now_ms()
        if before < 0:
            return False
        seconds = (watch.measured_at - since) / 1000
        return cpu_s < before or cpu_s - before >= BUSY_SHARE * seconds

    async def _measured(self, record: Allocation) -> float | None:
        """Seconds of CPU time on all its nodes; None where one of them does not say."""
        total, key = 0.0, RunKey(record.number, record.run)
        for part in record.launched:
            try:
                uses = await self._links.measure(part.node, key)
            except AgentUnreachable:
                return None
            whole = next((use for use in uses if use.key == key and use.step is None), None)
            if whole is None or not whole.pids:
                return None
            total += whole.cpu_s
        return total

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, AllocationStarted):
                record = self._replica.state.allocations.get(event.number)
                if record is not None and record.idle_end_s:
                    self._watched[event.number] = _Watch(self._clock.now_ms(), record.run)
                    self._alarm.ring()
