"""Commands: everything that may ever change the state, with all that varies (time, actor, ids) inside.

A command is a request. `decide` turns it into events or refuses it; nothing here has behaviour. See docs/architecture/core.md.
"""

from msgspec import Struct

from lattice.core.model.intervals import Intervals
from lattice.core.model.nodes.admission import Enrolment
from lattice.core.model.nodes.drift import Baseline, Difference
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Hardware, Share
from lattice.core.model.nodes.specifications import Figures, Specification
from lattice.core.model.site.audit import AuditKey, AuditNote, AuditSeal
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, Vcluster
from lattice.core.model.work.allocations import Cause, Hold, Lifecycle, PartPhase, Request, RequeuePolicy
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.dependencies import Clauses, Condition, EndedWork
from lattice.core.model.work.notifications import Notify, NotifyDefault
from lattice.core.model.work.revisions import Revision
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.usage import Usage


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    """Common shape of all commands; the tag is the name on the wire and never changes."""


class SubmitAllocation(Command, tag="submit_allocation", frozen=True, kw_only=True):
    name: str
    user: str
    account: str
    tenant: str
    vcluster: str
    request: Request
    project: str = ""
    lifecycle: Lifecycle = Lifecycle.BOUNDED
    per_node: bool | None = None  # None: what the lifecycle implies
    preemption_class: int = 5
    walltime_s: int = 0  # 0: the vCluster's default
    eligible_at: int = 0
    hold: Hold = Hold.NONE
    requeue: RequeuePolicy = RequeuePolicy.ON_NODE_FAILURE
    max_requeue: int = 3
    tags: tuple[tuple[str, str], ...] = ()
    tasks: tuple[tuple[int, int, int], ...] = ()  # (first, last, step) ...: a task group
    concurrency: int = 0
    queue_on_quota: bool = False  # wait for headroom whatever the tenant's setting
    notify: Notify | None = None  # None: what the user wants by default
    payload: bytes = b""
    depends_on: Clauses = ()
    ended: tuple[EndedWork, ...] = ()  # predecessors that had ended when it was proposed
    mutex: str = ""
    keep_on_invalid_dependency: bool = False
    deadline_at: int = 0
    asked: Asked | None = None  # of a Slurm command
    session: bool = False  # to be worked in by hand; ends with its first shell
    idle_end_s: int = 0  # cancelled after this time without use; 0 = of a session what its vCluster says, else never


class Edge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alternative of what a member of a DAG needs, by the other member's name."""

    ref: str
    condition: Condition = Condition.SUCCESS
    delay_s: int = 0


