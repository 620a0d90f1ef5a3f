"""Allocations: the one unit of work, with its runs, parts and end."""

from enum import StrEnum

from msgspec import Struct

from lattice.core.model.nodes import Share


class AllocationState(StrEnum):
    PENDING = "Pending"
    STAGING = "Staging"
    STARTING = "Starting"
    RUNNING = "Running"
    CHECKPOINTING = "Checkpointing"
    SUSPENDED = "Suspended"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


TERMINAL = frozenset({AllocationState.COMPLETED, AllocationState.FAILED, AllocationState.CANCELLED})
HOLDING = frozenset(
    {AllocationState.STARTING, AllocationState.RUNNING, AllocationState.CHECKPOINTING, AllocationState.STOPPING}
)


class Cause(StrEnum):
    """Why an allocation (or one part of a run) ended."""

    EXIT = "exit"
    SIGNAL = "signal"
    OOM = "oom"
    WALLTIME = "walltime"
    NODE = "node"
    LAUNCH = "launch"
    PREEMPTED = "preempted"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    DEPENDENCY = "dependency"


class Lifecycle(StrEnum):
    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    REACTIVE = "reactive"


class RequeuePolicy(StrEnum):
    NEVER = "never"
    ON_NODE_FAILURE = "on_node_failure"
    ALWAYS = "always"


class Hold(StrEnum):
    """Who keeps a pending allocation from starting."""

    NONE = ""
    USER = "user"
    OPERATOR = "operator"


class StopIntent(StrEnum):
    """What becomes of a Stopping allocation once all its parts have ended."""

    CANCEL = "cancel"
    REQUEUE = "requeue"  # asked for by the user, not counted as a failure
    NODE_LOST = "node_lost"
    PART_FAILED = "part_failed"
    WALLTIME = "walltime"
    ROLLBACK = "rollback"  # it was not started in time; not counted unless it ran after all


class PartPhase(StrEnum):
    """Where one launch node is with the present run."""

    ASSIGNED = "assigned"
    RUNNING = "running"
    ENDED = "ended"


class Request(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What an allocation asks of the machine. Per-node figures; 0 = not asked for."""

    nodes: int = 1
    max_nodes: int = 0  # 0 = exactly `nodes`
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    min_memory_mb: int = 0  # the node must have so much, none of it is reserved
    features: tuple[str, ...] = ()
    topology: str = ""  # "", "tight" or "any"
    node_list: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclusive: bool = False  # whole nodes even where nodes are shared
    require_unified_memory: bool = False
    allow_cxl_memory: bool = False
    require_conformance: bool = False  # all nodes of one fingerprint
    storage_gbps: float = 0.0


class Part(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One launch node of the present run, as last reported."""

    node: str
    phase: PartPhase = PartPhase.ASSIGNED
    seq: int = 0
    cause: Cause | None = None
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0  # of an ended part, by its node's clock; 0 = not known


class Allocation(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The hot record. What to run (script, environment) is cold and lies in `State.payloads`, opaque to the core."""

    number: int
    name: str
    user: str
    account: str
    tenant: str
    vcluster: str
    request: Request
    submitted_at: int
    project: str = ""
    state: AllocationState = AllocationState.PENDING
    lifecycle: Lifecycle = Lifecycle.BOUNDED
    per_node: bool = False
    preemption_class: int = 5
    walltime_s: int = 0  # 0 = none
    eligible_at: int = 0
    hold: Hold = Hold.NONE
    requeue: RequeuePolicy = RequeuePolicy.ON_NODE_FAILURE
    max_requeue: int = 3
    requeue_count: int = 0  # failures that led to another run
    restart_count: int = 0  # all further runs, those asked for by the user included
    tags: tuple[tuple[str, str], ...] = ()
    group: int = 0  # number of the task group, 0 = none
    task_index: int = -1
    run: int = 0
    shares: tuple[Share, ...] = ()  # assigned in the present or last run; held only in HOLDING states
    parts: tuple[Part, ...] = ()
    intent: StopIntent | None = None
    lost_node: str = ""  # with NODE_LOST: the node that was lost; with ROLLBACK: the one that did not start it
    started_at: int = 0
    ended_at: int = 0
    stop_asked_at: int = 0
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_holding(self) -> bool:
        return self.state in HOLDING

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(share.node for share in self.shares)


class TaskGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A block of alike tasks under one record.

    The group has the number N, task k of its index list the number N + 1 + k. A pending task is only an entry in
    `pending` (half-open intervals of positions k); it becomes an Allocation of its own when something happens to it.
    `template` is the record such a task starts from.
    """

    number: int
    template: Allocation
    indices: tuple[tuple[int, int, int], ...]  # (first, last, step), in order
    size: int
    pending: tuple[tuple[int, int], ...]
    concurrency: int = 0  # 0 = no limit
    live: int = 0  # tasks that are records of their own and not terminal
    holding: int = 0  # tasks that hold nodes
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    started_at: int = 0  # of the first task that ran
    ended_at: int = 0
    cause: Cause | None = None  # of the task that failed worst, as are the two below
    exit_code: int | None = None
    signal: int = 0

    @property
    def is_done(self) -> bool:
        return not self.pending and not self.live

    @property
    def pending_count(self) -> int:
        return sum(stop - start for start, stop in self.pending)

    def index_at(self, position: int) -> int:
        """The task index at a position of the block."""
        for first, last, step in self.indices:
            count = (last - first) // step + 1
            if position < count:
                return first + position * step
            position -= count
        raise IndexError(position)

    def position_of(self, index: int) -> int | None:
        """The position of a task index; None when the group has no such task."""
        offset = 0
        for first, last, step in self.indices:
            if first <= index <= last and (index - first) % step == 0:
                return offset + (index - first) // step
            offset += (last - first) // step + 1
        return None

    def is_pending(self, position: int) -> bool:
        return any(start <= position < stop for start, stop in self.pending)
