"""Checkpoints of running work: how it is asked for one, and what came of it. See docs/architecture/checkpoints.md."""

from enum import StrEnum

from msgspec import Struct

SIGUSR1 = 10
SINCE_LEVEL = 2
# Setting keys.
ROOT = "checkpoint.root"
TIMEOUT_S = "checkpoint.timeout_s"
KEEP = "checkpoint.keep"
KEEP_BYTES = "checkpoint.keep_bytes"
EVERY_S = "checkpoint.every_s"
MAX_BANDWIDTH = "checkpoint.max_bandwidth"
NODE_MTBF_S = "checkpoint.node_mtbf_s"
MIN_INTERVAL_S = "checkpoint.min_interval_s"
MAX_DEFERRAL_S = "checkpoint.max_deferral_s"
UPLOAD = "checkpoint.upload"
NO_PROJECT = "-"  # in paths of work without a project; no project can have this name
MAX_PATH = 1024
MAX_MESSAGE = 500
_LEVELS = 5  # of a checkpoint's directory below the root
EXTENSION = 0.5  # of the time limit, once, while the work makes progress


class CheckpointStrategy(StrEnum):
    """Who decides when the work writes one: the scheduler and evictions, or evictions and people alone."""

    AUTO = "auto"
    MANUAL = "manual"


class CheckpointProtocol(StrEnum):
    """How the work hears of a request and answers it."""

    SIGNAL = "signal"
    SHMEM = "shmem"
    GRPC = "grpc"


class CheckpointWay(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What the work declared when it was submitted."""

    strategy: CheckpointStrategy = CheckpointStrategy.AUTO
    protocol: CheckpointProtocol = CheckpointProtocol.SIGNAL
    signal: int = SIGUSR1  # of the protocol `signal`
    port: int = 0  # of the protocol `grpc`: the work listens there; 0 = it registers with the agent of its node


class CheckpointReason(StrEnum):
    USER = "user"  # a person asked for it
    BROKER = "broker"  # it is worth more than it costs
    REQUEUE = "requeue"  # it is to run again
    DRAIN = "drain"  # its node is drained
    PREEMPTION = "preemption"
    WALLTIME = "walltime"  # its limit is near


class CheckpointPhase(StrEnum):
    """Where one node is with the newest request."""

    ASKED = "asked"
    DONE = "done"
    NOTHING = "nothing"  # nothing there could answer
    FAILED = "failed"
    SEALED = "sealed"  # the MANIFEST is in place


class NodeCheckpoint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a node said of the newest request."""

    node: str
    phase: CheckpointPhase = CheckpointPhase.ASKED
    bytes: int = 0
    elapsed_s: float = 0.0
    message: str = ""


class OpenCheckpoint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A checkpoint that is being written."""

    n: int
    run: int
    path: str
    asked_at: int
    deadline_at: int
    reason: CheckpointReason = CheckpointReason.USER
    nodes: tuple[NodeCheckpoint, ...] = ()
    by: str = ""  # who asked, unless it was its user
    stops: bool = False  # its run is stopped when this is over, for what `reason` says
    lost_node: str = ""  # with the reason DRAIN: the node that is drained

    @property
    def sealer(self) -> str:
        """The node that writes the MANIFEST once every node has answered; empty before."""
        if any(each.phase is CheckpointPhase.ASKED for each in self.nodes):
            return ""
        return next((each.node for each in self.nodes if each.phase is CheckpointPhase.DONE), "")


class Checkpoint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A checkpoint that is over: complete, or failed for the reason in `message`."""

    n: int
    run: int
    path: str
    asked_at: int
    ended_at: int
    is_complete: bool = False
    reason: CheckpointReason = CheckpointReason.USER
    bytes: int = 0
    elapsed_s: float = 0.0  # of the slowest node
    nodes: int = 0  # that wrote something
    message: str = ""
    sealed_by: str = ""  # the node that completed it, which surely finds it
    is_stored: bool = False  # the object store has a copy


class ResumePoint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A complete checkpoint of other work, with which new work begins."""

    number: int
    n: int
    path: str
    at: int = 0


class Checkpoints(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """All that an allocation knows of its checkpoints. `kept` are the complete ones on disk, the newest last."""

    way: CheckpointWay | None = None  # None: it writes none
    last_n: int = 0
    open: OpenCheckpoint | None = None
    kept: tuple[Checkpoint, ...] = ()
    failed: Checkpoint | None = None  # the newest one that failed
    failures: int = 0  # since the last complete one
    unheard: str = ""  # why nothing of its present run can answer a request
    resume_from: ResumePoint | None = None

    @property
    def newest(self) -> Checkpoint | None:
        """The complete one with which the next run continues."""
        return self.kept[-1] if self.kept else None

    @property
    def resume_path(self) -> str:
        """Where the next run finds what it continues from; empty = it begins at the beginning."""
        if self.kept:
            return self.kept[-1].path
        return self.resume_from.path if self.resume_from is not None else ""


NO_CHECKPOINTS = Checkpoints()


def objects_of(path: str) -> str:
    """Where the object store has a copy of the checkpoint that lies there: TENANT/PROJECT/ID/checkpoints/N."""
    return "/".join(path.split("/")[-_LEVELS:])


def base_directory(root: str, tenant: str, project: str, label: str) -> str:
    """Where all checkpoints of an allocation lie."""
    return f"{root.rstrip('/')}/{tenant}/{project or NO_PROJECT}/{label}/checkpoints"


def cut_short(checkpoint: OpenCheckpoint, at: int) -> Checkpoint:
    """What is left of one whose run ended while it was being written."""
    return Checkpoint(
        n=checkpoint.n,
        run=checkpoint.run,
        path=checkpoint.path,
        asked_at=checkpoint.asked_at,
        ended_at=at,
        reason=checkpoint.reason,
        message="the run ended before it was complete",
    )


def kept_after(kept: tuple[Checkpoint, ...], count: int, most_bytes: int) -> tuple[Checkpoint, ...]:
    """Those of the complete ones that stay: the newest ones within both bounds, and the newest one in any case."""
    stay = kept[-max(1, count) :]
    while most_bytes and len(stay) > 1 and sum(each.bytes for each in stay) > most_bytes:
        stay = stay[1:]
    return stay
