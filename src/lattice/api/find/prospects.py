"""When work may start that cannot start yet: at its begin, or when what it waits for is expected to be over.

A run is expected to take its whole walltime, so it may be earlier. What depends on held work, on a group or on a DAG, is not known.
"""

from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, AllocationState, Hold
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency
from lattice.ports.scheduling import SchedulingView

_DEEPEST = 30


def is_queued(head: Allocation, now_ms: int) -> bool:
    """Whether it has a place in the queue: nothing but the machine keeps it from starting."""
    return (
        head.hold is Hold.NONE
        and not head.waits_for
        and head.eligible_at <= now_ms
        and head.state is not AllocationState.STAGING
    )


class Prospects:
    """For one answer: what was found out for one allocation serves all that wait for it, however many and deep their dependencies are."""

    def __init__(self, state: State, scheduling: SchedulingView, now_ms: int) -> None:
        self._state = state
        self._scheduling = scheduling
        self._now_ms = now_ms
        self._known: dict[
            int, int | None
        ] = {}  # by number: the earliest start; None while it is looked for, and when not known

    def earliest_start(self, head: Allocation, depth: int = 0) -> int | None:
        """Milliseconds since 1970; None when it is not known."""
        if head.hold is not Hold.NONE or depth > _DEEPEST:
            return None
        if is_queued(head, self._now_ms):
            outlook = self._scheduling.outlook(head.number)
            outlook = outlook or (self._scheduling.outlook(head.group) if head.group else None)
            return None if outlook is None else outlook.predicted_start
        if not head.waits_for:
            return head.eligible_at
        after = self._after(head.waits_for, depth)
        return None if after is None else max(after, head.eligible_at)

    def _after(self, clauses: Clauses, depth: int) -> int | None:
        """All clauses must be met, each by the first of its alternatives."""
        latest = self._now_ms
        for clause in clauses:
            met = [self._met_at(each, depth) for each in clause]
            known = [moment for moment in met if moment is not None]
            if not known:
                return None
            latest = max(latest, min(known))
        return latest

    def _met_at(self, wanted: Dependency, depth: int) -> int | None:
        record = None if wanted.is_dag else self._state.allocations.get(wanted.number)
        if record is None:
            return None
        start: int | None = record.started_at
        if record.is_waiting:
            if record.number not in self._known:
                self._known[record.number] = None
                self._known[record.number] = self.earliest_start(record, depth + 1)
            start = self._known[record.number]
        elif not start:
            start = self._now_ms
        if start is None:
            return None
        if wanted.condition is Condition.AFTER:
            return start + wanted.delay_s * 1000
        return max(self._now_ms, start + record.walltime_s * 1000) if record.walltime_s else None
