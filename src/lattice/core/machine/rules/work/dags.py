"""DAGs: all members are judged together and submitted in one entry, or none; cancelling one ends all that has not ended.

Members are numbered so that each comes after those it needs, regardless of the order in the file: a member that waits
for a number waits for a lower one. See docs/architecture/dependencies.md.
"""

from difflib import get_close_matches
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.data import staging
from lattice.core.machine.rules.work import ranges, submission
from lattice.core.machine.rules.work.standings import standing
from lattice.core.machine.state import State
from lattice.core.model.ids import dag_id
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency, find_cycle

Events = tuple[ev.AnyEvent, ...]
Needs = dict[str, list[str]]  # of each member of a DAG, in the order of the members: those that it waits for
MAX_SIZE = "scheduling.max_dag_size"


def submit(state: State, command: cmd.SubmitDag, at: int) -> Events | Rejected:
    """The DAG takes a number, its members those after it. The first refusal of a member refuses all: nothing was changed yet."""
    needs = {member.ref: _refs(member) for member in command.members}
    refusal = _check_graph(state, command.members, needs)
    if refusal is not None:
        return refusal
    number = state.next_number
    batch = submission.Batch(number + 1, dag=number)
    numbers: dict[str, int] = {}
    events: list[ev.AnyEvent] = []
    for member in _in_order(command.members, needs):
        numbers[member.ref] = batch.number
        wanted = member.submission
        if member.needs:
            wanted = replace(wanted, depends_on=(*wanted.depends_on, *_clauses(member, numbers)))
        submitted = submission.judge(state, wanted, at, batch, member.ref)
        if isinstance(submitted, Rejected):
            return replace(submitted, message=f'allocation "{member.ref}": {submitted.message}')
        events.append(submitted)
    data = dict.fromkeys(event for member in command.members for event in staging.wanted(state, member.submission, at))
    dag = Dag(
        number=number,
        name=command.name,
        user=command.user,
        tenant=command.tenant,
        submitted_at=at,
        members=tuple(numbers[member.ref] for member in command.members),
    )
    return (ev.DagSubmitted(dag=dag), *events, *data)


def cancel(state: State, command: cmd.CancelDag, actor: str) -> Events | Rejected:
    """Members that have ended keep their end, and those that wait end now. The DAG itself ends as always: with its last member."""
    dag = state.dependencies.dags.get(command.number)
    if dag is None:
        return Rejected(
            code="not_found", message=f"no DAG {dag_id(command.number)}", hint="`lattice dag list` shows yours."
        )
    if dag.is_ended:
        return Rejected(code="conflict", message=f"DAG {dag_id(dag.number)} is already {dag.state}")
    events: list[ev.AnyEvent] = [ev.DagCancelled(dag=dag.number, by=actor)]
    for member in dag.members:
        now = standing(state, member)
        if now is None or now.ending is not None:
            continue
        group = state.groups.get(member)
        if group is None:
            events += ranges.cancel_one(state, state.allocations[member], actor)
        else:
            cancelled = ranges.cancel_tasks(state, group, ranges.everything(group), actor)
            events += () if isinstance(cancelled, Rejected) else cancelled
    return tuple(events)


def _clauses(member: cmd.DagMember, numbers: dict[str, int]) -> Clauses:
    return tuple(
        [
            tuple(
                [
                    Dependency(number=numbers[edge.ref], condition=edge.condition, delay_s=edge.delay_s)
                    for edge in alternatives
                ]
            )
            for alternatives in member.needs
        ]
    )


def _in_order(members: tuple[cmd.DagMember, ...], needs: Needs) -> list[cmd.DagMember]:
    """Each member after all that it needs, otherwise as written."""
    place = {member.ref: index for index, member in enumerate(members)}
    missing = {ref: len(before) for ref, before in needs.items()}
    after: dict[str, list[str]] = {}
    for successor, before in needs.items():
        for ref in before:
            after.setdefault(ref, []).append(successor)
    ready = [place[ref] for ref, count in missing.items() if not count]
    heapify(ready)
    ordered: list[cmd.DagMember] = []
    while ready:
        member = members[heappop(ready)]
        ordered.append(member)
        for ref in after.get(member.ref, ()):
            missing[ref] -= 1
            if not missing[ref]:
                heappush(ready, place[ref])
    return ordered


def _refs(member: cmd.DagMember) -> list[str]:
    """Each once, in the order in which they are named: no set, because messages and numbers follow from the order."""
    return list(dict.fromkeys(edge.ref for alternatives in member.needs for edge in alternatives))


def _check_graph(state: State, members: tuple[cmd.DagMember, ...], needs: Needs) -> Rejected | None:
    limit = int(setting_value(state.settings, MAX_SIZE))
    if len(members) > limit:
        return Rejected(
            code="invalid",
            message=f"DAG exceeds maximum size ({len(members)} allocations, limit: {limit})",
            hint="Split the workflow into smaller DAGs or increase the limit via system configuration.",
        )
    if not members:
        return Rejected(code="invalid", message="the DAG has no allocations")
    names: set[str] = set()
    for member in members:
        if member.ref in names:
            return Rejected(
                code="invalid",
                message=f'the DAG has two allocations called "{member.ref}"',
                hint="Give each allocation a name of its own.",
            )
        names.add(member.ref)
    return _check_edges(members, needs)


def _check_edges(members: tuple[cmd.DagMember, ...], needs: Needs) -> Rejected | None:
    for member in members:
        for ref in needs[member.ref]:
            if ref == member.ref:
                return Rejected(code="invalid", message=f'allocation "{ref}" depends on itself')
            if ref not in needs:
                return _dangling(member.ref, ref, needs)
        if any(edge.condition is Condition.MUTEX for clause in member.needs for edge in clause):
            return Rejected(code="invalid", message=f'allocation "{member.ref}": a mutex is not a dependency')
    cycle = find_cycle(needs)
    if cycle:
        shown = cycle if len(cycle) <= 20 else [*cycle[:10], "...", *cycle[-9:]]
        return Rejected(
            code="invalid",
            message=f"the DAG has a cycle: {' -> '.join(shown)}",
            hint="Remove one of these dependencies.",
        )
    return None


def _dangling(member: str, ref: str, names: Needs) -> Rejected:
    near = get_close_matches(ref, list(names), n=3)
    known = ", ".join(list(names)[:10]) + (", ..." if len(names) > 10 else "")
    hint = f"Did you mean {' or '.join(near)}?" if near else f"The DAG has: {known}."
    return Rejected(
        code="invalid", message=f'allocation "{member}" depends on "{ref}", which is not in the DAG', hint=hint
    )
