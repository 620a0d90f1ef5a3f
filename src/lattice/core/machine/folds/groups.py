"""Folds events of task groups into the state. Like `evolve`, which calls it, it cannot refuse and may not fail.

Each task of a group is in exactly one of four places: in `pending`, as a record of its own, as a folded row, or counted among those
that were given up. A fold that takes it out of one puts it into another in the same step. Positions count from 0, and the number of
a task is that of its group, plus one, plus its position.
See docs/architecture/core.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.parts.folded_tasks import GIVEN_UP_AS_FAILED, task_record
from lattice.core.machine.state import State
from lattice.core.model import intervals
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, GivenUp, TaskGroup
from lattice.core.model.work.usage import total_usage

GroupEvent = ev.TaskGroupSubmitted | ev.TaskReleased | ev.TasksCancelled | ev.TaskGroupHeld | ev.TasksFolded


def evolve_group(state: State, event: GroupEvent, at: int) -> None:
    match event:
        case ev.TaskGroupSubmitted():
            state.put_group(event.group)
            state.put_payload(event.group.number, event.payload)
            state.next_number = event.group.number + event.group.size + 1
        case ev.TaskReleased():
            _task_released(state, event)
        case ev.TasksCancelled():
            _tasks_cancelled(state, event, at)
        case ev.TaskGroupHeld():
            group = state.groups[event.group]
            template = replace(group.template, hold=event.hold)
            state.put_group(replace(group, template=template, held=event.held, held_by_operator=event.held_by_operator))
        case ev.TasksFolded():
            for number in event.numbers:
                state.fold_task(number)
        case _:
            assert_never(event)


def with_use(group: TaskGroup, ended: Allocation) -> TaskGroup:
    """The group with what one more task used that ran and has ended."""
    ran_s = (ended.ended_at - ended.started_at) / 1000
    group = replace(
        group,
        cpu_s=group.cpu_s + ended.cpu_s,
        held_cpu_s=group.held_cpu_s + ended.held_cpus * ran_s,
        usage=total_usage((group.usage, ended.usage)),
    )
    if ended.peak_memory_mb <= group.peak_memory_mb:
        return group
    return replace(group, peak_memory_mb=ended.peak_memory_mb, held_memory_mb=ended.held_memory_mb)


def without_pending(group: TaskGroup, gone: Intervals) -> TaskGroup:
    """The group when these positions no longer wait."""
    return replace(
        group,
        pending=intervals.difference(group.pending, gone),
        held=intervals.difference(group.held, gone),
        held_by_operator=intervals.difference(group.held_by_operator, gone),
        blocked=intervals.difference(group.blocked, gone),
    )


def _task_released(state: State, event: ev.TaskReleased) -> None:
    group = state.groups[event.group]
    record = task_record(group, event.position)
    left = without_pending(group, ((event.position, event.position + 1),))
    state.put_group(replace(left, live=group.live + 1))
    state.put_allocation(record)


def _tasks_cancelled(state: State, event: ev.TasksCancelled, at: int) -> None:
    group = state.groups[event.group]
    gone = event.positions or group.pending
    has_failed = event.cause in GIVEN_UP_AS_FAILED
    state.put_group(
        replace(
            without_pending(group, gone),
            cancelled=group.cancelled + (0 if has_failed else event.count),
            cancelled_by=group.cancelled_by if has_failed else canceller(group, event.by),
            failed=group.failed + (event.count if has_failed else 0),
            cause=group.cause or (event.cause if has_failed else None),
            given_up=_given_up(group, gone, at, event.cause),
            ended_at=max(group.ended_at, at),
        )
    )
    ended = AllocationState.FAILED if has_failed else AllocationState.CANCELLED
    state.finished[ended] = state.finished.get(ended, 0) + event.count


def _given_up(group: TaskGroup, gone: Intervals, at: int, cause: Cause) -> tuple[GivenUp, ...]:
    return (*group.given_up, *(GivenUp(start, stop, at, cause) for start, stop in gone))


def canceller(group: TaskGroup, by: str) -> str:
    """Who cancelled all cancelled tasks of the group, these included; empty = its user, or several."""
    return by if not group.cancelled or group.cancelled_by == by else ""
