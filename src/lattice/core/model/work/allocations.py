"""Allocations: the one unit of work, with its runs, parts and end. See docs/architecture/core.md."""

from enum import StrEnum
from math import gcd

from msgspec import Struct

from lattice.core.model import intervals
from lattice.core.model.data.copies import DataUse
from lattice.core.model.intervals import Intervals
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.services.rollouts import Rollout
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.telemetry.modes import Telemetry
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.checkpoints import NO_CHECKPOINTS, Checkpoints
from lattice.core.model.work.dependencies import Clauses, Dependency, TaskWait, index_at, position_in
from lattice.core.model.work.exposure import Exposed
from lattice.core.model.work.notifications import Notify
from lattice.core.model.work.steps import StepRecord, Watcher
from lattice.core.model.work.usage import NO_USAGE, Usage


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
WAITING = frozenset({AllocationState.PENDING, AllocationState.STAGING, AllocationState.SUSPENDED})
QUEUED = frozenset({AllocationState.PENDING, AllocationState.SUSPENDED})  # the scheduler may start them
HOLDING = frozenset(
    {AllocationState.STARTING, AllocationState.RUNNING, AllocationState.CHECKPOINTING, AllocationState.STOPPING}
)

RUNNING = frozenset({AllocationState.RUNNING, AllocationState.CHECKPOINTING})
ACTIVE = frozenset({AllocationState.STARTING, AllocationState.RUNNING, AllocationState.CHECKPOINTING})


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
    PROBE = "probe"  # of an instance of a service: its liveness or startup probe failed


class Lifecycle(StrEnum):
    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    REACTIVE = "reactive"


class RequeuePolicy(StrEnum):
    NEVER = "never"
    ON_NODE_FAILURE = "on_node_failure"
    ALWAYS = "always"
    ON_WALLTIME = "on_walltime"  # or on the failure of a node: work that saves its state before the limit continues


class Restart(StrEnum):
    """When an instance of a service that ended is started again in its place, by its node."""

    NONE = ""  # not a service: one instance that fails ends all
    ALWAYS = "always"  # after exit code 0 too
    ON_FAILURE = "on_failure"
    NEVER = "never"


AWAITS_RELEASE = "sensitive work waits for an operator to release it"  # ends the message of what is held for that


class Hold(StrEnum):
    """Who holds a pending allocation."""

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
    DEADLINE = "deadline"
    DRAIN = "drain"  # its node is drained urgently; not counted
    ROLLBACK = "rollback"  # it was not started in time; not counted unless it ran after all
    PREEMPT = "preempt"  # its nodes are wanted for other work; counted in `preempted`
    DONE = "done"  # what it ran has ended well; its other nodes are being cleared


class PartPhase(StrEnum):
    """Where one launch node is with the present run."""

    ASSIGNED = "assigned"
    RUNNING = "running"
    ENDED = "ended"
    RESTARTING = "restarting"  # its process ended and starts again there; it counts as live
    LEAVING = "leaving"  # it is being ended, and its node leaves the allocation then


