"""Allocations on the wire: the JSON views that people read."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from lattice.core.model.ids import allocation_id, dag_id
from lattice.core.model.nodes.readiness import ReadinessBoard
from lattice.core.model.services.scaling import ScaleStanding
from lattice.core.model.work.allocations import (
    Allocation,
    AllocationState,
    Cause,
    Hold,
    Lifecycle,
    Request,
    RequeuePolicy,
    Restart,
    TaskGroup,
)
from lattice.core.model.work.efficiency import finite, use_sentence, used_percent
from lattice.core.model.work.usage import NO_USAGE
from lattice.ports.nodes.images import ContainerOrder
from lattice.wire.checkpoints.checkpoints import CheckpointStanding, standing_of
from lattice.wire.services.exposure import ExposedView, exposed_views
from lattice.wire.services.services import ProbeView, ServiceView, probe_views, ready_reason, service_view
from lattice.wire.slurm.asked import AskedDetailsView, AskedView, asked_details, asked_view
from lattice.wire.text.endings import ending_of, group_ending_of
from lattice.wire.text.tasks import indices_text
from lattice.wire.text.times import rfc3339
from lattice.wire.text.waiting import waiting_reason
from lattice.wire.work.dependencies import dependencies_text
from lattice.wire.work.payloads import Work
from lattice.wire.work.run_files import OutputFiles
from lattice.wire.work.telemetry import TelemetryView, telemetry_view
from lattice.wire.work.usage import RunUsageView, usage_view


class ResourcesView(Struct, frozen=True, gc=False):
    nodes: int
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    features: tuple[str, ...]


class TaskCounts(Struct, frozen=True, kw_only=True, gc=False):
    size: int
    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int
    concurrency: int = 0  # maximum concurrent tasks, 0 = all
    pending_indices: str = ""  # those that still wait, cut short when they lie in many pieces


class ConstraintsView(Struct, frozen=True, kw_only=True):
    gpu_type: str
    gpu_count: int
    memory_gb: float
    features: tuple[str, ...]
    topology: str
    nodes: tuple[str, ...]
    exclude: tuple[str, ...]
    require_unified_memory: bool
    allow_cxl_memory: bool
    require_conformance: bool
    storage_gbps: float
    prefer_same_numa: bool = False
    prefer_local_memory: bool = False
    memory_policy: str = ""


class ImageInfo(Struct, frozen=True, kw_only=True):
    """An image of an allocation: always the bytes with this sha256."""

    reference: str
    digest: str
    mount: str  # empty = where the image itself wants to be


class ContainerInfo(Struct, frozen=True, kw_only=True):
    """The container of an allocation: always the image with this sha256, of its file or of its manifest."""

    image: str
    digest: str
    mounts: tuple[str, ...]
    writable: bool
    workdir: str
    no_home: bool
    name: str  # under which steps find it


class DataView(Struct, frozen=True, kw_only=True):
    """A source that the work sees, and how far its copy on the hot tier is."""

    source: str
    target: str
    access: str  # read-only or read-write
    tier: str  # hot or direct
    state: str = ""  # of the copy: wanted, moving, usable, ready, failed, leaving; empty without one
    bytes_done: int = 0
    bytes_total: int = 0  # 0 = not known yet
    percent: float = 0.0
    bytes_per_s: float = 0.0
    seconds_left: float | None = None  # None = not known
    reason: str = ""  # of the last failure, or why the copy waits


class StageOutView(Struct, frozen=True, kw_only=True):
    source: str
    target: str
    made: bool = False  # what the work finds as LATTICE_OUTPUT


class DetailsView(Struct, frozen=True, kw_only=True):
    """Details that only the owner and a SystemAdmin may read."""

    entrypoint: tuple[str, ...]
    script: str
    script_args: tuple[str, ...]
    environment: dict[str, str]
    cwd: str
    submit_dir: str
    umask: str | None  # in octal
    uenv: tuple[ImageInfo, ...]
    view: tuple[str, ...]
    container: ContainerInfo | None
    max_nodes: int
    constraints: ConstraintsView
    exclusive: bool
    per_node: bool
    notify_on: tuple[str, ...] = ()
    notify_to: tuple[str, ...] = ()
    output: OutputFiles | UnsetType = UNSET
    signal: str = ""  # before the limit
    summary: bool = False
    scratch_mb: int = 0  # size of the scratch directory; 0 = not limited
    drain_s: float = 0.0  # of a service: how long a stop waits for requests in flight
    probes: tuple[ProbeView, ...] = ()
    slurm: AskedDetailsView | UnsetType = UNSET
    data: tuple[DataView, ...] = ()
    stage_out: tuple[StageOutView, ...] = ()
    no_defaults: bool = False  # nothing is mounted or copied that was not asked for
    notify_each_task: bool = False


class AllocationView(Struct, frozen=True, kw_only=True):
    id: str
    number: int
    name: str
    state: AllocationState
    reason: str
    cause: str | None
    message: str
    exit_code: int | None
    signal: int | None
    nodes: tuple[str, ...]
    node_count: int
    user: str
    tenant: str
    project: str
    vcluster: str
    preemption_class: int
    walltime_s: int
    elapsed_s: int
    submitted_at: str | None
    started_at: str | None
    completed_at: str | None
    eligible_at: str | None
    hold: Hold
    lifecycle: Lifecycle
    requeue: RequeuePolicy
    max_requeue: int
    requeue_count: int
    restart_count: int
    step_count: int
    run: int
    resources: ResourcesView
    tags: dict[str, str]
    group_id: str | None
    task_index: int | None
    cpu_s: float
    peak_memory_mb: int
    cpu_efficiency: float | None  # percent of the CPUs held that were used, once it has run
    memory_efficiency: float | None  # the most memory used, in percent of what was held
    archived: bool
    ending: str | UnsetType = UNSET  # one sentence about an end that was not exit code 0
    usage: RunUsageView | UnsetType = UNSET  # once it has run
    used: str | UnsetType = UNSET  # one sentence: what it held and what it used of that
    suspended: bool | UnsetType = UNSET  # its processes are suspended
    depends_on: str | UnsetType = UNSET  # these only where there is something to say
    waits_for: str | UnsetType = UNSET
    mutex: str | UnsetType = UNSET
    deadline: str | UnsetType | None = UNSET
    dag_id: str | UnsetType = UNSET
    avoided: tuple[str, ...] | UnsetType = UNSET  # nodes whose prologue failed for it
    slurm: AskedView | UnsetType = UNSET  # of work that a Slurm command submitted
    session: bool | UnsetType = UNSET  # true: to be worked in by hand
    idle_end_s: int | UnsetType = UNSET  # cancelled after this time without use
    no_preempt: bool | UnsetType = UNSET  # true: never taken off its nodes for other work
    preempted: int | UnsetType = UNSET  # how often it was
    expose: tuple[ExposedView, ...] | UnsetType = UNSET  # ports that have names
    checkpoint: CheckpointStanding | UnsetType = UNSET  # of work that writes checkpoints, or began with one
    service: ServiceView | UnsetType = UNSET  # of a service: its instances
    telemetry: TelemetryView | UnsetType = (
        UNSET  # how closely it is measured, where something else than prod was asked for
    )
    tasks: TaskCounts | UnsetType = UNSET
    details: DetailsView | UnsetType | None = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET  # of a submission: what it asked for and will not get
    chosen_by: str | UnsetType = UNSET  # of a submission: the rule that chose its vCluster


class CancelAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome for one ID of a bulk cancel."""

    id: str
    ok: bool
    error: dict[str, str] | None = None


