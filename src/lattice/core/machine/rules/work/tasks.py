"""Tasks of groups: a pending one becomes a record of its own the moment something happens to it alone.

See docs/architecture/core.md.
"""

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, TaskGroup


def materialise(state: State, number: int) -> tuple[Allocation, tuple[ev.AnyEvent, ...]] | None:
    """An allocation and the events that must come first for it to be a record of its own; None when there is none.

    A task that ended as a row or an entry of its group stays one: nothing happens to it any more.
    """
    record = state.allocations.get(number)
    if record is not None:
        return record, ()
    record = state.find(number)
    if record is None:
        return None
    if record.is_terminal:
        return record, ()
    position = number - record.group - 1
    return record, (ev.TaskReleased(group=record.group, position=position),)


def live_tasks(state: State, group: TaskGroup) -> list[Allocation]:
    """Tasks of the group that are records and not terminal, by number."""
    return [record for record in task_records(state, group) if not record.is_terminal]


def task_records(state: State, group: TaskGroup) -> list[Allocation]:
    """Tasks of the group that are records, by number. Walks the block or the records, whichever are fewer."""
    numbers = range(group.number + 1, group.number + group.size + 1)
    if group.size > len(state.allocations):
        return [state.allocations[number] for number in sorted(state.allocations) if number in numbers]
    return [state.allocations[number] for number in numbers if number in state.allocations]
