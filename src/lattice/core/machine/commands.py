"""Commands: everything that may ever change the state, with all that varies (time, actor, ids) inside.

A command is a request. `decide` turns it into events or refuses it; nothing here has behaviour. See docs/architecture/core.md.
"""

from msgspec import Struct

from lattice.core.machine.vocabulary.capacity_commands import DropEviction, EvictAllocations, StopVictims
from lattice.core.machine.vocabulary.node_commands import (
    AcceptFingerprint,
    AdmitNode,
    ApproveNode,
    ClearDrift,
    ConfirmNode,
    DegradeNode,
    DisableNode,
    DownNode,
    DrainNode,
    EnableNode,
    EnrolNode,
    EscalateDrift,
    FailBoot,
    FinishWipe,
    ImportNodes,
    NoteDrift,
    RebootNode,
    RecoverNode,
    RegisterNode,
    RevokeNode,
    SetBaseline,
    UndrainNode,
    UnsetBaseline,
    WipeNode,
)
from lattice.core.machine.vocabulary.service_commands import (
    EndRollout,
    RenewInstance,
    ReviseService,
    RollBackService,
    TurnRollout,
)
from lattice.core.machine.vocabulary.shape import Command
from lattice.core.machine.vocabulary.site_commands import (
    AddAuditKey,
    ArchiveAudit,
    DeleteRecord,
    DeleteReservation,
    NoteBudget,
    RaiseLevel,
    RecordAudit,
    RecordSnapshot,
    SealAudit,
    SetNotifyDefault,
    SetProject,
    SetReservation,
    SetSetting,
    SetTenant,
    SettleNotifications,
    SetVcluster,
)
from lattice.core.machine.vocabulary.staging_commands import ClaimCopy, EvictCopy, ReportCopy, SettleData, WantCopy
from lattice.core.machine.vocabulary.upgrade_commands import BeginUpgrade, StepUpgrade, TurnUpgrade
from lattice.core.model.intervals import Intervals
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.telemetry.modes import Telemetry
from lattice.core.model.work.allocations import Cause, Hold, Lifecycle, PartPhase, Request, RequeuePolicy, Restart
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointReason, CheckpointWay, ResumePoint
from lattice.core.model.work.dependencies import Clauses, Condition, EndedWork
from lattice.core.model.work.exposure import Exposed
from lattice.core.model.work.notifications import Notify
from lattice.core.model.work.revisions import Revision
from lattice.core.model.work.steps import StepRecord
from lattice.core.model.work.usage import Usage


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
    no_preempt: bool = False
    exposes: tuple[Exposed, ...] = ()
    checkpoint: CheckpointWay | None = None  # how it is asked for checkpoints; None = it writes none
    resume_from: ResumePoint | None = None
    data: tuple[str, ...] = ()  # sources that are copied to the hot tier before it starts
    restart: Restart = Restart.NONE  # of a service
    probed: bool = False  # its nodes say when an instance is ready
    stages_out: bool = False  # its nodes copy results elsewhere at its end
    telemetry: Telemetry | None = None  # how closely each run is measured, from its start on
    scaling: ScalePolicy | None = None  # of a service that follows its load


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


class StartPart(Command, tag="start_part", frozen=True, kw_only=True):
    """A node's report that its part of a run runs, and which ports the node chose for what it exposes."""

    report: ReportPart
    ports: tuple[tuple[str, int], ...]  # by name


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


class LeaveNodes(Command, tag="leave_nodes", frozen=True, kw_only=True):
    """The entrypoint has ended on its node, which only copies results from now on: the other nodes are cleared and given back."""

    number: int
    run: int
    node: str


class GrowAllocation(Command, tag="grow_allocation", frozen=True, kw_only=True):
    """A running allocation gets one more node; `size` = how many instances it should have then, 0 = as before.

    Without `size` it fills the place of an instance that left.
    """

    number: int
    run: int
    share: Share
    size: int = 0


class ShrinkAllocation(Command, tag="shrink_allocation", frozen=True, kw_only=True):
    """The instance on the node is ended, and the node leaves the running allocation. `replace`: another node takes its place."""

    number: int
    run: int
    node: str
    reason: str = ""
    replace: bool = False


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
    checkpoint: bool = False  # it writes a checkpoint first, if it can


