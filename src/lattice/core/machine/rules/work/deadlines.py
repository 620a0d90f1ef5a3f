"""Deadlines: what can no longer end before its deadline is ended, with the cause deadline. See docs/architecture/core.md."""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.work.tasks import live_tasks
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger, next_allocation_state
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, StopIntent

Events = tuple[ev.AnyEvent, ...]


def due_at(record: Allocation) -> int:
    """From when on the deadline cannot be kept; 0 = it has none.

    What waits must start a walltime before; what has started may use the time until then.
    """
    if not record.deadline_at or record.is_terminal:
        return 0
    return record.deadline_at - (record.walltime_s * 1000 if record.is_waiting else 0) + 1


def enforce(state: State, command: cmd.EnforceDeadline, at: int) -> Events | Rejected:
    group = state.groups.get(command.number)
    if group is not None:
        events: list[ev.AnyEvent] = []
        if group.pending and 0 < due_at(group.template) <= at:
            count = group.pending_count
            events.append(ev.TasksCancelled(group=group.number, count=count, cause=Cause.DEADLINE))
        for task in live_tasks(state, group):
            events += _enforced(task, at)
        return tuple(events) or _stale(command.number)
    record = state.allocations.get(command.number)
    return (_enforced(record, at) if record is not None else ()) or _stale(command.number)


def _enforced(record: Allocation, at: int) -> Events:
    if not 0 < due_at(record) <= at or record.intent is StopIntent.DEADLINE:
        return ()
    if next_allocation_state(record.state, AllocationTrigger.STOP) is not None:
        if record.state is AllocationState.STOPPING:
            return ()
        return (ev.AllocationStopping(number=record.number, intent=StopIntent.DEADLINE),)
    ended = ev.AllocationEnded(
        number=record.number,
        trigger=AllocationTrigger.FAIL,
        state=AllocationState.FAILED,
        cause=Cause.DEADLINE,
        message="it could no longer end before its deadline",
    )
    return (ended,)


def _stale(number: int) -> Rejected:
    return Rejected(code="stale", message=f"{allocation_id(number)} may still keep its deadline")
