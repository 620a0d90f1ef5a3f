"""Events: what happened. `evolve` folds them into the state and may not fail; subscribers act on them.

See docs/architecture/core.md.
"""

from lattice.core.machine.transitions import AllocationTrigger
from lattice.core.machine.vocabulary.capacity_events import EvictionBegan, EvictionChanged, EvictionEnded
from lattice.core.machine.vocabulary.node_events import (
    BaselineSet,
    BaselineUnset,
    DriftCleared,
    DriftEscalated,
    DriftNoted,
    DriftVerified,
    FingerprintAccepted,
    FingerprintForgotten,
    NodeEnrolled,
    NodeJudged,
    NodeMeasured,
    NodeMoved,
    NodeRegistered,
    NodeSpecified,
)
from lattice.core.machine.vocabulary.service_events import InstanceRenewed, RolloutChanged, ServiceRevised
from lattice.core.machine.vocabulary.shape import Event
from lattice.core.machine.vocabulary.site_events import (
    AuditArchived,
    AuditKeySet,
    AuditRecorded,
    AuditSealed,
    BudgetNoted,
    LevelRaised,
    NotificationDropped,
    NotificationQueued,
    NotificationsSettled,
    NotifyDefaultSet,
    ProjectSet,
    RecordDeleted,
    ReservationDeleted,
    ReservationSet,
    SettingSet,
    SnapshotRecorded,
    TenantSet,
    VclusterSet,
)
from lattice.core.machine.vocabulary.staging_events import AllocationStaged, CopyChanged, CopyForgotten
from lattice.core.machine.vocabulary.upgrade_events import UpgradeChanged
from lattice.core.model.intervals import Intervals
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.telemetry.modes import Telemetry
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, Hold, Part, StopIntent, TaskGroup
from lattice.core.model.work.checkpoints import Checkpoint, NodeCheckpoint, OpenCheckpoint
from lattice.core.model.work.dags import Dag, DagState
from lattice.core.model.work.dependencies import Clauses, TaskWait
from lattice.core.model.work.revisions import Revised
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.usage import NO_USAGE, Usage


class AllocationSubmitted(Event, tag="allocation_submitted", frozen=True, kw_only=True):
    allocation: Allocation
    payload: bytes = b""


class TaskGroupSubmitted(Event, tag="task_group_submitted", frozen=True, kw_only=True):
    group: TaskGroup
    payload: bytes = b""


class TaskReleased(Event, tag="task_released", frozen=True, kw_only=True):
    """A pending task of a group became a record of its own."""

    group: int
    position: int


class TasksCancelled(Event, tag="tasks_cancelled", frozen=True, kw_only=True):
    """Pending tasks of a group are given up together; without positions all that are pending."""

    group: int
    count: int
    positions: Intervals = ()
    cause: Cause = Cause.CANCELLED
    by: str = ""  # another user who cancelled them


class TaskGroupHeld(Event, tag="task_group_held", frozen=True, kw_only=True):
    """Which pending tasks of a group are held from now on: all by `hold`, else those of the intervals."""

    group: int
    hold: Hold
    held: Intervals = ()
    held_by_operator: Intervals = ()


class TasksFolded(Event, tag="tasks_folded", frozen=True, kw_only=True):
    """Ended tasks left the records for the rows of their groups."""

    numbers: tuple[int, ...]


class WaitChanged(Event, tag="wait_changed", frozen=True, kw_only=True):
    """An allocation or group waits for less than before; when nothing is left it is in the queue from `eligible_at` on."""

    number: int
    waits_for: Clauses
    eligible_at: int


class TasksUnblocked(Event, tag="tasks_unblocked", frozen=True, kw_only=True):
    """Tasks of a group no longer wait for theirs in other groups; `waits` is what is left."""

    group: int
    waits: tuple[TaskWait, ...]


