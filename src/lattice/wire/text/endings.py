"""How allocations and task groups ended, in the sentence that users meet everywhere."""

from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.core.model.work.endings import cancelled_by, group_sentence, sentence


def ending_of(record: Allocation) -> str:
    """How an allocation or a task ended; empty while it has not, and when it ended well."""
    if not record.is_terminal or record.cause is None:
        return ""
    return sentence(
        allocation_id(record.number),
        record.cause.value,
        exit_code=record.exit_code,
        signal=record.signal,
        walltime_s=record.walltime_s,
        message=record.message,
        has_run=bool(record.started_at),
    )


def group_ending_of(group: TaskGroup) -> str:
    """How a task group ended, by the task that failed worst; empty before its last task has ended, and when all ended well."""
    name = allocation_id(group.number)
    if not group.is_done or not (group.failed or group.cancelled):
        return ""
    if not group.failed:
        return sentence(name, "cancelled", message=cancelled_by(group.cancelled_by))
    cause = "" if group.cause is None else group.cause.value
    worst = sentence(
        name,
        cause,
        exit_code=group.exit_code,
        signal=group.signal,
        walltime_s=group.template.walltime_s,
        has_run=bool(group.started_at),
    )
    return group_sentence(name, group.failed, group.size, worst=worst)
