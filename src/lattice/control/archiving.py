"""Finished work leaves the hot state some time after its end, oldest first, in bounded batches."""

import asyncio
from collections import deque
from itertools import islice, takewhile

from lattice.control.loop import keep_turning
from lattice.control.settings import seconds_setting
from lattice.core.machine.commands import ArchiveAllocations, Envelope
from lattice.core.machine.events import AllocationEnded, AnyEvent, TasksCancelled
from lattice.core.machine.state import State
from lattice.ports.clock import Clock
from lattice.ports.replica import Replica

ACTOR = "archive"
BATCH = 1000
EVERY_S = 1.0


class Archiving:
    """Remembers what ended when, in the order of the log; nothing is looked at before its time."""

    def __init__(self, replica: Replica, clock: Clock, *, after_s: float) -> None:
        self._replica = replica
        self._clock = clock
        self._after_s = after_s
        self._ended: deque[tuple[int, int]] = deque()  # (ended at, number of an allocation or group)
        replica.subscribe(self._note)
        self.reset()

    def reset(self) -> None:
        """Looks through the whole state; for the start, and for a new leader."""
        self._ended = deque(sorted(_ended_work(self._replica.state)))

    async def run(self) -> None:
        await keep_turning("archive", self._turn)

    async def _turn(self) -> None:
        if not await self.archive_due():
            await asyncio.sleep(EVERY_S)

    async def archive_due(self) -> int:
        """Archives one batch of what is due; returns how many records left the hot state."""
        state = self._replica.state
        after_s = seconds_setting(state, "archive.after_s", self._after_s)
        limit = self._clock.now_ms() - int(after_s * 1000)
        # From the front only, for that is where they are taken away; what was put back stands behind later ends.
        taken = list(takewhile(lambda entry: entry[0] <= limit, islice(self._ended, BATCH)))
        due = dict.fromkeys(number for _, number in taken if self._may_leave(number))
        # A group may leave only after the last of its tasks, hence in a command of its own.
        tasks = tuple(number for number in due if number not in state.groups)
        groups = tuple(number for number in due if number in state.groups)
        commands = [ArchiveAllocations(numbers=numbers) for numbers in (tasks, groups) if numbers]
        if commands:
            await self._replica.propose_many(commands, ACTOR)
        for _ in taken:
            self._ended.popleft()
        left_over = [entry for entry in taken if self._may_leave(entry[1])]
        self._ended.extend(left_over)
        return len(due) - len(left_over)

    def _may_leave(self, number: int) -> bool:
        state = self._replica.state
        allocation = state.allocations.get(number)
        if allocation is not None:
            return allocation.is_terminal
        group = state.groups.get(number)
        return group is not None and group.is_done

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, AllocationEnded):
                self._ended.append((envelope.at, event.number))
                allocation = self._replica.state.allocations.get(event.number)
                if allocation is not None and allocation.group:
                    self._note_group(envelope.at, allocation.group)
            elif isinstance(event, TasksCancelled):
                self._note_group(envelope.at, event.group)

    def _note_group(self, at: int, number: int) -> None:
        group = self._replica.state.groups.get(number)
        if group is not None and group.is_done:
            self._ended.append((at, number))


def _ended_work(state: State) -> list[tuple[int, int]]:
    ended = [(record.ended_at, record.number) for record in state.allocations.values() if record.is_terminal]
    ended += [(group.ended_at, group.number) for group in state.groups.values() if group.is_done]
    return ended
