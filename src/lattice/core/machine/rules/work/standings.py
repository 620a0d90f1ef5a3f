"""How far predecessors are: the ends of allocations, groups and DAGs as their successors see them, and of single tasks.

See docs/architecture/dependencies.md.
"""

from typing import NamedTuple

from lattice.core.machine.rules.work.tasks import live_tasks
from lattice.core.machine.state import State
from lattice.core.model import intervals
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, TaskGroup
from lattice.core.model.work.dags import DagState
from lattice.core.model.work.dependencies import Dependency, Ending, index_at

Indices = tuple[tuple[int, int, int], ...]
_MANY_PAIRS = 4096


class PredecessorState(NamedTuple):
    """How far a predecessor is."""

    ending: Ending | None = None
    is_started: bool = False


def ending_of(record: Allocation) -> Ending | None:
    """How the allocation ended; None while it has not."""
    if record.state is AllocationState.COMPLETED:
        return Ending.COMPLETED
    if record.state is AllocationState.FAILED:
        return Ending.FAILED
    if record.state is AllocationState.CANCELLED:
        return Ending.SKIPPED if record.cause is Cause.DEPENDENCY else Ending.CANCELLED
    return None


def group_ending(group: TaskGroup) -> Ending | None:
    """How the group ended as a whole: as all its tasks did, or else as the worst of them."""
    if not group.is_done:
        return None
    if group.failed:
        return Ending.FAILED
    if not group.cancelled:
        return Ending.COMPLETED
    skipped = sum(each.stop - each.start for each in group.given_up if each.cause is Cause.DEPENDENCY)
    return Ending.SKIPPED if skipped == group.cancelled else Ending.CANCELLED


DAG_ENDINGS = {
    DagState.RUNNING: None,
    DagState.COMPLETED: Ending.COMPLETED,
    DagState.FAILED: Ending.FAILED,
    DagState.CANCELLED: Ending.CANCELLED,
}


def standing(state: State, number: int) -> PredecessorState | None:
    """How far the allocation, task, group or DAG is; None when there is no such thing in the hot state."""
    dag = state.dependencies.dags.get(number)
    if dag is not None:
        return PredecessorState(DAG_ENDINGS[dag.state])
    group = state.groups.get(number)
    if group is not None:
        return PredecessorState(group_ending(group), not group.pending and group.live == group.holding)
    record = state.find(number)
    return None if record is None else PredecessorState(ending_of(record), bool(record.started_at))


def size_of(indices: Indices) -> int:
    return sum((last - first) // step + 1 for first, last, step in indices)


def counterparts(successor: TaskGroup, indices: Indices, theirs: Intervals) -> Intervals:
    """Positions of the successor whose task index stands at one of these positions of a group with these indices."""
    if len(indices) * len(successor.indices) > _MANY_PAIRS:
        return _counterparts_of_many(successor, indices, theirs)
    found: list[tuple[int, int]] = []
    offset = 0
    for first, last, step in indices:
        count = (last - first) // step + 1
        for start, stop in intervals.intersection(theirs, ((offset, offset + count),)):
            low, high = first + (start - offset) * step, first + (stop - 1 - offset) * step
            found += successor.positions_of(low, high, step)
        offset += count
    return intervals.union(tuple(found), ())


def _counterparts_of_many(successor: TaskGroup, indices: Indices, theirs: Intervals) -> Intervals:
    """The same one by one, for groups with so many ranges that comparing each pair would take too long."""
    if intervals.count(theirs) == 1:
        position = successor.position_of(index_at(indices, theirs[0][0]))
        return () if position is None else ((position, position + 1),)
    there = tuple(index for first, last, step in indices for index in range(first, last + 1, step))
    wanted = frozenset(there[position] for position in intervals.positions(theirs))
    mine = (index for first, last, step in successor.indices for index in range(first, last + 1, step))
    return intervals.from_positions(position for position, index in enumerate(mine) if index in wanted)


def task_endings(state: State, group: TaskGroup) -> tuple[Intervals, Intervals]:
    """Positions of the tasks that completed, and of those that ended in another way."""
    live = intervals.from_positions(task.number - group.number - 1 for task in live_tasks(state, group))
    open_ones = intervals.union(group.pending, live)
    given_up = intervals.union(tuple((each.start, each.stop) for each in group.given_up), ())
    ran = intervals.difference(intervals.difference(((0, group.size),), open_ones), given_up)
    completed = intervals.from_positions(
        position
        for position in intervals.positions(ran)
        if (record := state.find(group.number + 1 + position)) is not None and record.state is AllocationState.COMPLETED
    )
    return completed, intervals.union(intervals.difference(ran, completed), given_up)


def delayed_until(state: State, dependency: Dependency, verdict: bool | None) -> int:
    """When work may start that waits for some time after a start that has been."""
    if not verdict or not dependency.delay_s:
        return 0
    group = state.groups.get(dependency.number)
    if group is not None:
        started_at = max((task.started_at for task in live_tasks(state, group)), default=group.started_at)
    else:
        record = state.find(dependency.number)
        if record is None:
            return 0
        started_at = record.started_at
    return (started_at or state.last_at) + dependency.delay_s * 1000
