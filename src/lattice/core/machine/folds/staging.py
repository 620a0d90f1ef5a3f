"""Folds what happened to data on the hot tier. Part of `evolve`: it cannot refuse and may not fail.

See docs/architecture/data.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import AllocationState

StagingEvent = ev.CopyChanged | ev.CopyForgotten | ev.AllocationStaged


def evolve_staging(state: State, event: StagingEvent) -> None:
    match event:
        case ev.CopyChanged():
            state.staging.put(event.copy)
        case ev.CopyForgotten():
            state.staging.drop(event.key)
        case ev.AllocationStaged():
            _staged(state, event)
        case _:
            assert_never(event)


def _staged(state: State, event: ev.AllocationStaged) -> None:
    """For a group the template has it, for all tasks that are still folded into it. The counters of a group do not know Staging."""
    changes = {"state": AllocationState.PENDING, "data": event.data, "message": event.message}
    group = state.groups.get(event.number)
    if group is not None:
        state.put_group(replace(group, template=replace(group.template, **changes)))
    else:
        state.put_allocation(replace(state.allocations[event.number], **changes))
