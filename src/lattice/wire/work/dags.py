"""DAGs on the wire: the submission, strictly read, and the views of a DAG, its members and its graph."""

import re
from collections.abc import Callable

from msgspec import UNSET, Struct, UnsetType, structs

from lattice.core.machine.commands import Edge
from lattice.core.model.ids import allocation_id, dag_id
from lattice.core.model.work.allocations import QUEUED, Allocation, AllocationState, TaskGroup
from lattice.core.model.work.dags import Dag, DagState
from lattice.core.model.work.dependencies import Condition, waiting_sentence
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_name
from lattice.wire.text.times import rfc3339
from lattice.wire.text.waiting import waiting_reason
from lattice.wire.work.allocations import group_state, group_view
from lattice.wire.work.dependencies import UnresolvedClauses, UnresolvedDependency, dependencies_text, read_dependencies
from lattice.wire.work.submissions import Submission, check_together


class DagAllocation(Submission, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One member: a submission with an ID in the DAG (`id`, otherwise its name). `nodes` and `walltime` are short forms."""

    id: str = ""
    nodes: int | Short | None = None
    walltime: Short | int | None = None


class DagSubmission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /dags. Tenant, project, vCluster and directory are defaults for members that set none."""

    allocations: list[DagAllocation]
    name: str = ""
    request_id: str = ""
    tenant: str = ""
    project: str = ""
    vcluster: str = ""
    cwd: str = ""


class DagCounts(Struct, frozen=True, kw_only=True):
    size: int
    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int


class DagMemberView(Struct, frozen=True, kw_only=True):
    ref: str
    id: str
    number: int
    name: str
    state: AllocationState
    reason: str
    cause: str | None
    message: str
    exit_code: int | None
    nodes: tuple[str, ...]
    started_at: str | None
    completed_at: str | None
    depends_on: str
    task_count: int | None = None


class DagView(Struct, frozen=True, kw_only=True):
    """`allocations` is left out of lists."""

    id: str
    number: int
    name: str
    state: DagState
    user: str
    tenant: str
    submitted_at: str | None
    completed_at: str | None
    cancelled_by: str
    counts: DagCounts
    archived: bool = False
    allocations: tuple[DagMemberView, ...] | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET  # of a submission: what members asked for and will not get


class DagNode(Struct, frozen=True, kw_only=True):
    ref: str
    id: str
    state: AllocationState
    depth: int


class DagEdge(Struct, frozen=True, kw_only=True):
    """An edge from a predecessor to its successor. Edges of one successor with the same `clause` are alternatives."""

    source: str
    target: str
    condition: Condition
    clause: int
    delay_s: int = 0


class DagGraph(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    state: DagState
    allocations: tuple[DagNode, ...]
    edges: tuple[DagEdge, ...]
    text: str
    svg: str | UnsetType = UNSET


Member = Allocation | TaskGroup
_ID = re.compile(r"[ad]?\d", re.ASCII)  # of an allocation, a task or a DAG

# from the request


class SubmittedMember(Struct, frozen=True):
    """A member as it was written: what to submit, what it needs inside the DAG, what outside."""

    ref: str
    submission: Submission
    inside: UnresolvedClauses
    outside: UnresolvedClauses
    field: str


def read_members(wanted: DagSubmission) -> list[SubmittedMember]:
    """The members of a submission. Raises BadField."""
    check_together(wanted.allocations, "allocations")
    refs = {_ref(each) for each in wanted.allocations}
    return [_read_member(wanted, each, place, refs) for place, each in enumerate(wanted.allocations)]


def _ref(member: DagAllocation) -> str:
    return member.id or member.name


def _read_member(wanted: DagSubmission, member: DagAllocation, place: int, refs: set[str]) -> SubmittedMember:
    field = f"allocations[{place}]"
    if not _ref(member):
        raise BadField(f"{field}.id", "every allocation of a DAG needs a name", hint='give "id" or "name"')
    ref = check_name(_ref(member), f"{field}.id")
    if member.dry_run or member.request_id:
        raise BadField(field, "dry_run and request_id are for single submissions")
    # Plain failure edges are alternatives: such a member is there for the failure of any of them.
    clauses = read_dependencies(member.depends_on, f"{field}.depends_on", is_catching=True)
    # What names no member but looks like an id is looked for outside; anything else is left to the graph's own check.
    inside: list[tuple[UnresolvedDependency, ...]] = []
    outside: list[tuple[UnresolvedDependency, ...]] = []
    for clause in clauses:
        (inside if _is_inside(clause, refs) else outside).append(clause)
    return SubmittedMember(ref, _submission(wanted, member, ref, field), tuple(inside), tuple(outside), field)


def _is_inside(clause: tuple[UnresolvedDependency, ...], refs: set[str]) -> bool:
    return any(each.ref in refs or not _ID.match(each.ref) for each in clause)


def _submission(wanted: DagSubmission, member: DagAllocation, ref: str, field: str) -> Submission:
    """The member as a submission of its own: its short forms and the defaults of the DAG are in their places."""
    resources, life = member.resources, member.lifecycle
    if member.nodes is not None:
        resources = structs.replace(resources, nodes=_nodes(member.nodes, f"{field}.nodes"))
    if member.walltime is not None:
        life = structs.replace(life, walltime=member.walltime)
    return structs.replace(
        member,
        name=member.name or ref,
        tenant=member.tenant or wanted.tenant,
        project=member.project or wanted.project,
        vcluster=member.vcluster or wanted.vcluster,
        cwd=member.cwd or wanted.cwd,
        resources=resources,
        lifecycle=life,
        depends_on="",
    )


def _nodes(nodes: int | str, field: str) -> int:
    text = str(nodes)
    if text.isascii() and text.isdigit() and len(text) < 8:
        return int(text)
    raise BadField(field, f'"{text[:40]}" is not a number of nodes', hint="give ranges in resources.nodes")


def dag_edges(clauses: UnresolvedClauses) -> tuple[tuple[Edge, ...], ...]:
    return tuple(
        [
            tuple([Edge(ref=each.ref, condition=each.condition, delay_s=each.delay_s) for each in clause])
            for clause in clauses
        ]
    )


# views


def member_head(member: Member) -> Allocation:
    return member.template if isinstance(member, TaskGroup) else member


def member_state(member: Member) -> AllocationState:
    return group_state(member) if isinstance(member, TaskGroup) else member.state


def dag_counts(members: list[Member]) -> DagCounts:
    states = [member_state(member) for member in members]
    ended = (AllocationState.COMPLETED, AllocationState.FAILED, AllocationState.CANCELLED)
    pending = sum(state in QUEUED for state in states)
    completed, failed, cancelled = (states.count(state) for state in ended)
    return DagCounts(
        size=len(states),
        pending=pending,
        running=len(states) - pending - completed - failed - cancelled,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
    )


def _ended_counts(counts: tuple[int, ...]) -> DagCounts:
    completed, failed, cancelled = counts
    return DagCounts(size=sum(counts), pending=0, running=0, completed=completed, failed=failed, cancelled=cancelled)


def dag_view(dag: Dag, members: list[Member], *, archived: bool = False) -> DagView:
    return DagView(
        id=dag_id(dag.number),
        number=dag.number,
        name=dag.name,
        state=dag.state,
        user=dag.user,
        tenant=dag.tenant,
        submitted_at=rfc3339(dag.submitted_at),
        completed_at=rfc3339(dag.ended_at),
        cancelled_by=dag.cancelled_by,
        counts=_ended_counts(dag.counts) if dag.counts else dag_counts(members),
        archived=archived,
    )


def member_view(member: Member, names: dict[int, str], *, now_ms: int, explain: Callable[[int], str]) -> DagMemberView:
    """`explain` says why work waits by its number; it is asked only about what waits for no other work."""
    shown = _shown(member, now_ms)
    return DagMemberView(
        ref=member_head(member).dag_ref,
        id=allocation_id(member.number),
        number=member.number,
        name=shown.name,
        state=member_state(member),
        reason=_reason(member, names, explain),
        cause=shown.cause,
        message=shown.message,
        exit_code=shown.exit_code,
        nodes=shown.nodes,
        started_at=rfc3339(shown.started_at),
        completed_at=rfc3339(shown.ended_at),
        depends_on=dependencies_text(shown.depends_on, names),
        task_count=member.size if isinstance(member, TaskGroup) else None,
    )


def _shown(member: Member, now_ms: int) -> Allocation:
    """A group in the shape of an allocation."""
    if not isinstance(member, TaskGroup):
        return member
    view = group_view(member, now_ms=now_ms)
    return structs.replace(
        member.template,
        cause=member.cause,
        exit_code=view.exit_code,
        started_at=member.started_at,
        ended_at=member.ended_at if member.is_done else 0,
    )


def _reason(member: Member, names: dict[int, str], explain: Callable[[int], str]) -> str:
    if member_state(member) not in QUEUED:
        return "" if isinstance(member, TaskGroup) else waiting_reason(member, explain(member.number))
    waits = member_head(member).waits_for
    return waiting_sentence(waits, names) if waits else waiting_reason(member_head(member), explain(member.number))