class Request(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What an allocation asks of the machine. Per-node figures; 0 = not asked for."""

    nodes: int = 1
    max_nodes: int = 0  # 0 = exactly `nodes`
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    gpu_type: str = ""
    min_memory_mb: int = 0  # memory the node must have; none of it is reserved
    features: tuple[str, ...] = ()
    topology: str = ""  # "", "tight" or "any"
    node_list: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclusive: bool = False  # whole nodes even where nodes are shared
    require_unified_memory: bool = False
    allow_cxl_memory: bool = False
    require_conformance: bool = False  # all nodes of one fingerprint
    prefer_same_numa: bool = False  # CPUs and GPUs of one memory domain rather than the best-linked GPUs
    prefer_local_memory: bool = False
    storage_gbps: float = 0.0


INSTANCE_SHIFT = 20  # below it, reports of one instance count attempts: 2n - 1 = attempt n runs, 2n = it ended
MAX_ATTEMPT = (1 << (INSTANCE_SHIFT - 1)) - 1


class Part(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One node of the present run that runs the entrypoint or is prepared for steps, as last reported."""

    node: str
    phase: PartPhase = PartPhase.ASSIGNED
    seq: int = 0
    cause: Cause | None = None
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    usage: Usage = NO_USAGE
    elapsed_s: float = 0.0  # of an ended part, by its node's clock; 0 = not known
    prologue_failed: bool = False
    ports: tuple[tuple[str, int], ...] = ()  # that its node chose, by name
    joined_at: int = 0  # when its node came to the running allocation; 0 = with all others
    running_since: int = 0  # of a service: the present attempt

    @property
    def instance(self) -> int:
        """Which start ordered by a server it is, on all nodes of the run; a restart by the node does not count."""
        return self.seq >> INSTANCE_SHIFT

    @property
    def restarts(self) -> int:
        """How often the node has started it again."""
        return max(0, (self.seq & ((1 << INSTANCE_SHIFT) - 1)) - 1) // 2


MAX_TAKEN = 8  # runs that are remembered after a preemption


class TakenRun(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A run that a preemption ended."""

    run: int
    started_at: int
    ended_at: int
    nodes: tuple[str, ...]


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
    cancelled_by: str = ""  # who cancelled it, unless it was its user
    lost_node: str = ""  # with NODE_LOST: the node that was lost; with ROLLBACK: the one that did not start it
    started_at: int = 0
    paused_at: int = 0  # since when its processes are suspended, 0 = they are not
    paused_ms: int = 0  # how long they did, in all earlier pauses of this run
    ended_at: int = 0
    stop_asked_at: int = 0
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    usage: Usage = NO_USAGE  # of all its nodes
    held_cpus: int = 0  # of the run that ended last: on all its nodes
    held_memory_mb: int = 0  # and on its first node
    steps: tuple[StepRecord, ...] = ()  # those that are over, the newest, by number
    next_step: int = 0  # one more than the highest number that was recorded
    notify: Notify | None = None
    limit_noted: int = 0  # last reported percentage of the current run's walltime
    alerted: tuple[str, ...] = ()  # rules by which subscribers heard of trouble of the current run
    depends_on: Clauses = ()  # as it was submitted
    waits_for: Clauses = ()  # what of that is still open; Pending and not in the queue while there is anything
    mutex: str = ""  # one at a time per tenant, user and name
    keep_on_invalid_dependency: bool = False  # stays Pending when it can never start
    dag: int = 0  # number of the DAG, 0 = none
    dag_ref: str = ""  # its name in the DAG
    deadline_at: int = 0  # ended when it cannot end before; 0 = none
    prologue_failures: int = 0  # in a row
    avoided: tuple[str, ...] = ()  # nodes whose prologue failed for it
    asked: Asked | None = None  # in the words of a Slurm command, if one submitted it
    session: bool = False  # to be worked in by hand; ends with its first shell
    idle_end_s: int = 0  # cancelled after this time without use; 0 = never
    no_preempt: bool = False  # never taken off its nodes for other work
    preempted: int = 0  # how often it was
    taken: tuple[TakenRun, ...] = ()  # the newest runs that ended by that
    exposes: tuple[Exposed, ...] = ()  # ports that have names
    checkpoints: Checkpoints = NO_CHECKPOINTS
    data: tuple[DataUse, ...] = ()  # copies on the hot tier that it needs
    restart: Restart = Restart.NONE
    probed: bool = False  # its nodes say when an instance is ready; otherwise it is when it runs
    wanted: int = 0  # instances that it should have, once a node left or came; 0 = as many as it has
    last_instance: int = 0  # the highest number of an instance of this run
    left_restarts: int = 0  # of instances that are gone
    left: tuple[str, ...] = ()  # nodes that instances left last, the newest first
    telemetry: Telemetry | None = None  # how closely it is measured; None = mode prod
    watchers: tuple[Watcher, ...] = ()  # of its terminals, in the present run
    stages_out: bool = False  # its nodes copy results elsewhere after its last process
    abandons: bool = False  # cancelled twice: nothing more is copied
    revision: int = 0  # what instances are started with; its payload is that of the allocation
    rollout: Rollout | None = None  # the newest change of it
    scaling: ScalePolicy | None = None  # of a service that follows its load
    scaled_at: int = 0  # when it last got a node or gave one back for that
    released: tuple[Share, ...] = ()  # of this run, given back while its results are being copied

    @property
    def is_running(self) -> bool:
        """Whether its processes do their work, be it while they write a checkpoint."""
        return self.state in RUNNING

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def is_queued(self) -> bool:
        """Whether nothing but its turn, a hold or other work keeps it from starting."""
        return self.state in QUEUED

    @property
    def has_instances(self) -> bool:
        """Whether its parts end, move and are replaced each for itself."""
        return self.restart is not Restart.NONE and self.per_node

    @property
    def size(self) -> int:
        """How many instances it should have now."""
        return self.wanted or len(self.shares)

    @property
    def most_nodes(self) -> int:
        """How many nodes it may ever have at once."""
        most = max(self.request.nodes, self.request.max_nodes)
        return most if self.scaling is None else max(most, self.scaling.max_nodes)

    @property
    def missing(self) -> int:
        """Instances that wait for a node."""
        if not self.has_instances or self.state not in ACTIVE:
            return 0
        return max(0, self.size - len(self.shares))

    def revision_of(self, node: str) -> int:
        """What the instance on the node runs."""
        rollout = self.rollout
        return self.revision if rollout is None or not rollout.is_open else rollout.revision_of(node)

    def is_renewed(self, node: str) -> bool:
        """Whether the instance there is being ended to start again on its node."""
        return self.rollout is not None and node in self.rollout.renewing

    @property
    def launched(self) -> tuple[Part, ...]:
        """The parts that run the entrypoint. The others hold their nodes prepared, for steps."""
        return self.parts if self.per_node else self.parts[:1]

    def is_prepared_only(self, node: str) -> bool:
        """Whether the node runs no entrypoint: its part only keeps it prepared."""
        return not self.per_node and bool(self.shares) and node != self.shares[0].node

    @property
    def restarts(self) -> int:
        """How often nodes started its instances again, in the present run."""
        return self.left_restarts + sum(part.restarts for part in self.parts)

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_holding(self) -> bool:
        return self.state in HOLDING

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(share.node for share in self.shares)

    @property
    def run_nodes(self) -> tuple[str, ...]:
        """All that the present or last run had, with those that it has given back."""
        return (*self.nodes, *(share.node for share in self.released))


class GivenUp(Struct, frozen=True, gc=False, array_like=True):
    """Tasks that ended before they ever became records of their own: those at positions from `start` to before `stop`."""

    start: int
    stop: int
    at: int
    cause: Cause


def _meeting(apart: int, stride: int, step: int, start: int, stop: int) -> range:
    """The places from `start` to before `stop` at which `apart + place * stride` is a multiple of `step`."""
    common = gcd(stride, step)
    if apart % common:
        return range(0)
    period = step // common
    place = -(apart // common) * pow(stride // common, -1, period) % period
    return range(start + (place - start) % period, stop, period)


class TaskGroup(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A block of alike tasks under one record.

    The group has the number N, task k of its index list the number N + 1 + k; k is its position. A task is in one of four
    places: `pending` (it waits), a record of its own in the state's allocations (something happened to it alone), a row of the
    state's folded tasks (it ran and has ended) or `given_up` (it ended without ever having been more than a position).
    `template` is the record that a task starts from.
    """

    number: int
    template: Allocation
    indices: tuple[tuple[int, int, int], ...]  # (first, last, step), in order
    size: int
    pending: Intervals  # all that wait, those of the next three included
    held: Intervals = ()  # by their user; `template.hold` holds all
    held_by_operator: Intervals = ()
    blocked: Intervals = ()  # by what they depend on
    task_waits: tuple[TaskWait, ...] = ()  # what single tasks wait for, by predecessor
    given_up: tuple[GivenUp, ...] = ()
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
    cpu_s: float = 0.0  # of all tasks that ran
    held_cpu_s: float = 0.0  # CPUs held by them times how long
    peak_memory_mb: int = 0  # of the task that needed most
    held_memory_mb: int = 0  # what that one held
    usage: Usage = NO_USAGE  # of all tasks that ran
    cancelled_by: str = ""  # another user who cancelled all tasks that were cancelled

    @property
    def is_done(self) -> bool:
        return not self.pending and not self.live

    @property
    def pending_count(self) -> int:
        return intervals.count(self.pending)

    @property
    def startable(self) -> Intervals:
        """The pending tasks that nothing but `template.hold` keeps from starting."""
        free = intervals.difference(self.pending, self.blocked)
        return intervals.difference(intervals.difference(free, self.held), self.held_by_operator)

    def blocked_now(self) -> Intervals:
        """What `blocked` must be: all that wait while the group waits as a whole, else what waits task by task."""
        if self.template.waits_for:
            return self.pending
        found: Intervals = ()
        for wait in self.task_waits:
            found = intervals.union(found, wait.blocked)
        return intervals.intersection(found, self.pending)

    def waits_at(self, position: int) -> Clauses:
        """What the pending task at the position waits for, as a record of its own would."""
        clauses = self.template.waits_for
        for wait in self.task_waits:
            if intervals.contains(wait.blocked, position):
                theirs = position_in(wait.indices, self.index_at(position))
                clauses = (*clauses, (Dependency(number=wait.number + 1 + (theirs or 0)),))
        return clauses

    def index_at(self, position: int) -> int:
        """The task index at a position of the block."""
        return index_at(self.indices, position)

    def position_of(self, index: int) -> int | None:
        """The position of a task index; None when the group has no such task."""
        return position_in(self.indices, index)

    def positions_of(self, low: int, high: int, step: int = 1) -> Intervals:
        """The positions of all its task indices among low, low + step, ... up to high."""
        found: list[tuple[int, int]] = []
        offset = 0
        for first, last, stride in self.indices:
            start = max(0, -(-(low - first) // stride))
            stop = (min(high, last) - first) // stride + 1
            if start < stop and step == 1:
                found.append((offset + start, offset + stop))
            elif start < stop:
                found += (
                    (offset + place, offset + place + 1) for place in _meeting(first - low, stride, step, start, stop)
                )
            offset += (last - first) // stride + 1
        return intervals.union(tuple(found), ())

    def is_pending(self, position: int) -> bool:
        return intervals.contains(self.pending, position)

    def hold_at(self, position: int) -> Hold:
        """Who holds the pending task at the position."""
        if self.template.hold is Hold.OPERATOR or intervals.contains(self.held_by_operator, position):
            return Hold.OPERATOR
        if self.template.hold is Hold.USER or intervals.contains(self.held, position):
            return Hold.USER
        return Hold.NONE

    def given_up_at(self, position: int) -> GivenUp | None:
        """How the task at the position ended, if it did before it was more than a position."""
        return next((entry for entry in self.given_up if entry.start <= position < entry.stop), None)
