"""Everything that a server says, and what it is asked, as records.

Fields that a server adds later are ignored on reading. Times are RFC 3339 texts in UTC, as sent; `moments.py` has them as Python has them.
UNSET marks what is only there for some: `tasks` of a task group, `details` when they were asked for.
"""

from typing import Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from lattice_sdk.data.models import DataInfo, DataRequest, StageOutInfo
from lattice_sdk.models.health import Lending, NodeCheck, NodeVitals
from lattice_sdk.models.html import Shown
from lattice_sdk.models.moments import Moment, Run, as_text
from lattice_sdk.models.notifications import NotifyRequest
from lattice_sdk.models.runs import (
    CheckpointOptions,
    CheckpointStanding,
    ContainerInfo,
    ContainerOptions,
    ExposedPort,
    ImageInfo,
    InUse,
    Probe,
    ProbeRequest,
    RunUsage,
    Service,
)
from lattice_sdk.models.runs import Explanation as Explanation
from lattice_sdk.models.runs import LifecycleRequest as LifecycleRequest
from lattice_sdk.models.runs import OutputFiles as OutputFiles
from lattice_sdk.models.slurm import SlurmRequest, SlurmRequestDetails
from lattice_sdk.models.telemetry.modes import TelemetryMode, TelemetryRequest

T = TypeVar("T")
Figure = int | float

COMPLETED = "Completed"
FAILED = "Failed"
CANCELLED = "Cancelled"
TERMINAL_STATES = frozenset({COMPLETED, FAILED, CANCELLED})


GAP = "gap"  # kind of the event that says: some are missing, read the state again


class TaskCounts(Struct, frozen=True, kw_only=True):
    size: int = 0
    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    concurrency: int = 0
    pending_indices: str = ""


class Resources(Struct, frozen=True, kw_only=True):
    """What an allocation was asked to get; figures are per node."""

    nodes: int = 1
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    features: list[str] = []


