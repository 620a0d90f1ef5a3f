"""Pauses of running work: its processes are stopped, it keeps its nodes, and its walltime is paused.

A pause is a property of a run, not a state: everything that holds for Running holds for it, and a stop or an end that comes
meanwhile goes its usual way. A repeated request changes nothing. See docs/architecture/core.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import AllocationState

Events = tuple[ev.AnyEvent, ...]


def pause(state: State, command: cmd.PauseAllocation) -> Events | Rejected:
    name = allocation_id(command.number)
    if command.number in state.groups:
        return Rejected(code="invalid", message=f"{name} is a task group", hint="name one of its running tasks")
    record = state.allocations.get(command.number)
    if record is None:
        waits = state.find(command.number)
        if waits is None:
            return Rejected(code="not_found", message=f"no allocation {name}")
        return Rejected(code="conflict", message=f"{name} is {waits.state}; only running work can be paused")
    if record.state is not AllocationState.RUNNING:
        return Rejected(code="conflict", message=f"{name} is {record.state}; only running work can be paused")
    if bool(record.paused_at) == command.is_paused:
        return ()
    return (ev.AllocationPaused(number=command.number, is_paused=command.is_paused),)
