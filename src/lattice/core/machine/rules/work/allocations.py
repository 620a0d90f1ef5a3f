"""What users ask of their allocations: cancel, hold, release, requeue, update; and the archive of finished work.

An order names an allocation, a task, or a group, which means all of its tasks that the order can concern. A task without a record of
its own gets one first, by the events that `materialise` returns: they come before those that name it. What has ended never changes,
and an order that would change nothing is accepted without an event, so that it can be repeated. See docs/architecture/core.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import closeness
from lattice.core.machine.rules.checkpoints.requests import not_checkpointable
from lattice.core.machine.rules.work import ranges, revisions
from lattice.core.machine.rules.work.submission import check_walltime
from lattice.core.machine.rules.work.tags import changed_tags, check_tags
from lattice.core.machine.rules.work.tasks import materialise, task_records
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState, Hold

Events = tuple[ev.AnyEvent, ...]
_MAX_ARCHIVE_BATCH = 10_000


def cancel(state: State, command: cmd.CancelAllocation, actor: str) -> Events | Rejected:
    group = state.groups.get(command.number)
    if group is not None:
        return ranges.cancel_tasks(state, group, ranges.everything(group), actor)
    found = _live(state, command.number)
    if isinstance(found, Rejected):
        return found
    allocation, released = found
    return (*released, *ranges.cancel_one(state, allocation, actor))


def _live(state: State, number: int) -> tuple[Allocation, Events] | Rejected:
    """Work that has not ended, with the events that make it a record of its own."""
    found = materialise(state, number)
    if found is None:
        return _not_found(number)
    allocation, _ = found
    return _conflict(allocation, f"is already {allocation.state}") if allocation.is_terminal else found


def hold(state: State, command: cmd.HoldAllocation) -> Events | Rejected:
    group = state.groups.get(command.number)
    if group is not None:
        return ranges.hold_tasks(state, group, ranges.everything(group), command.hold)
    found = materialise(state, command.number)
    if found is None:
        return _not_found(command.number)
    allocation, released = found
    if not allocation.is_waiting:
        return _conflict(allocation, f"is {allocation.state}; only pending allocations can be held")
    if allocation.hold is Hold.OPERATOR or allocation.hold is command.hold:
        return ()
    return (*released, ev.AllocationHeld(number=allocation.number, hold=command.hold))


def release(state: State, command: cmd.ReleaseAllocation) -> Events | Rejected:
    group = state.groups.get(command.number)
    if group is not None:
        return ranges.release_tasks(state, group, ranges.everything(group), as_operator=command.as_operator)
    found = _live(state, command.number)
    if isinstance(found, Rejected):
        return found
    allocation, released = found
    if allocation.hold is Hold.NONE:
        return ()
    if allocation.hold is Hold.OPERATOR and not command.as_operator:
        return _held_by_operator(allocation.number)
    return (*released, ev.AllocationReleased(number=allocation.number))


def _held_by_operator(number: int) -> Rejected:
    return Rejected(
        code="forbidden",
        message=f"{allocation_id(number)} is held by an operator",
        hint="Only an operator can release it.",
    )


def requeue(state: State, command: cmd.RequeueAllocation, at: int) -> Events | Rejected:
    """Ends the present run and runs again under the same id; terminal states never change."""
    group = state.groups.get(command.number)
    if group is not None:
        return ranges.requeue_tasks(state, group, ranges.everything(group), command, at)
    allocation = state.find(command.number)
    if allocation is None:
        return _not_found(command.number)
    if not _can_requeue(allocation):
        return _conflict(allocation, f"is {allocation.state}; only starting or running allocations can be requeued")
    if command.checkpoint and allocation.checkpoints.way is None:
        return not_checkpointable(allocation)
    return ranges.requeue_one(state, allocation, command, at)


def _can_requeue(allocation: Allocation) -> bool:
    return allocation.is_running or allocation.state is AllocationState.STARTING


def update(state: State, command: cmd.UpdateAllocation, at: int) -> Events | Rejected:
    group = state.groups.get(command.number)
    released: Events = ()
    if group is not None:
        allocation = group.template
    else:
        found = materialise(state, command.number)
        if found is None:
            return _not_found(command.number)
        allocation, released = found
    if allocation.is_terminal or (group is not None and group.is_done):
        return _conflict(allocation, "has already ended")
    refusal = (
        _check_update(state, allocation, command)
        or check_tags(allocation, command)
        or ranges.check_concurrency(group, command)
        or closeness.check_update(state, allocation, command.telemetry)
    )
    if refusal is not None:
        return refusal
    revised = revisions.revised(state, allocation, group, command, at)
    if isinstance(revised, Rejected):
        return revised
    updated = ev.AllocationUpdated(
        number=command.number,
        walltime_s=allocation.walltime_s if command.walltime_s is None else command.walltime_s,
        preemption_class=(
            allocation.preemption_class if command.preemption_class is None else command.preemption_class
        ),
        name=allocation.name if command.name is None else command.name,
        concurrency=command.concurrency,
        tags=changed_tags(allocation.tags, command),
        revised=revised,
        telemetry=None
        if command.telemetry is None
        else replace(command.telemetry, since_ms=at if allocation.is_holding else 0),
    )
    return (*released, updated)


def _check_update(state: State, allocation: Allocation, command: cmd.UpdateAllocation) -> Rejected | None:
    most = state.tenants[allocation.tenant].max_class
    wanted = command.preemption_class
    if wanted is not None and not 0 <= wanted <= most:
        return Rejected(
            code="forbidden",
            message=f'tenant "{allocation.tenant}" may not use preemption class {wanted}',
            current=f"class {allocation.preemption_class}",
            requested=f"class {wanted}",
            limit=f"class {most}",
        )
    if command.walltime_s is None:
        return None
    if command.walltime_s <= 0:
        return Rejected(code="invalid", message="the walltime must be positive")
    if command.revision is not None and command.revision.vcluster is not None:
        return None  # judged by that one
    return check_walltime(command.walltime_s, state.vclusters[allocation.vcluster])


def archive(state: State, command: cmd.ArchiveAllocations) -> Events:
    """Takes along what has ended; what has not, or is gone already, is left alone."""
    numbers = tuple(
        number for number in dict.fromkeys(command.numbers[:_MAX_ARCHIVE_BATCH]) if _is_archivable(state, number)
    )
    return (ev.AllocationsArchived(numbers=numbers),) if numbers else ()


def _is_archivable(state: State, number: int) -> bool:
    dag = state.dependencies.dags.get(number)
    if dag is not None:
        # The DAG goes last as well: its members are found by it.
        gone = all(member not in state.allocations and member not in state.groups for member in dag.members)
        return dag.is_ended and gone
    if _is_in_running_dag(state, number):
        return False
    group = state.groups.get(number)
    if group is not None:
        # The group goes last: its tasks find their payload and their counters in it.
        return group.is_done and not task_records(state, group)
    record = state.allocations.get(number)
    # A task becomes a row of its group as long as that is here.
    return record is not None and record.is_terminal and record.group not in state.groups


def _is_in_running_dag(state: State, number: int) -> bool:
    record = state.allocations.get(number)
    group = state.groups.get(record.group if record is not None else number)
    head = group.template if group is not None else record
    dag = state.dependencies.dags.get(head.dag) if head is not None else None
    return dag is not None and not dag.is_ended


def _not_found(number: int) -> Rejected:
    return Rejected(
        code="not_found",
        message=f"no allocation {allocation_id(number)}",
        hint="`lattice status --all` lists yours.",
    )


def _conflict(allocation: Allocation, why: str) -> Rejected:
    return Rejected(code="conflict", message=f"{allocation_id(allocation.number)} {why}")
