"""Events: what happened. `evolve` folds them into the state and may not fail; subscribers act on them.

See docs/architecture/core.md.
"""

from msgspec import Struct

from lattice.core.machine.transitions import AllocationTrigger, NodeTrigger
from lattice.core.model.intervals import Intervals
from lattice.core.model.nodes.admission import Admission, Enrolment
from lattice.core.model.nodes.drift import AcceptedFingerprint, Baseline, Drift
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Hardware, NodeState, Share, Wipe
from lattice.core.model.nodes.specifications import Figures, Specification
from lattice.core.model.site.audit import AuditKey, AuditSeal, ChainedEntry
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, Hold, Part, StopIntent, TaskGroup
from lattice.core.model.work.dags import Dag, DagState
from lattice.core.model.work.dependencies import Clauses, TaskWait
from lattice.core.model.work.notifications import Notification, NotifyDefault
from lattice.core.model.work.revisions import Revised
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.usage import NO_USAGE, Usage


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Common shape of all events."""


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
    """Back to Pending; `counted` when a failure was the reason."""

    number: int
    counted: bool
    eligible_at: int
    message: str = ""
    hold: Hold = Hold.NONE
    elapsed_s: float = 0.0  # how long the run took that is over; 0 = until now
    prologue_failed: bool = False
    avoid: str = ""  # the node where it did: not there again


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


class AllocationPaused(Event, tag="allocation_paused", frozen=True, kw_only=True):
    """Its processes were suspended, or resumed."""

    number: int
    is_paused: bool


class AllocationsArchived(Event, tag="allocations_archived", frozen=True, kw_only=True):
    numbers: tuple[int, ...]


class NodeRegistered(Event, tag="node_registered", frozen=True, kw_only=True):
    node: str
    hardware: Hardware
    address: str
    boot_id: str
    agent_version: str
    is_first: bool = False


class NodeMoved(Event, tag="node_moved", frozen=True, kw_only=True):
    """A node changed its state by a trigger of the table."""

    node: str
    trigger: NodeTrigger
    state: NodeState
    down_cause: DownCause | None = None
    drain_wanted: bool = False
    reason: str = ""
    by: str = ""  # whose reason it is
    actor: str = ""  # who moved it
    note: str = ""  # why, in its history alone: the node keeps no reason for being well
    degrade_cause: DegradeCause = DegradeCause.SILENCE
    boot_failures: int = 0
    former_boot: str = ""
    wipe: Wipe | None = None
    lost: tuple[int, ...] = ()  # allocations that lost the node by it


class NodeSpecified(Event, tag="node_specified", frozen=True, kw_only=True):
    """A site says what the node must have; one that is not known yet is declared by that."""

    node: str
    specification: Specification
    shortfall: str = ""
    by: str = ""


class NodeMeasured(Event, tag="node_measured", frozen=True, kw_only=True):
    """An agent reported other figures than before, or what it reported falls short of what it must have, or no longer does."""

    node: str
    figures: Figures | None = None
    shortfall: str = ""
    by: str = ""


class DriftNoted(Event, tag="drift_noted", frozen=True, kw_only=True):
    """A node differs from its baseline, or differs in another way than before."""

    drift: Drift


class DriftEscalated(Event, tag="drift_escalated", frozen=True, kw_only=True):
    """It was not remedied in time."""

    node: str


class DriftVerified(Event, tag="drift_verified", frozen=True, kw_only=True):
    """The node is right again and waits for an operator's approval. `fingerprint` as in the command."""

    node: str
    fingerprint: str = ""


class DriftCleared(Event, tag="drift_cleared", frozen=True, kw_only=True):
    """Nothing is held against the node any more."""

    node: str


class BaselineSet(Event, tag="baseline_set", frozen=True, kw_only=True):
    baseline: Baseline


class BaselineUnset(Event, tag="baseline_unset", frozen=True, kw_only=True):
    vcluster: str


class FingerprintAccepted(Event, tag="fingerprint_accepted", frozen=True, kw_only=True):
    """What a node in sensitive use has to stay from now on."""

    accepted: AcceptedFingerprint


class FingerprintForgotten(Event, tag="fingerprint_forgotten", frozen=True, kw_only=True):
    """It is not in sensitive use any more, or a baseline is declared."""

    node: str


class NodeJudged(Event, tag="node_judged", frozen=True, kw_only=True):
    """A name waits, was admitted, or its credentials were revoked."""

    admission: Admission


class NodeEnrolled(Event, tag="node_enrolled", frozen=True, kw_only=True):
    """An enrolment token was used."""

    enrolment: Enrolment


class TenantSet(Event, tag="tenant_set", frozen=True, kw_only=True):
    tenant: Tenant


class ProjectSet(Event, tag="project_set", frozen=True, kw_only=True):
    project: Project


class VclusterSet(Event, tag="vcluster_set", frozen=True, kw_only=True):
    vcluster: Vcluster


class ReservationSet(Event, tag="reservation_set", frozen=True, kw_only=True):
    reservation: AdvanceReservation


class ReservationDeleted(Event, tag="reservation_deleted", frozen=True, kw_only=True):
    name: str


class SettingSet(Event, tag="setting_set", frozen=True, kw_only=True):
    key: str
    value: str


class TimeLimitNeared(Event, tag="time_limit_neared", frozen=True, kw_only=True):
    """This percentage of the current run's walltime has passed, and a subscriber asked for it."""

    number: int
    percent: int


class NotificationQueued(Event, tag="notification_queued", frozen=True, kw_only=True):
    notification: Notification


class NotificationDropped(Event, tag="notification_dropped", frozen=True, kw_only=True):
    """Too many notifications wait for this user already; this one is dropped."""

    user: str
    allocation: int


class NotificationsSettled(Event, tag="notifications_settled", frozen=True, kw_only=True):
    """These were sent or given up, and wait no more."""

    delivered: tuple[int, ...] = ()
    given_up: tuple[int, ...] = ()


class NotifyDefaultSet(Event, tag="notify_default_set", frozen=True, kw_only=True):
    default: NotifyDefault


class AuditRecorded(Event, tag="audit_recorded", frozen=True, kw_only=True):
    """The chain has a further entry."""

    added: ChainedEntry


class AuditKeySet(Event, tag="audit_key_set", frozen=True, kw_only=True):
    """A key seals from now on, or no more."""

    key: AuditKey


class AuditSealed(Event, tag="audit_sealed", frozen=True, kw_only=True):
    seal: AuditSeal


class AuditArchived(Event, tag="audit_archived", frozen=True, kw_only=True):
    """Entries up to `last` left the hot state."""

    last: int


class SnapshotRecorded(Event, tag="snapshot_recorded", frozen=True, kw_only=True):
    index: int
    digest: str
    sha256: str


class LevelRaised(Event, tag="level_raised", frozen=True, kw_only=True):
    level: int


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
    | StepsRecorded
    | AllocationStarted
    | AllocationStopping
    | AllocationEnded
    | AllocationRequeued
    | AllocationHeld
    | AllocationReleased
    | AllocationUpdated
    | AllocationPaused
    | AllocationsArchived
    | TasksFolded
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
    | SettingSet
    | TimeLimitNeared
    | NotificationQueued
    | NotificationDropped
    | NotificationsSettled
    | NotifyDefaultSet
    | AuditRecorded
    | AuditKeySet
    | AuditSealed
    | AuditArchived
    | SnapshotRecorded
    | LevelRaised
)