class DagMember(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`needs` are clauses over other members; what lies outside the DAG is in `submission.depends_on`."""

    ref: str
    submission: SubmitAllocation
    needs: tuple[tuple[Edge, ...], ...] = ()


class SubmitDag(Command, tag="submit_dag", frozen=True, kw_only=True):
    """All members or none."""

    name: str
    user: str
    tenant: str
    members: tuple[DagMember, ...]


class CancelDag(Command, tag="cancel_dag", frozen=True, kw_only=True):
    """Ends every member that has not ended."""

    number: int


class PlaceAllocation(Command, tag="place_allocation", frozen=True, kw_only=True):
    """The scheduler's proposal: start run `run` of the allocation on these shares, the first being the launch node."""

    number: int
    run: int
    shares: tuple[Share, ...]


class ReportPart(Command, tag="report_part", frozen=True, kw_only=True):
    """What a node says of its part of a run. `stopped` = it ended because it was ordered to.

    `elapsed_s` is how long it has run, or ran, by the node's own clock; 0 = not said.
    """

    number: int
    run: int
    node: str
    seq: int
    phase: PartPhase
    cause: Cause | None = None
    stopped: bool = False
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0
    prologue_failed: bool = False  # with ENDED: the site's prologue did, nothing of the allocation ran


class EndPart(Command, tag="end_part", frozen=True, kw_only=True):
    """A node's report that its part of a run has ended, and what else the part used.

    A command of its own: one more field in ReportPart would be its sixteenth, and change the bytes of all the others.
    """

    report: ReportPart
    usage: Usage


class NoteUsage(Command, tag="note_usage", frozen=True, kw_only=True):
    """What else a node's part of a run used, right before the report of its end. Logs may contain it; EndPart has replaced it."""

    number: int
    run: int
    node: str
    usage: Usage


class RecordSteps(Command, tag="record_steps", frozen=True, kw_only=True):
    """Steps of one allocation that are over, gathered for a while."""

    number: int
    steps: tuple[StepRecord, ...]


class LosePart(Command, tag="lose_part", frozen=True, kw_only=True):
    """A node that came back no longer knows a part which the state calls running."""

    number: int
    run: int
    node: str


class CancelAllocation(Command, tag="cancel_allocation", frozen=True, kw_only=True):
    """Number of an allocation, of a task or of a whole group; `positions` = only these tasks of the group."""

    number: int
    positions: Intervals = ()


class ExpireAllocation(Command, tag="expire_allocation", frozen=True, kw_only=True):
    """The server's backstop: walltime is over by a margin and the node has not ended the run."""

    number: int
    run: int


class EnforceDeadline(Command, tag="enforce_deadline", frozen=True, kw_only=True):
    """The allocation or group can no longer end before its deadline."""

    number: int


class RollbackRun(Command, tag="rollback_run", frozen=True, kw_only=True):
    """A node that takes orders has not started its part of the run in time: take the run back everywhere."""

    number: int
    run: int
    node: str


class HoldAllocation(Command, tag="hold_allocation", frozen=True, kw_only=True):
    number: int
    hold: Hold = Hold.USER
    positions: Intervals = ()


class ReleaseAllocation(Command, tag="release_allocation", frozen=True, kw_only=True):
    number: int
    as_operator: bool = False
    positions: Intervals = ()


class RequeueAllocation(Command, tag="requeue_allocation", frozen=True, kw_only=True):
    """Asked for by its user: stop the present run, keep the id, run again."""

    number: int
    hold: bool = False
    positions: Intervals = ()


class UpdateAllocation(Command, tag="update_allocation", frozen=True, kw_only=True):
    number: int
    walltime_s: int | None = None
    preemption_class: int | None = None
    name: str | None = None
    concurrency: int | None = None  # of a task group: maximum concurrent tasks, 0 = all
    set_tags: tuple[tuple[str, str], ...] = ()
    drop_tags: tuple[str, ...] = ()
    revision: Revision | None = None  # of work that still waits


class PauseAllocation(Command, tag="pause_allocation", frozen=True, kw_only=True):
    """Suspend running work (`is_paused`), or resume it."""

    number: int
    is_paused: bool


class ArchiveAllocations(Command, tag="archive_allocations", frozen=True, kw_only=True):
    """Finished allocations and groups leave the hot state."""

    numbers: tuple[int, ...]


class FoldTasks(Command, tag="fold_tasks", frozen=True, kw_only=True):
    """Ended tasks of groups that are still here become rows of their group."""

    numbers: tuple[int, ...]


class RegisterNode(Command, tag="register_node", frozen=True, kw_only=True):
    node: str
    hardware: Hardware
    address: str = ""
    boot_id: str = ""
    agent_version: str = ""
    figures: Figures | None = None  # None: the agent does not measure them


class ConfirmNode(Command, tag="confirm_node", frozen=True, kw_only=True):
    """The agent has ended all stale runs and its checks pass."""

    node: str


class FailBoot(Command, tag="fail_boot", frozen=True, kw_only=True):
    """The node was not confirmed within the boot time-out."""

    node: str
    reason: str = ""


class RebootNode(Command, tag="reboot_node", frozen=True, kw_only=True):
    """Reboot the node by the site's means; it is Booting from now on."""

    node: str
    reason: str = ""


class DegradeNode(Command, tag="degrade_node", frozen=True, kw_only=True):
    node: str
    reason: str = ""
    cause: DegradeCause = DegradeCause.SILENCE


class RecoverNode(Command, tag="recover_node", frozen=True, kw_only=True):
    """Heartbeats resumed inside the grace period, or the check passes; ends only what has this cause."""

    node: str
    cause: DegradeCause = DegradeCause.SILENCE


class DownNode(Command, tag="down_node", frozen=True, kw_only=True):
    node: str
    cause: DownCause = DownCause.SILENCE
    reason: str = ""


class DrainNode(Command, tag="drain_node", frozen=True, kw_only=True):
    """`urgent` ends what runs there and queues it again."""

    node: str
    reason: str = ""
    urgent: bool = False


class UndrainNode(Command, tag="undrain_node", frozen=True, kw_only=True):
    node: str
    is_heard: bool  # heartbeats are fresh, as the leader knows
    reason: str = ""


class DisableNode(Command, tag="disable_node", frozen=True, kw_only=True):
    node: str
    reason: str = ""


class EnableNode(Command, tag="enable_node", frozen=True, kw_only=True):
    node: str
    reason: str = ""


class WipeNode(Command, tag="wipe_node", frozen=True, kw_only=True):
    """An operator wants the node wiped, again if it was tried. `force`: also where the site has no wiper; it was done by hand."""

    node: str
    reason: str = ""
    force: bool = False


class FinishWipe(Command, tag="finish_wipe", frozen=True, kw_only=True):
    """What a wipe came to; `since` says which one."""

    node: str
    since: int
    is_wiped: bool
    reason: str = ""


class ImportNodes(Command, tag="import_nodes", frozen=True, kw_only=True):
    """The nodes of a site's files, in their order, with the vClusters and settings that follow from them: all or nothing.

    `nodes` are names, each with the place of its specification among `specifications`.
    """

    specifications: tuple[Specification, ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    vclusters: tuple[Vcluster, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    source: str = ""


class NoteDrift(Command, tag="note_drift", frozen=True, kw_only=True):
    """The node's fingerprint is not what its vCluster's baseline, or the majority there, says it should be."""

    node: str
    vcluster: str
    expected: str
    actual: str
    differences: tuple[Difference, ...] = ()


class ClearDrift(Command, tag="clear_drift", frozen=True, kw_only=True):
    """The node's fingerprint is right again, or what it is now is not wrong any more; empty = the one that was expected."""

    node: str
    fingerprint: str = ""


class EscalateDrift(Command, tag="escalate_drift", frozen=True, kw_only=True):
    """The time for its remediation is over."""

    node: str


class ApproveNode(Command, tag="approve_node", frozen=True, kw_only=True):
    """An operator takes a node back whose drift was remedied, or accepts what a node in sensitive use has become."""

    node: str
    is_heard: bool  # heartbeats are fresh, as the leader knows


class AcceptFingerprint(Command, tag="accept_fingerprint", frozen=True, kw_only=True):
    """A node came into sensitive use as it is and has to stay so; without a fingerprint: it left, and may become anything."""

    node: str
    vcluster: str = ""
    fingerprint: str = ""
    components: tuple[tuple[str, str], ...] = ()


class AdmitNode(Command, tag="admit_node", frozen=True, kw_only=True):
    """Lets a node in that waits, or whose credentials were revoked; or a name that no node has shown yet."""

    node: str
    reason: str = ""


class RevokeNode(Command, tag="revoke_node", frozen=True, kw_only=True):
    """Ends all credentials of a node: what was issued up to now is never accepted again."""

    node: str
    reason: str = ""


class EnrolNode(Command, tag="enrol_node", frozen=True, kw_only=True):
    """A token is used for a certificate; `is_named`: it was made for this node."""

    enrolment: Enrolment
    is_named: bool = False


class SetBaseline(Command, tag="set_baseline", frozen=True, kw_only=True):
    """Declares what the nodes of a vCluster should be."""

    baseline: Baseline


class UnsetBaseline(Command, tag="unset_baseline", frozen=True, kw_only=True):
    """The majority counts again."""

    vcluster: str


class SetTenant(Command, tag="set_tenant", frozen=True, kw_only=True):
    """Creates (`create`) or replaces a tenant."""

    tenant: Tenant
    create: bool = False


class SetProject(Command, tag="set_project", frozen=True, kw_only=True):
    project: Project
    create: bool = False


class SetVcluster(Command, tag="set_vcluster", frozen=True, kw_only=True):
    vcluster: Vcluster
    create: bool = False


class SetReservation(Command, tag="set_reservation", frozen=True, kw_only=True):
    """Creates (`create`) or replaces an advance reservation."""

    reservation: AdvanceReservation
    create: bool = False


class DeleteReservation(Command, tag="delete_reservation", frozen=True, kw_only=True):
    name: str


class SetSetting(Command, tag="set_setting", frozen=True, kw_only=True):
    key: str
    value: str


class SetNotifyDefault(Command, tag="set_notify_default", frozen=True, kw_only=True):
    """What a user wants to hear of allocations that do not say it; an empty one takes it back."""

    default: NotifyDefault


class NoteTimeLimit(Command, tag="note_time_limit", frozen=True, kw_only=True):
    """This percentage of the run's walltime has passed."""

    number: int
    run: int
    percent: int


class SettleNotifications(Command, tag="settle_notifications", frozen=True, kw_only=True):
    """These were sent, or will never be."""

    delivered: tuple[int, ...] = ()
    given_up: tuple[int, ...] = ()


class RecordAudit(Command, tag="record_audit", frozen=True, kw_only=True):
    """What the API did or refused, as far as no other command shows it."""

    notes: tuple[AuditNote, ...]


class AddAuditKey(Command, tag="add_audit_key", frozen=True, kw_only=True):
    """A server seals with this key from now on; the chain begins with the first one."""

    key: AuditKey


class SealAudit(Command, tag="seal_audit", frozen=True, kw_only=True):
    """A signature over the entries since the last one, made outside, where the key is."""

    seal: AuditSeal


class ArchiveAudit(Command, tag="archive_audit", frozen=True, kw_only=True):
    """Entries up to `last` are in the object store and leave the hot state."""

    last: int


class RecordSnapshot(Command, tag="record_snapshot", frozen=True, kw_only=True):
    index: int
    digest: str
    sha256: str


class RaiseLevel(Command, tag="raise_level", frozen=True, kw_only=True):
    """Every server reads this level: from now on what needs it may be written, and older servers cannot come back."""

    level: int


AnyCommand = (
    SubmitAllocation
    | RecordSteps
    | SubmitDag
    | CancelDag
    | EnforceDeadline
    | PlaceAllocation
    | ReportPart
    | LosePart
    | EndPart
    | NoteUsage
    | CancelAllocation
    | ExpireAllocation
    | RollbackRun
    | HoldAllocation
    | ReleaseAllocation
    | RequeueAllocation
    | UpdateAllocation
    | PauseAllocation
    | ArchiveAllocations
    | FoldTasks
    | RegisterNode
    | ConfirmNode
    | FailBoot
    | RebootNode
    | DegradeNode
    | RecoverNode
    | DownNode
    | DrainNode
    | UndrainNode
    | DisableNode
    | EnableNode
    | NoteDrift
    | ClearDrift
    | EscalateDrift
    | ApproveNode
    | AcceptFingerprint
    | AdmitNode
    | RevokeNode
    | EnrolNode
    | SetBaseline
    | UnsetBaseline
    | WipeNode
    | FinishWipe
    | ImportNodes
    | SetTenant
    | SetProject
    | SetVcluster
    | SetReservation
    | DeleteReservation
    | SetSetting
    | SetNotifyDefault
    | NoteTimeLimit
    | SettleNotifications
    | RecordAudit
    | AddAuditKey
    | SealAudit
    | ArchiveAudit
    | RecordSnapshot
    | RaiseLevel
)


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command with what varies: who, when (ms since 1970, never falling), on what view of the state.

    `command_id` makes a repeat harmless; internal commands, which are harmless by themselves, leave it empty.
    """

    at: int
    command: AnyCommand
    actor: str = ""
    command_id: str = ""
    based_on: int = 0