class DagSubmitted(Event, tag="dag_submitted", frozen=True, kw_only=True):
    """Its members follow as events of their own."""

    dag: Dag


class DagCancelled(Event, tag="dag_cancelled", frozen=True, kw_only=True):
    dag: int
    by: str


class DagEnded(Event, tag="dag_ended", frozen=True, kw_only=True):
    """The last member has ended; the counts of completed, failed and cancelled members."""

    dag: int
    state: DagState
    counts: tuple[int, ...] = ()


class AllocationPlaced(Event, tag="allocation_placed", frozen=True, kw_only=True):
    number: int
    run: int
    shares: tuple[Share, ...]
    parts: tuple[Part, ...]


class PartChanged(Event, tag="part_changed", frozen=True, kw_only=True):
    number: int
    part: Part


class NodeJoined(Event, tag="node_joined", frozen=True, kw_only=True):
    """A running allocation got one more node, and an instance there."""

    number: int
    share: Share
    part: Part


class NodeLeft(Event, tag="node_left", frozen=True, kw_only=True):
    """An instance is gone, and its node with it; the allocation still wants as many as before.

    Or a node of bounded work that was only prepared for steps, while the first one copies results.
    `counted`: it failed, which counts as a requeue; `is_anew`: after ten minutes of health, so the count starts again.
    """

    number: int
    part: Part
    message: str = ""
    counted: bool = False
    is_anew: bool = False


class InstancesWanted(Event, tag="instances_wanted", frozen=True, kw_only=True):
    """How many instances the allocation should have from now on."""

    number: int
    wanted: int


class StepsRecorded(Event, tag="steps_recorded", frozen=True, kw_only=True):
    """Steps of the allocation are over and were not recorded before."""

    number: int
    steps: tuple[StepRecord, ...]


class AllocationStarted(Event, tag="allocation_started", frozen=True, kw_only=True):
    """All parts run, the last of them for `elapsed_s` already."""

    number: int
    elapsed_s: float = 0.0


class AllocationStopping(Event, tag="allocation_stopping", frozen=True, kw_only=True):
    number: int
    intent: StopIntent
    lost_node: str = ""
    by: str = ""  # another user who cancelled it
    abandons: bool = False  # its nodes stop copying results


class AllocationEnded(Event, tag="allocation_ended", frozen=True, kw_only=True):
    number: int
    trigger: AllocationTrigger
    state: AllocationState
    cause: Cause
    exit_code: int | None = None
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    usage: Usage = NO_USAGE
    elapsed_s: float = 0.0  # how long it ran; 0 = until now
    by: str = ""  # another user who cancelled it


class AllocationRequeued(Event, tag="allocation_requeued", frozen=True, kw_only=True):
    """Waits again, Suspended if it continues from a checkpoint, else Pending; `counted` when a failure was the reason."""

    number: int
    counted: bool
    eligible_at: int
    message: str = ""
    hold: Hold = Hold.NONE
    elapsed_s: float = 0.0  # how long the run took that is over; 0 = until now
    prologue_failed: bool = False
    is_anew: bool = False  # so long in health before that the count of requeues begins anew
    avoid: str = ""  # the node where it did: not there again
    preempted: bool = False  # its nodes were wanted for other work
    suspended: bool = False


class AllocationHeld(Event, tag="allocation_held", frozen=True, kw_only=True):
    number: int
    hold: Hold


class AllocationReleased(Event, tag="allocation_released", frozen=True, kw_only=True):
    number: int


class AllocationUpdated(Event, tag="allocation_updated", frozen=True, kw_only=True):
    number: int
    walltime_s: int
    preemption_class: int
    name: str
    concurrency: int | None = None  # of a task group, when it was to change
    tags: tuple[tuple[str, str], ...] | None = None  # None = as they were
    revised: Revised | None = None  # of work that waits, when it was to change
    telemetry: Telemetry | None = None  # None = as it was


