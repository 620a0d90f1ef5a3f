"""When work may start that cannot start yet: at its begin, or when what it waits for is expected to be over.

A run is expected to take its whole walltime, so it may be earlier. What depends on held work, or on a group, is not known.
"""

from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, AllocationState, Hold
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency
from lattice.ports.scheduling import SchedulingView

_DEEPEST = 30


def is_queued(head: Allocation, now_ms: int) -> bool:
    """Whether it has a place in the queue: nothing but the machine keeps it from starting."""
    return head.hold is Hold.NONE and not head.waits_for and head.eligible_at <= now_ms


def earliest_start(
    state: State, scheduling: SchedulingView, head: Allocation, now_ms: int, depth: int = 0
) -> int | None:
    """Milliseconds since 1970; None when it is not known."""
    if head.hold is not Hold.NONE or depth > _DEEPEST:
        return None
    if is_queued(head, now_ms):
        outlook = scheduling.outlook(head.number) or (scheduling.outlook(head.group) if head.group else None)
        return None if outlook is None else outlook.predicted_start
    if not head.waits_for:
        return head.eligible_at
    after = _after(state, scheduling, head.waits_for, now_ms, depth)
    return None if after is None else max(after, head.eligible_at)


def _after(state: State, scheduling: SchedulingView, clauses: Clauses, now_ms: int, depth: int) -> int | None:
    """All clauses must be met, each by the first of its alternatives."""
    latest = now_ms
    for clause in clauses:
        met = [_met_at(state, scheduling, each, now_ms, depth) for each in clause]
        known = [moment for moment in met if moment is not None]
        if not known:
            return None
        latest = max(latest, min(known))
    return latest


def _met_at(state: State, scheduling: SchedulingView, wanted: Dependency, now_ms: int, depth: int) -> int | None:
    record = state.allocations.get(wanted.number)
    if record is None:
        return None
    start: int | None = record.started_at
    if record.state is AllocationState.PENDING:
        start = earliest_start(state, scheduling, record, now_ms, depth + 1)
    elif not start:
        start = now_ms
    if start is None:
        return None
    if wanted.condition is Condition.AFTER:
        return start + wanted.delay_s * 1000
    return max(now_ms, start + record.walltime_s * 1000) if record.walltime_s else None
