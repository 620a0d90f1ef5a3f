"""Finished work leaves the hot state some time after its end, oldest first, in bounded batches.

Tasks of a group are folded into rows of it soon after their end and leave with it.
"""

import asyncio
from collections import deque
from itertools import islice, takewhile

from lattice.control.loop import Guard, keep_turning
from lattice.control.settings import seconds_setting
from lattice.core.machine.commands import ArchiveAllocations, Envelope, FoldTasks
from lattice.core.machine.events import AllocationEnded, AnyEvent, DagEnded, TasksCancelled
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica

ACTOR = "archive"
BATCH = 200  # records that one entry of the log takes away: a few milliseconds of every server
EVERY_S = 1.0
FOLD_AFTER_MS = 5_000


class Archiving:
    """Remembers what ended when, in the order of the log; nothing is looked at before its time."""

    def __init__(self, replica: Replica, clock: Clock, *, after_s: float) -> None:
        self._replica = replica
        self._clock = clock
        self._after_s = after_s
        self._guard = Guard(ACTOR)
        self._ended: deque[tuple[int, int]] = deque()  # (ended at, number of an allocation or group)
        self._tasks: deque[tuple[int, int]] = deque()  # the same of tasks whose group is still here
        replica.subscribe(self._note, of=(AllocationEnded, TasksCancelled, DagEnded))
        self.reset()

    def reset(self) -> None:
        """Looks through the whole state; for the start, and for a new leader."""
        state = self._replica.state
        self._ended = deque(sorted(_ended_work(state)))
        self._tasks = deque(sorted(_ended_tasks(state)))

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        folded = await self.fold_due()
        if not await self.archive_due() and not folded:
            await asyncio.sleep(EVERY_S)

    async def fold_due(self) -> int:
        """Folds one batch of ended tasks; returns how many."""
        limit = self._clock.now_ms() - FOLD_AFTER_MS
        due = list(takewhile(lambda entry: entry[0] <= limit, islice(self._tasks, BATCH)))
        if due:
            await self._replica.propose_many([FoldTasks(numbers=tuple(number for _, number in due))], ACTOR)
        for _ in due:
            self._tasks.popleft()
        return len(due)

    async def archive_due(self) -> int:
        """Archives one batch of what is due; returns how many records left the hot state."""
        state = self._replica.state
        after_s = seconds_setting(state, "archive.after_s", self._after_s)
        limit = self._clock.now_ms() - int(after_s * 1000)
        # From the front only, for that is where they are taken away; what was put back stands behind later ends.
        taken = list(takewhile(lambda entry: entry[0] <= limit, islice(self._ended, BATCH)))
        due, failed = self._leaving(taken)
        if due:
            await self._replica.propose_many([ArchiveAllocations(numbers=tuple(due))], ACTOR)
        for _ in taken:
            self._ended.popleft()
        left_over = [entry for entry in taken if entry[1] in due and self._may_leave(entry[1])]
        self._ended.extend(left_over)
        self._ended.extend(failed)
        return len(due) - len(left_over)

    def _leaving(self, taken: list[tuple[int, int]]) -> tuple[dict[int, None], list[tuple[int, int]]]:
        """The numbers that leave now, and the entries that could not be judged: these are tried again."""
        due: dict[int, None] = {}
        failed: list[tuple[int, int]] = []
        for entry in taken:
            with self._guard.item(allocation_id(entry[1])):
                if self._may_leave(entry[1]):
                    due[entry[1]] = None
                continue
            failed.append(entry)
        return due, failed

    def _may_leave(self, number: int) -> bool:
        state = self._replica.state
        dag = state.dependencies.dags.get(number)
        if dag is not None:
            return dag.is_ended
        group = state.groups.get(number)
        head = group.template if group is not None else state.allocations.get(number)
        if head is None or _is_in_running_dag(state, head):
            return False
        return group.is_done if group is not None else head.is_terminal

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, AllocationEnded):
                self._note_end(envelope.at, event.number)
            elif isinstance(event, TasksCancelled):
                self._note_group(envelope.at, event.group)
            elif isinstance(event, DagEnded):
                # Its members were to stay until now.
                dag = self._replica.state.dependencies.dags[event.dag]
                self._ended.extend((envelope.at, number) for number in (*dag.members, dag.number))

    def _note_end(self, at: int, number: int) -> None:
        state = self._replica.state
        allocation = state.allocations.get(number)
        if allocation is None or allocation.group not in state.groups:
            self._ended.append((at, number))
        else:
            self._tasks.append((at, number))
            self._note_group(at, allocation.group)

    def _note_group(self, at: int, number: int) -> None:
        group = self._replica.state.groups.get(number)
        if group is not None and group.is_done:
            self._ended.append((at, number))


def _is_in_running_dag(state: State, head: Allocation) -> bool:
    dag = state.dependencies.dags.get(head.dag)
    return dag is not None and not dag.is_ended


def _ended_work(state: State) -> list[tuple[int, int]]:
    records = [record for record in state.allocations.values() if record.group not in state.groups]
    ended = [(record.ended_at, record.number) for record in records if record.is_terminal]
    ended += [(group.ended_at, group.number) for group in state.groups.values() if group.is_done]
    ended += [(dag.ended_at, dag.number) for dag in state.dependencies.dags.values() if dag.is_ended]
    return ended


def _ended_tasks(state: State) -> list[tuple[int, int]]:
    tasks = [record for record in state.allocations.values() if record.group in state.groups]
    return [(record.ended_at, record.number) for record in tasks if record.is_terminal]