class AllocationPaused(Event, tag="allocation_paused", frozen=True, kw_only=True):
    """Its processes were suspended, or resumed."""

    number: int
    is_paused: bool


class TerminalShared(Event, tag="terminal_shared", frozen=True, kw_only=True):
    """A user may watch a terminal from now on, or no longer."""

    number: int
    step: int
    user: str
    is_shared: bool


class CheckpointRequested(Event, tag="checkpoint_requested", frozen=True, kw_only=True):
    """The allocation is Checkpointing from now on."""

    number: int
    checkpoint: OpenCheckpoint


class CheckpointRevised(Event, tag="checkpoint_revised", frozen=True, kw_only=True):
    """What follows when the open checkpoint is over has changed."""

    number: int
    checkpoint: OpenCheckpoint


class CheckpointAdvanced(Event, tag="checkpoint_advanced", frozen=True, kw_only=True):
    """One of its nodes has answered."""

    number: int
    nodes: tuple[NodeCheckpoint, ...]


class CheckpointEnded(Event, tag="checkpoint_ended", frozen=True, kw_only=True):
    """It is complete, or failed; `is_unheard`: nothing of the run could answer."""

    number: int
    checkpoint: Checkpoint
    state: AllocationState
    is_unheard: bool = False


class CheckpointStored(Event, tag="checkpoint_stored", frozen=True, kw_only=True):
    """The object store has a copy of it."""

    number: int
    n: int


class AllocationsArchived(Event, tag="allocations_archived", frozen=True, kw_only=True):
    numbers: tuple[int, ...]


class TimeLimitNeared(Event, tag="time_limit_neared", frozen=True, kw_only=True):
    """This percentage of the current run's walltime has passed, and a subscriber asked for it."""

    number: int
    percent: int


class AlertNoted(Event, tag="alert_noted", frozen=True, kw_only=True):
    """A node measured what points to trouble of the current run, for the first time by this rule, and a subscriber asked for it."""

    number: int
    rule: str
    text: str


AnyEvent = (
    AllocationSubmitted
    | WaitChanged
    | TasksUnblocked
    | DagSubmitted
    | DagCancelled
    | DagEnded
    | TaskGroupSubmitted
    | TaskReleased
    | TasksCancelled
    | TaskGroupHeld
    | AllocationPlaced
    | PartChanged
    | NodeJoined
    | NodeLeft
    | InstancesWanted
    | ServiceRevised
    | RolloutChanged
    | InstanceRenewed
    | StepsRecorded
    | AllocationStarted
    | AllocationStopping
    | AllocationEnded
    | AllocationRequeued
    | AllocationHeld
    | AllocationReleased
    | AllocationUpdated
    | AllocationPaused
    | TerminalShared
    | CheckpointRequested
    | CheckpointRevised
    | CheckpointAdvanced
    | CheckpointEnded
    | CheckpointStored
    | AllocationsArchived
    | TasksFolded
    | EvictionBegan
    | EvictionChanged
    | EvictionEnded
    | NodeRegistered
    | NodeMoved
    | DriftNoted
    | DriftEscalated
    | DriftVerified
    | DriftCleared
    | BaselineSet
    | BaselineUnset
    | FingerprintAccepted
    | FingerprintForgotten
    | NodeJudged
    | NodeEnrolled
    | NodeSpecified
    | NodeMeasured
    | TenantSet
    | ProjectSet
    | VclusterSet
    | ReservationSet
    | ReservationDeleted
    | RecordDeleted
    | SettingSet
    | TimeLimitNeared
    | AlertNoted
    | NotificationQueued
    | NotificationDropped
    | NotificationsSettled
    | NotifyDefaultSet
    | BudgetNoted
    | AuditRecorded
    | AuditKeySet
    | AuditSealed
    | AuditArchived
    | CopyChanged
    | CopyForgotten
    | AllocationStaged
    | SnapshotRecorded
    | LevelRaised
    | UpgradeChanged
)