class UpdateAllocation(Command, tag="update_allocation", frozen=True, kw_only=True):
    number: int
    walltime_s: int | None = None
    preemption_class: int | None = None
    name: str | None = None
    concurrency: int | None = None  # of a task group: maximum concurrent tasks, 0 = all
    set_tags: tuple[tuple[str, str], ...] = ()
    drop_tags: tuple[str, ...] = ()
    revision: Revision | None = None  # of work that still waits
    telemetry: Telemetry | None = None  # how closely it is measured; `since_ms` is given by the log


class PauseAllocation(Command, tag="pause_allocation", frozen=True, kw_only=True):
    """Suspend running work (`is_paused`), or resume it."""

    number: int
    is_paused: bool


class ShareTerminal(Command, tag="share_terminal", frozen=True, kw_only=True):
    """Let a user watch a terminal of running work (`is_shared`), or no longer."""

    number: int
    step: int
    user: str
    is_shared: bool


class RequestCheckpoint(Command, tag="request_checkpoint", frozen=True, kw_only=True):
    """Ask running work for a checkpoint; `run` = only this run of it."""

    number: int
    run: int = 0
    reason: CheckpointReason = CheckpointReason.USER


class ReportCheckpoint(Command, tag="report_checkpoint", frozen=True, kw_only=True):
    """What a node says of its part of a checkpoint; `elapsed_s` is how long it took there."""

    number: int
    run: int
    n: int
    node: str
    phase: CheckpointPhase
    bytes: int = 0
    elapsed_s: float = 0.0
    message: str = ""


class ExpireCheckpoint(Command, tag="expire_checkpoint", frozen=True, kw_only=True):
    """Its time is over, or one of its nodes cannot answer any more."""

    number: int
    n: int
    message: str


class NoteCheckpointStored(Command, tag="note_checkpoint_stored", frozen=True, kw_only=True):
    """The object store has a copy of this complete checkpoint."""

    number: int
    n: int


class ArchiveAllocations(Command, tag="archive_allocations", frozen=True, kw_only=True):
    """Finished allocations and groups leave the hot state."""

    numbers: tuple[int, ...]


class FoldTasks(Command, tag="fold_tasks", frozen=True, kw_only=True):
    """Ended tasks of groups that are still here become rows of their group."""

    numbers: tuple[int, ...]


class NoteTimeLimit(Command, tag="note_time_limit", frozen=True, kw_only=True):
    """This percentage of the run's walltime has passed."""

    number: int
    run: int
    percent: int


class NoteAlert(Command, tag="note_alert", frozen=True, kw_only=True):
    """A node measured something of the run, or of itself, that points to trouble."""

    number: int
    run: int
    rule: str
    node: str
    value: float = 0.0


AnyCommand = (
    SubmitAllocation
    | RecordSteps
    | SubmitDag
    | CancelDag
    | EnforceDeadline
    | PlaceAllocation
    | ReportPart
    | LosePart
    | LeaveNodes
    | GrowAllocation
    | ShrinkAllocation
    | EndPart
    | StartPart
    | NoteUsage
    | CancelAllocation
    | ExpireAllocation
    | RollbackRun
    | HoldAllocation
    | ReleaseAllocation
    | RequeueAllocation
    | UpdateAllocation
    | PauseAllocation
    | ShareTerminal
    | RequestCheckpoint
    | ReportCheckpoint
    | ExpireCheckpoint
    | NoteCheckpointStored
    | ArchiveAllocations
    | FoldTasks
    | EvictAllocations
    | StopVictims
    | DropEviction
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
    | ReviseService
    | RollBackService
    | RenewInstance
    | TurnRollout
    | EndRollout
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
    | DeleteRecord
    | SetSetting
    | SetNotifyDefault
    | NoteTimeLimit
    | NoteAlert
    | NoteBudget
    | SettleNotifications
    | RecordAudit
    | AddAuditKey
    | SealAudit
    | ArchiveAudit
    | WantCopy
    | ClaimCopy
    | ReportCopy
    | EvictCopy
    | SettleData
    | RecordSnapshot
    | RaiseLevel
    | BeginUpgrade
    | TurnUpgrade
    | StepUpgrade
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