LogStream = Literal["stdout", "stderr"]


def _resources(request: Request) -> ResourcesView:
    return ResourcesView(
        request.nodes,
        request.cpus,
        request.memory_mb,
        request.gpus,
        request.gpu_type,
        request.features,
    )


def elapsed_s(record: Allocation, now_ms: int) -> int:
    if not record.started_at:
        return 0
    return max(0, ((record.ended_at or now_ms) - record.started_at) // 1000)


def _held_cpu_s(record: Allocation) -> float:
    return record.held_cpus * (record.ended_at - record.started_at) / 1000


def _used(record: Allocation) -> str:
    elapsed_s = (record.ended_at - record.started_at) / 1000 if record.is_terminal and record.started_at else 0.0
    return use_sentence(record.held_cpus, record.cpu_s, elapsed_s, record.held_memory_mb, record.peak_memory_mb)


_NOBODY = ReadinessBoard()


def allocation_view(
    record: Allocation,
    *,
    now_ms: int,
    explained: str = "",
    archived: bool = False,
    readiness: ReadinessBoard = _NOBODY,
    scaled: ScaleStanding | None = None,
) -> AllocationView:
    """The JSON shape of an allocation or a single task; `readiness` is what nodes said of its instances."""
    view = _record_view(record, now_ms, explained, readiness, scaled, archived=archived)
    more = _where_there_is_something(record)
    if (measured := telemetry_view(record, now_ms)) is not None:
        more["telemetry"] = measured
    return msgspec.structs.replace(view, **more) if more else view


def _record_view(
    record: Allocation,
    now_ms: int,
    explained: str,
    readiness: ReadinessBoard,
    scaled: ScaleStanding | None,
    *,
    archived: bool,
) -> AllocationView:
    group = record.group
    service = service_view(record, readiness, scaled) if record.restart is not Restart.NONE else UNSET
    return AllocationView(
        id=allocation_id(record.number),
        number=record.number,
        name=record.name,
        state=record.state,
        reason=waiting_reason(record, explained) or ready_reason(service),
        cause=record.cause,
        message=record.message,
        exit_code=record.exit_code,
        signal=record.signal or None,
        nodes=record.nodes,
        node_count=len(record.shares) or record.request.nodes,
        user=record.user,
        tenant=record.tenant,
        project=record.project,
        vcluster=record.vcluster,
        preemption_class=record.preemption_class,
        walltime_s=record.walltime_s,
        elapsed_s=elapsed_s(record, now_ms),
        submitted_at=rfc3339(record.submitted_at),
        started_at=rfc3339(record.started_at),
        completed_at=rfc3339(record.ended_at),
        eligible_at=rfc3339(record.eligible_at),
        hold=record.hold,
        lifecycle=record.lifecycle,
        requeue=record.requeue,
        max_requeue=record.max_requeue,
        requeue_count=record.requeue_count,
        restart_count=record.restart_count,
        step_count=record.next_step,
        run=record.run,
        resources=_resources(record.request),
        tags=dict(record.tags),
        group_id=allocation_id(group) if group else None,
        task_index=record.task_index if group else None,
        cpu_s=round(finite(record.cpu_s), 3),
        peak_memory_mb=record.peak_memory_mb,
        cpu_efficiency=used_percent(record.cpu_s, _held_cpu_s(record)),
        memory_efficiency=used_percent(record.peak_memory_mb, record.held_memory_mb),
        archived=archived,
        mutex=record.mutex or UNSET,
        avoided=record.avoided or UNSET,
        preempted=record.preempted or UNSET,
        idle_end_s=record.idle_end_s or UNSET,
        session=record.session or UNSET,
        no_preempt=record.no_preempt or UNSET,
        service=service,
    )


def _where_there_is_something(record: Allocation) -> dict[str, Any]:
    """Fields that only some allocations have, and that take more than a look at the record."""
    more: dict[str, Any] = {}
    if record.is_terminal:
        more |= {"ending": ending_of(record) or UNSET, "used": _used(record) or UNSET}
    if record.usage != NO_USAGE:
        more["usage"] = usage_view(record.usage)
    if record.paused_at:
        more["suspended"] = True
    if record.depends_on:
        more["depends_on"] = dependencies_text(record.depends_on)
    if record.waits_for:
        more["waits_for"] = dependencies_text(record.waits_for)
    if record.deadline_at:
        more["deadline"] = rfc3339(record.deadline_at)
    if record.dag:
        more["dag_id"] = dag_id(record.dag)
    if record.asked is not None:
        more["slurm"] = asked_view(record.asked)
    if record.exposes:
        more["expose"] = exposed_views(record)
    if (checkpoint := standing_of(record)) is not None:
        more["checkpoint"] = checkpoint
    return more


def group_state(group: TaskGroup) -> AllocationState:
    """Pending until a task ran, Running while any is left, then the worst end of any task."""
    if not group.is_done:
        has_begun = group.holding or group.completed or group.failed
        return AllocationState.RUNNING if has_begun else group.template.state
    if group.failed:
        return AllocationState.FAILED
    return AllocationState.CANCELLED if group.cancelled else AllocationState.COMPLETED


def task_counts(group: TaskGroup) -> TaskCounts:
    return TaskCounts(
        size=group.size,
        pending=group.pending_count + group.live - group.holding,
        running=group.holding,
        completed=group.completed,
        failed=group.failed,
        cancelled=group.cancelled,
        concurrency=group.concurrency,
        pending_indices=indices_text(group, group.pending),
    )


def _group_end(group: TaskGroup, state: AllocationState) -> dict[str, Any]:
    """How a group ended: as the task that failed worst, or as all of them; nothing before its last task has ended."""
    if not group.is_done:
        return {}
    if state is AllocationState.FAILED:
        end = (group.cause, group.exit_code, group.signal)
    else:
        completed = state is AllocationState.COMPLETED
        end = (Cause.EXIT, 0, 0) if completed else (Cause.CANCELLED, None, 0)
    return dict(zip(("cause", "exit_code", "signal"), end, strict=True), ended_at=group.ended_at)


def held_tasks(group: TaskGroup) -> str:
    """That nothing of a group can start because all of its remaining tasks are held."""
    left = group.pending_count
    is_held = group.template.hold is not Hold.NONE or ((group.held or group.held_by_operator) and not group.startable)
    if not left or group.live or group.template.waits_for or not is_held:
        return ""
    by = "an operator" if group.template.hold is Hold.OPERATOR or group.held_by_operator else "its user"
    return f"its {left} remaining tasks are held by {by}" if left > 1 else f"its last task is held by {by}"


def group_view(group: TaskGroup, *, now_ms: int, explained: str = "", archived: bool = False) -> AllocationView:
    """A task group in the shape of an allocation, with the counts of its tasks."""
    state = group_state(group)
    template = msgspec.structs.replace(
        group.template, number=group.number, state=state, started_at=group.started_at, **_group_end(group, state)
    )
    view = allocation_view(template, now_ms=now_ms, explained=explained, archived=archived)
    return msgspec.structs.replace(
        view,
        reason=view.reason or held_tasks(group),
        ending=group_ending_of(group) or UNSET,
        tasks=task_counts(group),
        cpu_s=round(finite(group.cpu_s), 3),
        peak_memory_mb=group.peak_memory_mb,
        cpu_efficiency=used_percent(group.cpu_s, group.held_cpu_s),
        memory_efficiency=used_percent(group.peak_memory_mb, group.held_memory_mb),
        usage=usage_view(group.usage) if group.usage != NO_USAGE else UNSET,
    )


def _container(order: ContainerOrder | None) -> ContainerInfo | None:
    if order is None:
        return None
    return ContainerInfo(
        image=order.image.reference,
        digest=order.image.digest,
        mounts=order.binds,
        writable=order.writable,
        workdir=order.workdir,
        no_home=order.no_home,
        name=order.name,
    )


def details_view(record: Allocation, work: Work) -> DetailsView:
    request = record.request
    return DetailsView(
        entrypoint=work.argv,
        script=work.script,
        script_args=work.script_args,
        environment=work.env,
        cwd=work.cwd,
        submit_dir=work.submit_dir,
        umask=None if work.umask is None else f"{work.umask:04o}",
        uenv=tuple(ImageInfo(reference=each.reference, digest=each.digest, mount=each.mount) for each in work.images),
        view=work.views,
        container=_container(work.container),
        max_nodes=request.max_nodes or request.nodes,
        constraints=ConstraintsView(
            gpu_type=request.gpu_type,
            gpu_count=request.gpus,
            memory_gb=round(request.min_memory_mb / 1024, 3),
            features=request.features,
            topology=request.topology,
            nodes=request.node_list,
            exclude=request.exclude,
            require_unified_memory=request.require_unified_memory,
            allow_cxl_memory=request.allow_cxl_memory,
            require_conformance=request.require_conformance,
            storage_gbps=request.storage_gbps,
            prefer_same_numa=request.prefer_same_numa,
            prefer_local_memory=request.prefer_local_memory,
            memory_policy=work.memory_policy,
        ),
        exclusive=request.exclusive,
        per_node=record.per_node,
        notify_on=() if record.notify is None else record.notify.on,
        notify_to=() if record.notify is None else record.notify.to,
        notify_each_task=record.notify is not None and record.notify.each_task,
        output=UNSET if work.output is None else work.output,
        signal=work.signal,
        scratch_mb=work.scratch_mb,
        drain_s=work.drain_s,
        probes=probe_views(work.probes),
        summary=work.summary,
        slurm=asked_details(record.asked) if record.asked is not None else UNSET,
        data=tuple(
            DataView(
                source=each.source,
                target=each.target,
                access="read-write" if each.writable else "read-only",
                tier="hot" if each.hot else "direct",
            )
            for each in work.data
        ),
        stage_out=tuple(
            StageOutView(source=each.source, target=each.target, made=each.made) for each in work.stage_out
        ),
        no_defaults=work.no_defaults,
    )
