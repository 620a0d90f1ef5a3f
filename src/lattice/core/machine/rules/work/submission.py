"""Judges a submission: known names, limits of the vCluster, quota, and whether the machine could ever run it.

Checks come in the order in which a user can do something about them: what is wrong with the request itself, then what the tenant
and the vCluster do not allow, then room on the machine. The first refusal is the answer. Its words are part of what is
applied (a repeated command gets the same answer), so changing them needs a level. See docs/architecture/core.md.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.parts.dependencies import MutexKey, mutex_key
from lattice.core.machine.parts.services import ServiceKey
from lattice.core.machine.rules import closeness, exposure, lending, sensitive
from lattice.core.machine.rules.checkpoints import submissions as checkpoints
from lattice.core.machine.rules.data import staging
from lattice.core.machine.rules.work import dependencies, notifications, quotas, sessions
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.site.tenants import NO_DEMANDS, SENSITIVE, Tenant, Vcluster
from lattice.core.model.units import format_duration
from lattice.core.model.work.allocations import Allocation, Lifecycle, Request, Restart, TaskGroup
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency
from lattice.core.model.work.shares import matches, suits

MAX_CLASS = 10
MAX_REQUEUE = 100
MAX_TASKS = 100_000


SubmittedEvent = ev.AllocationSubmitted | ev.TaskGroupSubmitted


@dataclass(slots=True)
class Batch:
    """What was judged before in the same command and is not in the state yet: other members of a DAG.

    `judge` alone changes it, and only when it accepts: each member is judged as if those before it had been submitted.
    """

    number: int  # for the next one; a group takes one for itself and one for each of its tasks
    dag: int = 0  # 0 = no DAG
    pending: int = 0  # tasks accepted so far, which count against the user's limit
    planned: dict[int, TaskGroup | None] = field(
        default_factory=dict
    )  # what later members may depend on; None = no group
    mutexes: dict[MutexKey, int] = field(default_factory=dict)  # the newest holder of each, for the one that comes next
    services: dict[ServiceKey, str] = field(default_factory=dict)  # whose each name is


def submit(state: State, command: cmd.SubmitAllocation, at: int) -> tuple[ev.AnyEvent, ...] | Rejected:
    submitted = judge(state, command, at, Batch(state.next_number))
    return submitted if isinstance(submitted, Rejected) else (submitted, *staging.wanted(state, command, at))


def judge(
    state: State, command: cmd.SubmitAllocation, at: int, batch: Batch, dag_ref: str = ""
) -> SubmittedEvent | Rejected:
    """The event of one submission, noted in the batch; or why it is refused."""
    tenant = state.tenants.get(command.tenant)
    if tenant is None:
        return _unknown("tenant", command.tenant, state.tenants)
    vcluster = state.vclusters.get(command.vcluster)
    if vcluster is None:
        return _unknown("vCluster", command.vcluster, state.vclusters)
    size = _task_count(command)
    # What could never be accepted is judged first and what others hold now last: no user is to wait for room, or ask for a quota,
    # for work that would be refused anyway.
    refusal = (
        _check_shape(command, size)
        or (None if command.scaling is None else _check_scaling(command, command.scaling))
        or notifications.check_notify(state, command)
        or _check_membership(state, command, vcluster)
        or _check_tenant(state, command, tenant, size, batch.pending)
        or _check_limits(state, command, vcluster)
        or (_check_special(state, command, vcluster, batch) if _is_special(command) else None)
        or _check_claim(state, command, vcluster)
        or _check_quota(state, command, tenant)
    )
    if refusal is not None:
        return refusal
    record = _record(state, command, vcluster, at, batch, dag_ref)
    refusal = None if command.asked is not None else _check_deadline(record, at)
    if refusal is not None:
        return refusal
    return _submitted(state, command, staging.declared(state, command, record), size, batch)


def _is_special(command: cmd.SubmitAllocation) -> bool:
    """Whether it asks for something that few submissions ask for; the others are not looked through for each of these."""
    return bool(
        command.session
        or command.telemetry is not None
        or command.exposes
        or command.checkpoint is not None
        or command.resume_from is not None
        or command.data
    )


def _check_special(state: State, command: cmd.SubmitAllocation, vcluster: Vcluster, batch: Batch) -> Rejected | None:
    return (
        sessions.check_session(state, command, vcluster)
        or closeness.check_submission(command, vcluster)
        or exposure.check_exposes(state, command, vcluster, batch.services)
        or checkpoints.check(state, command)
        or staging.check_sources(state, command, vcluster)
    )


def check_again(state: State, head: Allocation, at: int) -> Rejected | None:
    """Why waiting work could not be submitted as it would be after a change; None when it could."""
    vcluster = state.vclusters.get(head.vcluster)
    if vcluster is None:
        return _unknown("vCluster", head.vcluster, state.vclusters)
    command = cmd.SubmitAllocation(
        name=head.name,
        user=head.user,
        account=head.account,
        tenant=head.tenant,
        vcluster=head.vcluster,
        request=head.request,
        project=head.project,
        preemption_class=head.preemption_class,
        walltime_s=head.walltime_s,
        queue_on_quota=True,
        asked=head.asked,
    )
    refusal = (
        _check_shape(command, 0)
        or _check_membership(state, command, vcluster)
        or _check_limits(state, command, vcluster)
        or _check_quota(state, command, state.tenants[head.tenant])
    )
    if refusal is not None or head.asked is not None:
        return refusal
    return _check_deadline(head, at)


def _submitted(
    state: State, command: cmd.SubmitAllocation, record: Allocation, size: int, batch: Batch
) -> SubmittedEvent | Rejected:
    """The event, with what it waits for. Nothing may refuse after the batch was changed."""
    group = _group(command, record, size) if command.tasks else None
    waits = dependencies.open_waits(state, command.depends_on, command.ended, group, batch.planned)
    if isinstance(waits, Rejected):
        return waits
    waits_for = (*waits.waits_for, *_mutex_clause(state, record, batch))
    if waits_for or waits.eligible_at > record.eligible_at:
        eligible_at = max(record.eligible_at, waits.eligible_at)
        record = replace(record, waits_for=waits_for, eligible_at=eligible_at)
    batch.pending += size or 1
    batch.number += size + 1
    batch.services.update(exposure.named_services(record))
    if record.mutex:
        batch.mutexes[mutex_key(record)] = record.number
    if group is None:
        batch.planned[record.number] = None
        return ev.AllocationSubmitted(allocation=record, payload=command.payload)
    group = replace(group, template=record, task_waits=waits.task_waits)
    group = replace(group, blocked=group.blocked_now())
    batch.planned[record.number] = group
    return ev.TaskGroupSubmitted(group=group, payload=command.payload)


def _group(command: cmd.SubmitAllocation, record: Allocation, size: int) -> TaskGroup:
    return TaskGroup(
        number=record.number,
        template=record,
        indices=command.tasks,
        size=size,
        pending=((0, size),),
        concurrency=1 if command.mutex else command.concurrency,
    )


def _mutex_clause(state: State, record: Allocation, batch: Batch) -> Clauses:
    """Each waits for the one before it, in order of submission."""
    if not record.mutex:
        return ()
    key = mutex_key(record)
    before = batch.mutexes.get(key) or state.dependencies.before_under_mutex(key, record.number)
    return ((Dependency(number=before, condition=Condition.MUTEX),),) if before else ()


def _check_deadline(record: Allocation, at: int) -> Rejected | None:
    """Refuses now what the loop of deadlines would end unstarted."""
    earliest = max(at, record.eligible_at) + record.walltime_s * 1000
    if not record.deadline_at or earliest <= record.deadline_at:
        return None
    left_s = max(0, record.deadline_at - max(at, record.eligible_at)) // 1000
    return Rejected(
        code="infeasible",
        message="the deadline comes before the allocation could end",
        current=f"{format_duration(left_s)} until the deadline",
        requested=f"a walltime of {format_duration(record.walltime_s)}" if record.walltime_s else "some time to run",
        hint="Ask for a shorter walltime or a later deadline.",
    )


def _check_claim(state: State, command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    """Sensitive work gets its nodes immediately or is refused; it never waits for nodes in use by others."""
    if vcluster.scheduler != SENSITIVE:
        return None
    members = [node for node in state.nodes.values() if not vcluster.nodes or node.id in vcluster.nodes]
    suitable = [node for node in members if matches(command.request, node.hardware, node.id)]
    free = [node for node in suitable if node.is_free and node.state is NodeState.READY and not node.shortfall]
    if len(free) >= command.request.nodes and not command.tasks:
        return sensitive.check_request(state, vcluster, command.request.nodes)
    held = [
        node.id + _holder_within(state, command.tenant, state.allocations[number])
        for node in sorted(suitable, key=lambda node: node.id)
        for number in node.holders()[:1]
    ]
    away = _out_of_service(suitable) if state.level >= 2 else ""
    return Rejected(
        code="conflict",
        message=f'OwnershipConflict: vCluster "{vcluster.name}" cannot give the nodes now, and nothing waits there',
        current=f"{len(free)} of {len(suitable)} suitable nodes free; held: {', '.join(held[:10]) or 'none'}{away}",
        requested=f"{_nodes(command.request.nodes)}{' for each of several tasks' if command.tasks else ''}",
        hint=_HINT_HELD if held or not away else _HINT_AWAY,
    )


_HINT_HELD = "Ask the users named to release their nodes, or request fewer."
_HINT_AWAY = "Request fewer nodes, or ask an administrator when those out of service return."


def _out_of_service(nodes: list[Node]) -> str:
    """Names the free nodes that take no work, with their states."""
    away = [
        f"{node.id} ({node.state})"
        for node in sorted(nodes, key=lambda node: node.id)
        if not node.holders() and (node.state is not NodeState.READY or node.shortfall)
    ]
    return f"; out of service: {', '.join(away[:10])}" if away else ""


def _holder_within(state: State, tenant: str, holder: Allocation) -> str:
    """Names the holder of a node only within the tenant; others learn only that it is held. The text is in the audit chain."""
    return f" by {holder.user}" if holder.tenant == tenant or state.level < 2 else ""


def _record(
    state: State, command: cmd.SubmitAllocation, vcluster: Vcluster, at: int, batch: Batch, dag_ref: str
) -> Allocation:
    """Defaults of the vCluster are written into the record: changing them later changes nothing that was submitted before."""
    bounded = command.lifecycle is Lifecycle.BOUNDED
    walltime_s = command.walltime_s or ((vcluster.default_walltime_s or vcluster.max_walltime_s) if bounded else 0)
    return Allocation(
        number=batch.number,
        name=command.name,
        user=command.user,
        account=command.account,
        tenant=command.tenant,
        project=command.project,
        vcluster=command.vcluster,
        request=command.request,
        submitted_at=at,
        lifecycle=command.lifecycle,
        per_node=command.per_node if command.per_node is not None else not bounded,
        preemption_class=command.preemption_class,
        walltime_s=walltime_s,
        eligible_at=command.eligible_at,
        hold=command.hold,
        requeue=command.requeue,
        max_requeue=command.max_requeue,
        tags=command.tags,
        depends_on=command.depends_on,
        mutex=command.mutex,
        keep_on_invalid_dependency=command.keep_on_invalid_dependency,
        deadline_at=command.deadline_at,
        notify=notifications.notify_of(state, command),
        asked=command.asked,
        session=command.session,
        restart=command.restart,
        probed=command.probed,
        stages_out=command.stages_out,
        idle_end_s=command.idle_end_s or ((vcluster.demands or NO_DEMANDS).idle_end_s if command.session else 0),
        no_preempt=command.no_preempt,
        exposes=command.exposes,
        telemetry=command.telemetry,
        scaling=command.scaling,
        dag=batch.dag,
        dag_ref=dag_ref,
        checkpoints=checkpoints.checkpoints_of(command, at),
    )


def _task_count(command: cmd.SubmitAllocation) -> int:
    if not command.tasks:
        return 0
    return sum((last - first) // step + 1 for first, last, step in command.tasks if step > 0)


def _check_scaling(command: cmd.SubmitAllocation, scaling: ScalePolicy) -> Rejected | None:
    if command.lifecycle is not Lifecycle.REACTIVE or command.tasks or command.per_node is False:
        return _invalid("only reactive services with an instance on each node are scaled, and no task groups")
    if not 1 <= scaling.min_nodes <= scaling.max_nodes or command.request.nodes != scaling.min_nodes:
        return _invalid("reactive work begins with min_nodes, and max_nodes is not below that")
    return None


def _check_shape(command: cmd.SubmitAllocation, size: int) -> Rejected | None:
    """What no API lets through. It is judged again because the log is open to every server, also of another release, and what came
    in once can never be refused any more."""
    request = command.request
    if request.nodes < 1 or (request.max_nodes and request.max_nodes < request.nodes):
        return _invalid("the number of nodes must be at least 1, and a range must rise", f"nodes {request.nodes}")
    if min(request.cpus, request.memory_mb, request.gpus, request.min_memory_mb) < 0:
        return _invalid("cpus, memory and gpus cannot be negative")
    if not 0 <= command.preemption_class <= MAX_CLASS:
        return _invalid(f"the preemption class must lie between 0 and {MAX_CLASS}", str(command.preemption_class))
    if not 0 <= command.max_requeue <= MAX_REQUEUE:
        return _invalid(f"max_requeue must lie between 0 and {MAX_REQUEUE}", str(command.max_requeue))
    if command.walltime_s < 0:
        return _invalid("the walltime must be positive")
    if command.restart is not Restart.NONE and command.lifecycle is Lifecycle.BOUNDED:
        return _invalid("only services are started again", f"restart {command.restart}")
    if command.idle_end_s < 0:
        return _invalid("idle_end must be positive")
    if any(step < 1 or first < 0 or last < first for first, last, step in command.tasks):
        return _invalid("task ranges must rise and start at 0 or above")
    if size > MAX_TASKS or command.concurrency < 0:
        return _invalid(f"a task group has at most {MAX_TASKS} tasks", f"{size} tasks")
    return None


def _check_membership(state: State, command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    """Who may use the vCluster. A tenant without any project may name any: projects are checked once there are some."""
    if vcluster.tenants and command.tenant not in vcluster.tenants:
        usable = sorted(v.name for v in state.vclusters.values() if not v.tenants or command.tenant in v.tenants)
        return Rejected(
            code="forbidden",
            message=f'tenant "{command.tenant}" may not use vCluster "{vcluster.name}"',
            hint=f"Available to it: {', '.join(usable) or 'none'}.",
        )
    if not command.project or (command.tenant, command.project) in state.projects:
        return None
    known = sorted(name for tenant, name in state.projects if tenant == command.tenant)
    return _unknown("project", command.project, known) if known else None


def _check_tenant(
    state: State, command: cmd.SubmitAllocation, tenant: Tenant, size: int, also_pending: int
) -> Rejected | None:
    """Limits of the tenant that do not depend on what is in use; `also_pending` is what the same command submits before."""
    if command.preemption_class > tenant.max_class:
        return Rejected(
            code="forbidden",
            message=f'tenant "{tenant.name}" may not use preemption class {command.preemption_class}',
            requested=f"class {command.preemption_class}",
            limit=f"class {tenant.max_class}",
        )
    limit = tenant.max_pending_per_user
    pending = state.user_use(tenant.name, command.user).pending + also_pending
    added = size if command.tasks else 1
    if limit is not None and pending + added > limit:
        return Rejected(
            code="quota",
            message=f'user "{command.user}" has too many pending allocations in tenant "{tenant.name}"',
            current=f"{pending} pending",
            requested=f"{added} more",
            limit=f"{limit} pending",
            hint="Wait until some have started, or cancel pending ones.",
        )
    return None


def _check_limits(state: State, command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    """What a Slurm command asks for waits until limits or nodes have changed, as it would in Slurm."""
    if command.asked is not None:
        return None
    return _check_vcluster(command, vcluster) or check_feasible(state, command.request, vcluster)


def _check_quota(state: State, command: cmd.SubmitAllocation, tenant: Tenant) -> Rejected | None:
    # Quotas are checked again at every placement, so what waits for headroom, even in vain, exceeds none.
    if command.asked is not None:
        return None
    # What waits for others cannot start now, so it need not fit now either.
    queue = command.queue_on_quota or bool(command.depends_on)
    return quotas.check_submission(state, tenant, command.request.nodes, queue=queue)


def _check_vcluster(command: cmd.SubmitAllocation, vcluster: Vcluster) -> Rejected | None:
    if vcluster.max_nodes and command.request.nodes > vcluster.max_nodes:
        return Rejected(
            code="infeasible",
            message=f'vCluster "{vcluster.name}" allows at most {_nodes(vcluster.max_nodes)} per allocation',
            requested=_nodes(command.request.nodes),
            limit=_nodes(vcluster.max_nodes),
        )
    return check_walltime(command.walltime_s, vcluster)


def check_walltime(walltime_s: int, vcluster: Vcluster) -> Rejected | None:
    if not vcluster.max_walltime_s or walltime_s <= vcluster.max_walltime_s:
        return None
    return Rejected(
        code="infeasible",
        message=f'the walltime is longer than vCluster "{vcluster.name}" allows',
        requested=format_duration(walltime_s),
        limit=format_duration(vcluster.max_walltime_s),
        hint="Ask for less, or use checkpoints and several allocations.",
    )


def check_feasible(state: State, request: Request, vcluster: Vcluster) -> Rejected | None:
    """Refuses what no set of the vCluster's nodes could ever satisfy. A machine without nodes yet refuses nothing."""
    if vcluster.nodes or request.node_list or request.exclude:
        if _are_enough(state, request, vcluster.nodes or state.nodes):
            return None
        own = frozenset(vcluster.nodes) | lending.within_reach(state, vcluster)
        members = [node for node in state.nodes.values() if not vcluster.nodes or node.id in own]
        total = len(members)
        suitable = sum(matches(request, node.hardware, node.id) for node in members)
    else:
        total = len(state.nodes)
        suitable = sum(count for hardware, count in state.hardware_counts.items() if suits(request, hardware))
    if not total or suitable >= request.nodes:
        return None
    return Rejected(
        code="infeasible",
        message=f'vCluster "{vcluster.name}" has not enough nodes matching the request',
        current=f"{suitable} of {total} nodes match",
        requested=f"{_nodes(request.nodes)}{_requests(request)}",
        limit=_nodes(suitable),
        hint="Reduce the node count or relax the constraints; `lattice nodes` shows what there is.",
    )


def _are_enough(state: State, request: Request, names: Collection[str]) -> bool:
    """Whether as many of these nodes match as are asked for; looks at no more of them than it takes."""
    if len(names) < request.nodes:
        return False
    left = request.nodes
    for name in names:
        node = state.nodes.get(name)
        left -= node is not None and matches(request, node.hardware, name)
        if left <= 0:
            return True
    return False


def _requests(request: Request) -> str:
    names = ("cpus", "memory_mb", "gpus", "gpu_type", "min_memory_mb", "features", "node_list", "exclude")
    requests = [f"{name}={_shown(getattr(request, name))}" for name in names if getattr(request, name)]
    requests += ["require_unified_memory"] if request.require_unified_memory else []
    return f" with {', '.join(requests)}" if requests else ""


def _shown(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _unknown(what: str, name: str, known: Iterable[str]) -> Rejected:
    names = ", ".join(sorted(known))
    return Rejected(code="not_found", message=f'unknown {what} "{name}"', hint=f"Known: {names or 'none'}.")


def _invalid(message: str, requested: str = "") -> Rejected:
    return Rejected(code="invalid", message=message, requested=requested)
