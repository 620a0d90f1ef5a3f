"""The agents that are connected now: how the loops and the API reach them, and what they report to the loops.

Errors of this boundary::

    AgentUnreachable     no stream to the node, or it ended before the answer was complete
    OutputUnavailable    the node answered that it cannot read what was asked for
    RegistrationRefused  the node may not take part, or a newer stream of it was first
"""

from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Literal, Protocol

from msgspec import Struct

from lattice.core.model.nodes.health import HealthReport
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.observations import Beat
from lattice.core.model.nodes.specifications import Figures
from lattice.core.model.site.protocols import Agreed
from lattice.core.model.telemetry.modes import RunMode
from lattice.core.model.work.usage import NO_USAGE, Usage
from lattice.ports.nodes.checkpoints import CheckpointReport, CheckpointSetup
from lattice.ports.nodes.collecting import Share
from lattice.ports.nodes.data import DataOrder, StageOutOrder
from lattice.ports.nodes.images import ContainerOrder, ImageOrder, ImagesAsk, NodeImagesTold
from lattice.ports.nodes.measures import GroupUse, NodeUse
from lattice.ports.nodes.probes import ProbeOrder
from lattice.ports.nodes.run_keys import RunKey as RunKey

OutputName = Literal["stdout", "stderr"]
SignalTarget = Literal["all", "steps", "entrypoint"]
DEFAULT_UMASK = 0o022


class AgentUnreachable(Exception):
    """No stream to the node, or it ended in the middle."""


class OutputUnavailable(Exception):
    """The node has no such output; the text says why."""


class RegistrationRefused(Exception):
    """The node is not taken; the text says why."""


class OutputPiece(Struct, frozen=True, kw_only=True):
    """Bytes of one output file; `offset` is the place of the first, `marks` are places and when what follows was written, in ms."""

    offset: int
    data: bytes
    marks: tuple[tuple[int, int], ...] = ()


class Phase(Enum):
    """Where a run is on its node."""

    STARTING = "starting"  # accepted, not forked yet
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    RESTARTING = "restarting"  # of a service, in reports: its process ended, and the node starts it again


class EndCause(Enum):
    """Why a run ended on its node, in the words that the shim uses."""

    EXIT = "exit"
    SIGNAL = "signal"
    OOM = "oom"
    WALLTIME = "walltime"
    LAUNCH = "launch"  # never ran: account missing, directory, exec failure, refused
    NODE = "node"  # the node lost it
    STOPPED = "stopped"  # ended by order
    PROLOGUE = "prologue"  # never ran: the site's prologue failed
    PROBE = "probe"  # a liveness or startup probe failed too often


# Orders. Their fields have the names of `proto/lattice/v1/agent.proto`; `lattice.wire.agents.messages` carries them by name.


class RunFiles(Struct, frozen=True, kw_only=True, gc=False):
    """Files that a run writes besides the captured output; an empty `stderr` joins `stdout`."""

    stdout: str = ""
    stderr: str = ""
    stdin: str = ""
    append: bool = False


class EarlySignal(Struct, frozen=True, kw_only=True, gc=False):
    """A signal some seconds before the walltime limit."""

    signal: int
    before_s: float
    to: SignalTarget


class NamedPort(Struct, frozen=True, kw_only=True, gc=False):
    """A port that a run exposes; 0 = the node chooses it."""

    name: str
    port: int = 0


