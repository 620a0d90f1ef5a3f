"""The agents that are connected now: how the loops and the API reach them, and what they report to the loops.

Errors of this boundary::

    AgentUnreachable     no stream to the node, or it ended before the answer was complete
    OutputUnavailable    the node answered that it cannot read what was asked for
    RegistrationRefused  the node may not take part, or a newer stream of it was first
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from lattice.core.model.nodes.health import HealthReport
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.observations import Beat
from lattice.core.model.nodes.specifications import Figures
from lattice.core.model.site.protocols import Agreed
from lattice.core.model.work.allocations import Cause, PartPhase
from lattice.ports.nodes.collecting import Share

OutputName = Literal["stdout", "stderr"]


class AgentUnreachable(Exception):
    """No stream to the node, or it ended in the middle."""


class OutputUnavailable(Exception):
    """The node has no such output; the text says why."""


class RegistrationRefused(Exception):
    """The node is not taken; the text says why."""


class OutputPiece(Struct, frozen=True, kw_only=True):
    """Bytes of one output file; `offset` is the place of the first one."""

    offset: int
    data: bytes


SignalTarget = Literal["all", "steps", "entrypoint"]


class FileNames(Struct, frozen=True, kw_only=True, gc=False):
    """Files that a run writes besides the captured output; an empty `stderr` joins `stdout`."""

    stdout: str = ""
    stderr: str = ""
    stdin: str = ""
    appends: bool = False


class EarlyOrder(Struct, frozen=True, kw_only=True, gc=False):
    """A signal some seconds before the walltime limit."""

    signal: int
    before_s: int
    to: SignalTarget


DEFAULT_UMASK = 0o022


class StartOrder(Struct, frozen=True, kw_only=True, gc=False):
    """All that a node needs to start its part of a run."""

    number: int
    run: int
    allocation_id: str
    name: str
    account: str
    cwd: str
    nodes: tuple[str, ...]
    tasks: int
    grace_s: float
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
    is_fenced: bool = False  # the node ends the run when no server was heard for long
    has_summary: bool = False  # the node adds a last line to stderr: how it ended, what it used
    files: FileNames | None = None
    early: EarlyOrder | None = None
    umask: int = DEFAULT_UMASK
    submission: str = ""  # which one the number means


class StopOrder(Struct, frozen=True, kw_only=True, gc=False):
    """End a run; without grace, immediately."""

    number: int
    run: int
    grace_s: float
    why: str
    submission: str = ""  # empty = whatever has the key


class UpdateOrder(Struct, frozen=True, kw_only=True, gc=False):
    """A new limit, counted from the start of the process; 0 = none. A token replaces the run's own."""

    number: int
    run: int
    walltime_s: float
    token: str = ""


class SignalRunOrder(Struct, frozen=True, kw_only=True, gc=False):
    """A signal for what runs now; never repeated."""

    number: int
    run: int
    signal: int
    to: SignalTarget


class FinishOrder(Struct, frozen=True, kw_only=True, gc=False):
    """End the run as if it had ended by itself with this code: for work that only holds nodes for other work."""

    number: int
    run: int
    exit_code: int


class PauseOrder(Struct, frozen=True, kw_only=True, gc=False):
    """Suspend the run and its walltime, or resume it."""

    number: int
    run: int
    is_paused: bool


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


class RunKey(Struct, frozen=True, gc=False):
    """One start of one allocation."""

    number: int
    run: int


class KnownStep(Struct, frozen=True, kw_only=True):
    """A step that a node has, or had until its end is acknowledged; `plan` is what the server made of it at the launch."""

    key: RunKey
    step: int
    launch_id: str
    plan: bytes
    has_ended: bool = False


class TaskEnd(Struct, frozen=True, kw_only=True, gc=False):
    """How one task of a step ended; `message` when it did not start, `is_lost` when its node lost it."""

    rank: int
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    is_lost: bool = False

    @property
    def status(self) -> int:
        """What a shell would say of it."""
        if self.is_lost:
            return 125
        return 128 + self.signal if self.signal else self.exit_code or (127 if self.message else 0)


class StepReport(Struct, frozen=True, kw_only=True):
    """What a node says of its tasks of a step: of those that failed, and at the end of all."""

    key: RunKey
    step: int
    launch_id: str
    has_ended: bool
    tasks: tuple[TaskEnd, ...] = ()
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0
    message: str = ""


class Registration(Struct, frozen=True, kw_only=True):
    """How an agent introduces itself; `runs` and `steps` are all whose end was not acknowledged yet.

    `epoch` is the newest history of the cluster that it served, `run_epochs` those in which its runs were started, where known.
    """

    node: str
    hardware: Hardware
    address: str = ""
    boot_id: str = ""
    agent_version: str = ""
    runs: tuple[RunKey, ...] = ()
    steps: tuple[KnownStep, ...] = ()
    epoch: int = 0
    run_epochs: dict[RunKey, int] = {}
    takes_batches: bool = False  # several orders may come in one message
    figures: Figures | None = None  # None: the agent does not measure them
    collector_address: str = ""  # where it could gather the heartbeats of others
    issued_at: int = 0  # when the credentials were issued that it showed; seconds since 1970
    process: int = 0  # drawn by the agent's process; it numbers its heartbeats over all its streams
    protocol: Agreed = Agreed()  # what this server and the agent speak


class Greeting(Struct, frozen=True, kw_only=True):
    """The answer to a registration: every other run is to be ended before the node confirms."""

    session: int
    wanted: tuple[RunKey, ...]
    heartbeat_interval_s: float
    down_after_s: float
    server_name: str
    held_by: tuple[RunKey, ...] = ()  # steps of other runs are to be ended as well
    epoch: int = 0  # which history of the cluster this is


class Report(Struct, frozen=True, kw_only=True, gc=False):
    """What a node says of one run; `is_stopped` = it ended because it was ordered to."""

    key: RunKey
    phase: PartPhase
    seq: int
    cause: Cause | None = None
    is_stopped: bool = False
    is_prologue: bool = False  # the site's prologue failed, nothing of it ran
    is_unstarted: bool = False  # the node could not even start it
    submission: str = ""  # as the start named it; empty = the node does not say
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0  # since its process started, or until that ended; 0 = not said


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