class Constraints(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node must have or be; what is not named does not matter."""

    gpu_type: str | None = None
    gpu_count: int | None = None
    memory_gb: Figure | None = None
    features: list[str] = []
    topology: str | None = None
    nodes: list[str] = []
    exclude: list[str] = []
    require_unified_memory: bool = False
    allow_cxl_memory: bool = False
    require_conformance: bool = False
    prefer_same_numa: bool = False
    prefer_local_memory: bool = False
    memory_policy: str = ""  # local, interleave, preferred[:N], bind[:N]
    storage_gbps: Figure = 0


class Details(Struct, frozen=True, kw_only=True):
    """What an allocation runs; only its owner gets to see it."""

    entrypoint: list[str] | str | None = None
    script: str | None = None
    script_args: list[str] | None = None
    environment: dict[str, str] | None = None
    cwd: str | None = None
    submit_dir: str | None = None
    umask: str | None = None  # in octal
    uenv: list[ImageInfo] = []
    view: list[str] = []
    container: ContainerInfo | None = None
    max_nodes: int | None = None
    constraints: Constraints | None = None
    exclusive: bool | None = None
    per_node: bool | None = None
    notify_on: list[str] = []
    notify_to: list[str] = []
    output: OutputFiles | UnsetType = UNSET
    signal: str = ""  # before the limit
    summary: bool = False
    scratch_mb: int = 0  # size of the scratch directory; 0 = not limited
    drain_s: Figure = 0  # of a service: how long a stop waits for requests in flight
    probes: list[Probe] = []
    slurm: SlurmRequestDetails | UnsetType = UNSET
    data: list[DataInfo] = []
    stage_out: list[StageOutInfo] = []
    no_defaults: bool = False  # nothing is mounted or copied that was not asked for
    notify_each_task: bool = False


class Allocation(Shown, Run, Struct, frozen=True, kw_only=True):
    """An allocation, or a task group, which has `tasks` as well."""

    id: str
    number: int
    name: str = ""
    state: str = ""
    reason: str | None = ""
    cause: str | None = None
    message: str | None = ""
    exit_code: int | None = None
    signal: int | None = None
    nodes: list[str] = []
    node_count: int | None = 0
    user: str = ""
    tenant: str = ""
    project: str | None = ""
    vcluster: str = ""
    preemption_class: int = 5
    walltime_s: Figure | None = None
    elapsed_s: Figure | None = None
    submitted_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    eligible_at: str | None = None
    hold: str | None = ""
    lifecycle: str = "bounded"
    requeue: str = ""
    max_requeue: int = 0
    requeue_count: int = 0
    restart_count: int = 0
    step_count: int = 0
    run: int = 0
    resources: Resources = field(default_factory=Resources)
    tags: dict[str, str] = {}
    ending: str = ""  # one sentence about an end that was not exit code 0
    suspended: bool = False  # running, but its processes are suspended
    group_id: str | None = None
    task_index: int | None = None
    cpu_s: Figure | None = 0
    peak_memory_mb: Figure | None = 0
    cpu_efficiency: Figure | None = None
    memory_efficiency: Figure | None = None
    archived: bool = False
    usage: RunUsage | UnsetType = UNSET  # once it has run
    used: str = ""  # one sentence: what it held and what it used of that
    depends_on: str = ""
    waits_for: str = ""
    mutex: str = ""
    deadline: str | None = None
    dag_id: str | None = None
    avoided: list[str] = []
    slurm: SlurmRequest | UnsetType = UNSET  # of work that a Slurm command submitted
    session: bool | UnsetType = UNSET  # true: to be worked in by hand
    telemetry: TelemetryMode | UnsetType = UNSET  # where something else than prod was asked for
    idle_end_s: int | UnsetType = UNSET  # cancelled after this time without use
    no_preempt: bool | UnsetType = UNSET  # true: never taken off its nodes for other work
    preempted: int | UnsetType = UNSET  # how often it was
    expose: list[ExposedPort] = []  # ports that have names
    checkpoint: CheckpointStanding | UnsetType = UNSET  # of work that writes checkpoints, or began with one
    service: Service | UnsetType = UNSET  # of a service: its instances
    tasks: TaskCounts | UnsetType | None = UNSET
    details: Details | UnsetType | None = UNSET
    warnings: list[str] | UnsetType = UNSET  # of a submission: what it asked for and will not get
    chosen_by: str | UnsetType = UNSET  # of a submission: the rule that chose its vCluster

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def task_counts(self) -> TaskCounts | None:
        """The counts of a task group; None for a single allocation."""
        return None if self.tasks is UNSET else self.tasks


class Free(Struct, frozen=True, kw_only=True):
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0


class Node(Struct, frozen=True, kw_only=True):
    id: str
    state: str = ""
    reason: str | None = ""
    reason_by: str | None = ""
    down_cause: str | None = None
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str | None = ""
    group: str | None = ""
    features: list[str] = []
    unified_memory: bool = False
    cxl_memory_mb: int = 0
    power_w: int = 0
    address: str | None = ""
    vcluster: str | None = ""
    allocations: list[str] = []
    free: Free = field(default_factory=Free)
    holding: str = ""
    last_heartbeat_s: Figure | None = None
    load1: Figure | None = None
    registered_at: str | None = None
    changed_at: str | None = None
    status: str = ""
    last_response: int | None = None
    os: str = ""
    speed: Figure = 0.0
    virtual_memory_mb: int = 0
    tmp_disk_mb: int = 0
    partitions: list[int] = []
    position: int = 0
    shortfall: str = ""
    fingerprint: str = ""
    conformance: str = ""
    reports_through: str = ""
    vitals: NodeVitals | None = None
    checks: list[NodeCheck] = []
    home: str = ""  # whose it is, while it is lent to another vCluster
    lent_since: str | None = None


class Tenant(Struct, frozen=True, kw_only=True):
    """None = no limit."""

    name: str
    max_nodes: int | None = None
    max_concurrent_allocations: int | None = None
    max_class: int | None = None
    on_quota: str = ""
    max_running_per_user: int | None = None
    max_pending_per_user: int | None = None
    gpu_hours_budget: Figure | None = None
    node_hours_budget: Figure | None = None
    fair_share_target: Figure | None = None
    burst_allowance: Figure | None = None
    created_at: str | None = None
    members: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    in_use: InUse = field(default_factory=InUse)
    visibility: str = ""  # whose work members see: own or tenant


class Vcluster(Struct, frozen=True, kw_only=True):
    """An empty list = all, 0 = no limit."""

    name: str
    scheduler: str = ""
    tenants: list[str] = []
    nodes: list[str] = []
    node_sharing: str = ""
    fencing: str = ""
    default_walltime_s: Figure | None = 0
    max_walltime_s: Figure | None = 0
    max_nodes: int | None = 0
    up: bool = True
    profile: str = ""
    weights: dict[str, Figure] = {}
    backfill_depth: int = 0
    default_uenv: str = ""  # images of work that names none
    require_signed: bool = False
    confinement: str = "normal"
    idle_end_s: Figure | None = 0
    preemption: str = "allowed"  # of its running work by higher classes: allowed, borrowed_only or never
    lending: Lending = field(default_factory=Lending)
    read_mb_s: int = 0  # of storage, for its work on each node
    write_mb_s: int = 0
    created_at: str | None = None
    pending: int = 0
    running: int = 0


class Project(Struct, frozen=True, kw_only=True):
    tenant: str
    name: str
    max_nodes: int | None = None
    created_at: str | None = None


class Reservation(Struct, frozen=True, kw_only=True):
    """Nodes reserved for a period. No nodes = all; neither tenants nor users = maintenance."""

    name: str
    start: str | None = None
    end: str | None = None
    nodes: list[str] = []
    tenants: list[str] = []
    users: list[str] = []
    repeat_s: Figure = 0
    until: str | None = None
    reason: str = ""
    created_by: str = ""
    created_at: str | None = None
    state: str = ""
    next_start: str | None = None
    next_end: str | None = None


class Setting(Struct, frozen=True, kw_only=True):
    key: str
    value: str | int | float | bool | None = None
    default: str = ""
    help: str = ""


class UserUsage(Struct, frozen=True, kw_only=True):
    user: str = ""
    tenant: str = ""
    node_hours: Figure = 0
    gpu_hours: Figure = 0
    running: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """A fraction is what is used of a budget, 1 = all of it; None without a budget."""

    tenant: str | None = None
    user: str | None = None
    project: str | None = None
    days: int | None = None
    since: str | None = None
    node_hours: Figure = 0
    gpu_hours: Figure = 0
    running: int = 0
    node_hours_budget: Figure | None = None
    gpu_hours_budget: Figure | None = None
    node_hours_fraction: Figure | None = None
    gpu_hours_fraction: Figure | None = None
    users: list[UserUsage] = []


class SchedulerStatus(Struct, frozen=True, kw_only=True):
    server: str | None = ""
    leader: str | bool | None = ""
    applied_index: int = 0
    cycles: int = 0
    last_cycle_at: str | None = None
    last_cycle_ms: Figure | None = None
    last_placements: int | None = None
    placements: int = 0
    failed_cycles: int = 0
    last_error: str | None = ""  # of the last cycle; empty when it went well
    pending: int = 0
    running: int = 0
    nodes: dict[str, int] = {}


class QuorumMember(Struct, frozen=True, kw_only=True):
    """One server; its `digest` is that of its state at `digest_index`, `clock_skew_ms` how far its clock is ahead of the asked one's."""

    name: str
    healthy: bool = False
    applied_index: int | None = None
    digest: str | None = None
    digest_index: int | None = None
    problem: str = ""
    certificate_serial: str | None = None
    certificate_expires_at: str | None = None
    clock_skew_ms: int | None = None
    warning: str = ""


class QuorumStatus(Struct, frozen=True, kw_only=True):
    """`leader` is the name of a member; empty while none leads."""

    leader: str = ""
    server: str = ""
    digest_index: int | None = None
    members: list[QuorumMember] = []


class QuorumServer(Struct, frozen=True, kw_only=True):
    """One server as a member; `role` is leader, voter, learner or invited."""

    name: str
    role: str = ""
    healthy: bool = False
    rest: str = ""
    grpc: str = ""
    peer: str = ""
    etcd_version: str = ""
    database_bytes: int = 0
    certificate_serial: str | None = None
    certificate_expires_at: str | None = None
    invited_until: str | None = None
    problem: str = ""


class QuorumInvitation(Struct, frozen=True, kw_only=True):
    """`token` lets its holder become that server, once, until `expires_at`."""

    name: str
    token: str
    expires_at: str | None = None


class Whoami(Struct, frozen=True, kw_only=True):
    user: str
    account: str = ""
    tenant: str | None = ""
    tenants: list[str] = []
    roles: list[str] = []
    kind: str = "user"
    allocation: int | str | None = None
    expires_at: str | None = None


class Counts(Struct, frozen=True, kw_only=True):
    total: int = 0
    states: dict[str, int] = {}


class CancelOutcome(Struct, frozen=True, kw_only=True):
    """What became of one id of a cancellation of many; `error` is an error object of the API."""

    id: str
    ok: bool = True
    error: dict[str, str | None] | str | None = None


class Refusal(Struct, frozen=True, kw_only=True):
    """An error object of the API inside a good answer."""

    code: str = ""
    message: str = ""
    current: str = ""
    requested: str = ""
    limit: str = ""
    hint: str = ""


class BatchOutcome(Struct, frozen=True, kw_only=True):
    """What became of one submission of a batch: an allocation, or why not."""

    ok: bool
    allocation: Allocation | None = None
    error: Refusal | None = None


class LogChunk(Struct, frozen=True, kw_only=True):
    """A piece of output: where it came from and its bytes."""

    node: str
    stream: str
    offset: int
    data: bytes


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of output, without its end; bytes that are not UTF-8 are replaced."""

    node: str
    stream: str
    message: str


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    """One part of a list; `next_cursor` leads to the next one."""

    items: list[T]
    next_cursor: str | None = None


class ResourceRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of the machine; figures are per node, 0 = not asked for."""

    nodes: int = 1
    max_nodes: int = 0
    cpus: int = 0
    memory: str = ""
    gpus: int = 0
    exclusive: bool = False
    constraints: Constraints = field(default_factory=Constraints)


class Submission(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to run and where: `entrypoint` (a list runs as it is, a string under sh -c) or `script`."""

    name: str = ""
    tenant: str = ""
    project: str = ""
    vcluster: str = ""
    tags: dict[str, str] = {}
    entrypoint: list[str] | str | None = None
    script: str | None = None
    script_args: list[str] = []
    environment: dict[str, str] = {}
    uenv: str = ""  # images to mount: REF[:MOUNT][,REF...]; a path needs its digest, PATH@sha256:DIGEST
    view: str = ""  # views of them to apply, in this order: [UENV:]VIEW[,...]
    tools_uenv: str = ""
    scratch: str | int = ""  # size of the scratch directory on each node
    image: str = ""  # the work runs inside this container image; a path needs its digest
    container: ContainerOptions | None = None
    cwd: str = ""
    submit_dir: str = ""
    umask: int | None = None  # of the work and its files; None = 022
    resources: ResourceRequest = field(default_factory=ResourceRequest)
    lifecycle: LifecycleRequest = field(default_factory=LifecycleRequest)
    priority: str | int | None = None  # low, normal, high or a class; instead of lifecycle.preemption_class
    per_node: bool | None = None
    hold: bool = False
    begin: Moment | None = None
    tasks: str | None = None
    summary: bool = False  # a last line on stderr: how it ended, what it used
    output: OutputFiles | None = None
    signal: str = ""  # before the limit, as in USR1@90; B:USR1@90 to the script alone
    on_quota: str | None = None
    idle_end: str | int | None = None
    expose: list[ExposedPort] = []  # ports that have names, and who may reach them
    depends_on: str = ""  # ID[:CONDITION], joined by , (all) or ? (any)
    mutex: str = ""
    deadline: Moment | None = None
    keep_on_invalid_dependency: bool = False
    notify: NotifyRequest | None = None
    checkpoint: CheckpointOptions | None = None  # how it is asked for checkpoints; None = it writes none
    resume_from: str = ""  # ID[:N] of work of one's own: begin with its newest complete checkpoint, or with number N
    data: DataRequest | None = None
    liveness_probe: ProbeRequest | None = None
    readiness_probe: ProbeRequest | None = None
    startup_probe: ProbeRequest | None = None
    drain: str | int | None = None  # how long a stop of an instance waits for requests in flight
    telemetry: TelemetryRequest | None = None


class AllocationFilter(Struct, frozen=True, kw_only=True):
    """Which allocations a list, a count or a history is about."""

    states: tuple[str, ...] = ()
    user: str = ""
    tenant: str = ""
    vcluster: str = ""
    project: str = ""
    name: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    nodes: str = ""  # that run or ran on one of these: n1,n[3-5]
    is_archive_included: bool = False
    is_unfolded: bool = False  # the tasks of groups one by one
    since: Moment = ""
    until: Moment = ""

    def query(self) -> list[tuple[str, str]]:
        """As parameters of a request."""
        named = [
            ("state", ",".join(self.states)),
            ("user", self.user),
            ("tenant", self.tenant),
            ("vcluster", self.vcluster),
            ("project", self.project),
            ("name", self.name),
            *(("group", self.group), ("node", self.nodes)),
            ("all", "true" if self.is_archive_included else ""),
            ("tasks", "true" if self.is_unfolded else ""),
            *(("since", as_text(self.since)), ("until", as_text(self.until))),
        ]
        return [(key, value) for key, value in named if value] + [("tag", tag) for tag in self.tags]