class StartOrder(Struct, frozen=True, kw_only=True, gc=False):
    """All that a node needs to start its part of a run. It is kept in spec.json, by older agents too: a new field needs a default."""

    key: RunKey
    allocation_id: str = ""
    name: str = ""
    user: str = ""  # account on the node
    cwd: str = ""
    nodes: tuple[str, ...] = ()  # all of the allocation; the entrypoint runs on the first
    tasks: int = 0
    grace_s: float = 0.0  # 0 = the node's own
    argv: tuple[str, ...] = ()
    script: bytes = b""
    script_args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    submit_dir: str = ""
    walltime_s: float = 0.0  # 0 = none
    cpus: int = 0
    memory_mb: int = 0  # 0 = no limit
    gpus: int = 0
    task_index: int | None = None
    task_group_id: str = ""
    token: str = ""
    api_url: str = ""
    fence: bool = False  # the node ends the run when no server was heard for long
    summary: bool = False  # the node adds a last line to stderr: how it ended, what it used
    files: RunFiles | None = None
    early_signal: EarlySignal | None = None
    umask: int = DEFAULT_UMASK
    submission: str = ""  # which one the number means
    images: tuple[ImageOrder, ...] = ()
    views: tuple[str, ...] = ()  # of the images, in the order in which they are applied: VIEW or UENV:VIEW
    node_cpus: tuple[int, ...] = ()  # of all nodes, for `mpiexec` in the script: on the first of several nodes only
    container: ContainerOrder | None = None
    no_defaults: bool = False  # nothing is mounted that was not asked for: no home in containers, no /scratch/local
    scratch_mb: int = 0  # size of the run's scratch directory; 0 = as large as the disk has room
    output_prefix: str = ""  # below which the object store has the run's output; empty from servers of 0.1.0
    upload_grant: str = ""  # lets this node store output below `output_prefix` by requests that servers sign
    checkpoint: CheckpointSetup | None = None
    data: tuple[DataOrder, ...] = ()  # mounted before the first process starts, in this order
    stage_out: tuple[StageOutOrder, ...] = ()  # copied before the scratch directory goes
    instance: int = 0  # which start of a service's instance it is; a higher one takes the place of a lower one
    restart: str = ""  # always, on_failure, never; empty = not a service
    drain_s: float = 0.0  # how long a stop waits for requests in flight before SIGTERM
    probes: tuple[ProbeOrder, ...] = ()
    telemetry: RunMode | None = None  # from the start on; None = mode prod
    vcluster: str = ""  # for the labels of what is measured
    exposes: tuple[NamedPort, ...] = ()
    holds: bool = False  # no entrypoint here: the node is prepared for steps until it is stopped
    memory_policy: str = ""  # local, interleave, preferred[:N], bind[:N], prefer_local; empty = the kernel's own
    same_numa: bool = False  # CPUs and GPUs of one memory domain rather than the best-linked GPUs
    awaits: bool = False  # prepare the node, and start the process when the order comes again without this
    read_mb_s: int = 0  # what it may read from storage per second, in MB; 0 = no limit
    write_mb_s: int = 0  # the same for writing
    # Noted by the node.
    epoch: int = 0  # the history of the cluster in which the order came, 0 = not known
    attempt: int = 1  # how often this instance was started here
    failures: int = 0  # in a row
    streak: int = 0  # restarts without a long health between them


class StopOrder(Struct, frozen=True, kw_only=True, gc=False):
    """End a run; without grace, immediately."""

    key: RunKey
    grace_s: float
    why: str
    submission: str = ""  # empty = whatever has the key
    instance: int = 0  # as the start named it
    abandon: bool = False  # what is being copied out of its scratch directory stops as well


class UpdateOrder(Struct, frozen=True, kw_only=True, gc=False):
    """A new limit, counted from the start of the process; 0 = none. A token replaces the run's own."""

    key: RunKey
    walltime_s: float
    token: str = ""  # empty: the run keeps the one it has
    telemetry: RunMode | None = None  # None: as it is measured now


class SignalRunOrder(Struct, frozen=True, kw_only=True, gc=False):
    """A signal for what runs now; never repeated."""

    key: RunKey
    signal: int
    to: SignalTarget


class FinishOrder(Struct, frozen=True, kw_only=True, gc=False):
    """End the run as if it had ended by itself with this code: for work that only holds nodes for other work."""

    key: RunKey
    exit_code: int


class PauseOrder(Struct, frozen=True, kw_only=True, gc=False):
    """Suspend the run and its walltime, or resume it."""

    key: RunKey
    paused: bool


Order = StartOrder | StopOrder | UpdateOrder | SignalRunOrder | FinishOrder | PauseOrder


