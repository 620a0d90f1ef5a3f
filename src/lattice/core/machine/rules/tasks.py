"""Tasks of groups: a pending one becomes a record of its own the moment something happens to it alone."""

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.allocations import Allocation


def materialise(state: State, number: int) -> tuple[Allocation, tuple[ev.AnyEvent, ...]] | None:
    """The record of an allocation and the events that must come first for it to exist; None when there is none."""
    record = state.allocations.get(number)
    if record is not None:
        return record, ()
    record = state.find(number)
    if record is None:
        return None
    position = number - record.group - 1
    return record, (ev.TaskReleased(group=record.group, position=position),)


def live_tasks(state: State, group: int) -> list[Allocation]:
    """Tasks of the group that are records and not terminal, by number."""
    size = state.groups[group].size
    numbers = range(group + 1, group + size + 1)
    if size > len(state.allocations):
        records = [state.allocations[number] for number in sorted(state.allocations) if number in numbers]
    else:
        records = [state.allocations[number] for number in numbers if number in state.allocations]
    return [record for record in records if not record.is_terminal]
