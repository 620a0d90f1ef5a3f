"""Ends what can no longer end before its deadline: what waits, a walltime before; what runs, at the deadline itself."""

import asyncio

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import EnforceDeadline, Envelope
from lattice.core.machine.events import (
    AllocationRequeued,
    AllocationStarted,
    AllocationSubmitted,
    AllocationUpdated,
    AnyEvent,
    TaskGroupSubmitted,
)
from lattice.core.machine.rules.work.deadlines import due_at
from lattice.core.model.ids import allocation_id
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica

ACTOR = "deadline"
LOOP = "deadlines"
MIN_INTERVAL_S = 0.1
AT_LEAST_EVERY_S = 60.0
_HEARD = (AllocationSubmitted, TaskGroupSubmitted, AllocationStarted, AllocationRequeued, AllocationUpdated)


class Deadlines:
    """Keeps the numbers of live work that has a deadline, and looks at them when one is due."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._watched: dict[int, None] = {}
        replica.subscribe(self._note, of=_HEARD)
        self.reset()

    def reset(self) -> None:
        """Looks through the whole state; for the start, and for a new leader."""
        state = self._replica.state
        self._watched = {
            number: None
            for number, record in state.allocations.items()
            if record.deadline_at and not record.is_terminal and record.group not in state.groups
        }
        self._watched |= {number: None for number, group in state.groups.items() if group.template.deadline_at}
        self._alarm.ring()

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(await self.enforce_due())
        await asyncio.sleep(MIN_INTERVAL_S)

    async def enforce_due(self) -> float:
        """Ends what is due; returns for how long nothing else will be."""
        now = self._clock.now_ms()
        due: dict[int, int] = {}
        for number in self._watched:
            with self._guard.item(allocation_id(number)):
                due[number] = self._due_at(number)
        for number in [number for number, at in due.items() if not at]:
            del self._watched[number]
        overdue = [number for number, at in due.items() if 0 < at <= now]
        if overdue:
            await self._replica.propose_many([EnforceDeadline(number=number) for number in overdue], ACTOR)
        ahead = [at - now for at in due.values() if at > now]
        # What is being stopped stays due until it has ended; there is no need to look at it all the time.
        return min([AT_LEAST_EVERY_S, *(ms / 1000 for ms in ahead), *([1.0] if overdue else [])])

    def _due_at(self, number: int) -> int:
        """0 for what needs no more watching."""
        state = self._replica.state
        group = state.groups.get(number)
        if group is not None:
            if group.is_done:
                return 0
            return due_at(group.template) if group.pending else group.template.deadline_at + 1
        record = state.allocations.get(number)
        return 0 if record is None else due_at(record)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            match event:
                case AllocationSubmitted() if event.allocation.deadline_at:
                    self._watch(event.allocation.number)
                case TaskGroupSubmitted() if event.group.template.deadline_at:
                    self._watch(event.group.number)
                case AllocationStarted() | AllocationRequeued() | AllocationUpdated() if event.number in self._watched:
                    self._alarm.ring()
                case _:
                    pass

    def _watch(self, number: int) -> None:
        self._watched[number] = None
        self._alarm.ring()