class AgentLinks(Protocol):
    """One stream per node at most; a newer one takes the place of the older."""

    def send(self, node: str, order: Order) -> bool:
        """Queues the order for the node; False when there is no confirmed stream, or it cannot take more now."""
        ...

    def is_connected(self, node: str) -> bool:
        """Whether the node's stream is open and confirmed, so that it takes orders."""
        ...

    def connected(self) -> frozenset[str]:
        """Nodes whose stream is open and confirmed: those that take orders."""
        ...

    def close(self, node: str, why: str) -> None:
        """Ends the node's stream, if there is one; the agent registers again immediately."""
        ...

    def read_output(
        self,
        node: str,
        number: int,
        run: int,
        stream: OutputName,
        *,
        offset: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[OutputPiece]:
        """The output of a run on a node, piece by piece; `tail_lines` > 0 starts that many lines before the end.

        With `follow` it ends when the run has ended. Raises AgentUnreachable or OutputUnavailable.
        """
        ...

    async def measure(self, node: str, key: RunKey | None = None) -> tuple[GroupUse, ...]:
        """What the run and its steps use on the node now, without a key all of its runs; raises AgentUnreachable.

        Nothing from an agent of a release that cannot say it.
        """
        ...

    async def measure_node(self, node: str) -> NodeUse:
        """As `measure` for all runs, and what the node lacks; raises AgentUnreachable."""
        ...

    async def read_log(self, node: str, since_s: float) -> list[str]:
        """What the agent of the node logged lately, without secrets; raises AgentUnreachable."""
        ...

    async def ask_images(self, node: str, ask: ImagesAsk) -> NodeImagesTold:
        """What the node says of its images; raises AgentUnreachable, also for an agent of a release that cannot say it."""
        ...


class StepKey(Struct, frozen=True, order=True, gc=False):
    """One step of one run of an allocation."""

    number: int
    run: int
    step: int

    @property
    def of_run(self) -> RunKey:
        return RunKey(self.number, self.run)

    def __str__(self) -> str:
        return f"{self.number}.{self.run}.{self.step}"


class KnownRun(Struct, frozen=True, kw_only=True, gc=False):
    """A run that a node has, or had until its end is acknowledged; `epoch` is that of its start, 0 = not known."""

    key: RunKey
    phase: Phase = Phase.RUNNING
    epoch: int = 0


class KnownStep(Struct, frozen=True, kw_only=True):
    """A step that a node has, or had until its end is acknowledged; `plan` is what the server made of it at the launch."""

    key: StepKey
    launch_id: str
    plan: bytes
    ended: bool = False


class TaskEnd(Struct, frozen=True, kw_only=True, gc=False):
    """How one task of a step ended; `message` when it did not start, the cause NODE when its node lost it.

    With the cause OOM the message says at which limit the kernel killed it.
    """

    rank: int
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cause: EndCause | None = None

    @property
    def is_lost(self) -> bool:
        return self.cause is EndCause.NODE

    @property
    def status(self) -> int:
        """What a shell would say of it."""
        if self.is_lost:
            return 125
        return 128 + self.signal if self.signal else self.exit_code or (127 if self.message else 0)


class PmiUse(Struct, frozen=True, kw_only=True, gc=False):
    """What the tasks of a step on one node did with its PMI service."""

    kind: str = ""
    met: int = 0  # ranks that used it
    fences: int = 0
    bytes: int = 0
    slowest_s: float = 0.0
    library: str = ""  # the MPI library of processes that did not use it, as far as it was seen
    wanted_spawn: bool = False  # a rank asked for further processes, and was refused


class StepReport(Struct, frozen=True, kw_only=True):
    """What a node says of its tasks of a step: of those that failed, and at the end of all.

    `was_ended`: the node ended the tasks itself, and `message` says why.
    """

    key: StepKey
    launch_id: str
    ended: bool
    tasks: tuple[TaskEnd, ...] = ()
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0
    message: str = ""
    usage: Usage = NO_USAGE
    cause: EndCause | None = None  # OOM: the node killed processes of it for lack of memory
    pmi: PmiUse | None = None
    was_ended: bool = False


class Registration(Struct, frozen=True, kw_only=True):
    """How an agent introduces itself; `runs` and `steps` are all whose end was not acknowledged yet."""

    node_id: str
    hardware: Hardware
    figures: Figures | None = None  # None: the agent does not measure them
    address: str = ""
    boot_id: str = ""
    agent_version: str = ""
    runs: tuple[KnownRun, ...] = ()
    steps: tuple[KnownStep, ...] = ()
    containers: tuple[RunKey, ...] = ()  # runs of which the node keeps containers for further steps
    epoch: int = 0  # of the newest history of the cluster that it served
    takes_batches: bool = False  # several orders may come in one message
    runs_as_root: bool = False
    agent_user: str = ""
    collector_address: str = ""  # where it could gather the heartbeats of others
    metrics_address: str = ""  # where a monitoring system reads its figures; empty = nowhere
    process: int = 0  # drawn by the agent's process; it numbers its heartbeats over all its streams
    issued_at: int = 0  # when the credentials were issued that it showed; seconds since 1970
    protocol: Agreed = Agreed()  # what this server and the agent speak


class Greeting(Struct, frozen=True, kw_only=True):
    """The answer to a registration: every run that is not in `valid_runs` is to be ended before the node confirms."""

    session: int
    valid_runs: tuple[RunKey, ...] = ()
    heartbeat_interval_s: float = 0.0
    down_after_s: float = 0.0  # silence after which the server gives the node up
    server_name: str = ""
    held_by: tuple[RunKey, ...] = ()  # steps of other runs are to be ended as well
    epoch: int = 0  # which history of the cluster this is
    takes_batches: bool = True  # several reports may come in one message
    signs_uploads: bool = False  # the node may ask for signed requests to the object store


class Report(Struct, frozen=True, kw_only=True, gc=False):
    """What a node says of one run: that it runs, or how it ended."""

    key: RunKey
    phase: Phase
    seq: int
    cause: EndCause | None = None
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0  # since its process started, or until that ended; 0 = not said
    never_ran: bool = False  # no process of it was started; with NODE it can be tried elsewhere immediately
    submission: str = ""  # as the start named it; empty = the node does not say
    usage: Usage = NO_USAGE
    ports: tuple[NamedPort, ...] = ()  # that it exposes, with RUNNING
    instance: int = 0  # as the start named it


class Readiness(Struct, frozen=True, kw_only=True, gc=False):
    """How an instance of a service stands by its probes: an observation, never in the log."""

    key: RunKey
    instance: int = 0
    ready: bool = False
    text: str = ""  # why not, for the user


class StartProgress(Struct, frozen=True, kw_only=True, gc=False):
    """A start that takes long gets on; the text is for the user. `copies`: it is over, and its results are being copied."""

    key: RunKey
    text: str = ""
    copies: bool = False


class AgentSink(Protocol):
    """Where the streams bring what the agents say. A call for a session that was replaced changes nothing."""

    async def register(self, registration: Registration) -> Greeting:
        """Opens a session, ending an older one of the same node; raises RegistrationRefused."""
        ...

    async def confirm(self, node: str, session: int) -> bool:
        """The node has ended every run that is not wanted; True when it may be given orders now."""
        ...

    def opened(self, node: str, session: int) -> None:
        """Orders reach the node from now on."""
        ...

    async def report(self, node: str, session: int, reports: Sequence[Report]) -> None:
        """Returns when the reports are durable, and with that may be acknowledged."""
        ...

    def inventory(self, node: str, session: int, document: bytes, fingerprint: str) -> None:
        """Takes note of what the node is made of; invalid entries are ignored."""
        ...

    def health_report(self, node: str, session: int, report: HealthReport) -> int:
        """Takes note of how the node's checks stand; the server's time in milliseconds, for the answer."""
        ...

    def start_progress(self, node: str, session: int, progress: StartProgress) -> None:
        """Takes note of how far a start is; the time that it may take counts from now."""
        ...

    def checkpoint_report(self, node: str, session: int, report: CheckpointReport) -> None:
        """Takes note of a checkpoint; the order is repeated until the state has it."""
        ...

    def readiness(self, node: str, session: int, told: Readiness) -> None:
        """Takes note of whether an instance of a service is ready."""
        ...

    def step_report(self, node: str, session: int, report: StepReport) -> None:
        """Takes note of a step; its end is acknowledged by an order when it was recorded."""
        ...

    def beat(self, node: str, session: int, beat: Beat) -> bool:
        """Notes a sign of life; False when they are so frequent that their stream is to be read more slowly."""
        ...

    def collected(self, node: str, session: int, shares: Sequence[Share]) -> bool:
        """Notes what a collector gathered from others; False as for `beat`."""
        ...

    def closed(self, node: str, session: int) -> None:
        """The stream is gone."""
        ...
