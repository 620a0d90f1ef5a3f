"""Judges a change of work that still waits, as if it were submitted now; only quotas let it wait for headroom.

Work that has started keeps what it has. Of a group the tasks that still wait change, except those that became records of their own.
What waits must not come to wait for itself. See docs/architecture/core.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.work import dependencies, submission
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import Allocation, Request, TaskGroup
from lattice.core.model.work.dependencies import Clauses, Condition, TaskWait, numbers_in
from lattice.core.model.work.revisions import Revised, Revision

_FIGURES = ("nodes", "max_nodes", "cpus", "memory_mb", "min_memory_mb", "gpus")


def revised(
    state: State, head: Allocation, group: TaskGroup | None, command: cmd.UpdateAllocation, at: int
) -> Revised | Rejected | None:
    """What the revision of the command leads to; None when it has none."""
    wanted = command.revision
    if wanted is None:
        return None
    refusal = _check_standing(state, head, group, wanted)
    if refusal is not None:
        return refusal
    request = _request(head.request, wanted)
    vcluster = head.vcluster if wanted.vcluster is None else wanted.vcluster
    waits = _waits(state, head, group, wanted)
    if isinstance(waits, Rejected):
        return waits
    depends_on, waits_for, task_waits, delayed_until = waits
    eligible_at = max(head.eligible_at if wanted.eligible_at is None else wanted.eligible_at, delayed_until)
    if head.waits_for and not waits_for:
        eligible_at = max(eligible_at, at)  # it waited for others until now, not for the machine
    asked = head.asked if wanted.asked is None or head.asked is None else wanted.asked
    after = replace(
        head,
        vcluster=vcluster,
        request=request,
        eligible_at=eligible_at,
        walltime_s=head.walltime_s if command.walltime_s is None else command.walltime_s,
        depends_on=depends_on,
    )
    refusal = submission.check_again(state, after, at)
    if refusal is not None:
        return refusal
    return Revised(
        vcluster=vcluster,
        request=request,
        eligible_at=eligible_at,
        depends_on=depends_on,
        waits_for=waits_for,
        task_waits=task_waits,
        asked=asked,
    )


def _check_standing(state: State, head: Allocation, group: TaskGroup | None, wanted: Revision) -> Rejected | None:
    label = allocation_id(head.number)
    if group is not None and not group.pending:
        return Rejected(code="conflict", message=f"no task of {label} is pending; started tasks keep what they have")
    if group is None and not head.is_waiting:
        return Rejected(
            code="conflict",
            message=f"{label} is {head.state}; only pending allocations can be changed in this way",
            hint="Walltime, priority, name and tags can be changed while it runs.",
        )
    places = {head.vcluster, wanted.vcluster or head.vcluster}
    if any(name in state.vclusters and state.vclusters[name].scheduler == SENSITIVE for name in places):
        return Rejected(code="conflict", message="sensitive work cannot be changed after its submission")
    if wanted.depends_on is not None and head.dag:
        return Rejected(
            code="conflict",
            message=f"{label} belongs to a DAG, which says what it depends on",
            hint="Cancel the DAG and submit it again with other dependencies.",
        )
    return None


def _request(request: Request, wanted: Revision) -> Request:
    """A new number of nodes without a range ends the old range: its upper end was chosen for the old number."""
    changes = {name: value for name in _FIGURES if (value := getattr(wanted, name)) is not None}
    if "nodes" in changes:
        changes.setdefault("max_nodes", 0)
    return replace(request, **changes)


def _waits(
    state: State, head: Allocation, group: TaskGroup | None, wanted: Revision
) -> tuple[Clauses, Clauses, tuple[TaskWait, ...], int] | Rejected:
    """What it depends on, what of that is open, task by task as well, and until when that delays it."""
    if wanted.depends_on is None:
        return head.depends_on, head.waits_for, () if group is None else group.task_waits, 0
    if _waits_for_itself(state, head.number, wanted.depends_on):
        return Rejected(
            code="invalid",
            message=f"{allocation_id(head.number)} would wait for itself",
            hint="Name allocations that do not depend on it.",
        )
    found = dependencies.open_waits(state, wanted.depends_on, wanted.ended, group, {})
    if isinstance(found, Rejected):
        return found
    turns = tuple(clause for clause in head.waits_for if any(each.condition is Condition.MUTEX for each in clause))
    return wanted.depends_on, (*found.waits_for, *turns), found.task_waits, found.eligible_at


def _waits_for_itself(state: State, number: int, clauses: Clauses) -> bool:
    """Whether one of the clauses leads back to it, or to the group that it belongs to, through whatever waits."""
    seen: set[int] = set()
    open_numbers = numbers_in(clauses)
    while open_numbers:
        each = open_numbers.pop()
        if each in seen:
            continue
        seen.add(each)
        if each == number:
            return True
        open_numbers += _predecessors(state, each)
        group = state.groups.get(each)
        if group is not None and group.number < number <= group.number + group.size:
            return True
        above = state.group_of(each)
        if above is not None:
            if above.number == number:
                return True
            open_numbers += _predecessors(state, above.number)
    return False


def _predecessors(state: State, number: int) -> list[int]:
    dag = state.dependencies.dags.get(number)
    if dag is not None:
        return list(dag.members)
    group = state.groups.get(number)
    if group is not None:
        return [*numbers_in(group.template.waits_for), *(wait.number for wait in group.task_waits if wait.blocked)]
    record = state.allocations.get(number)
    return [] if record is None or record.is_terminal else list(numbers_in(record.waits_for))
