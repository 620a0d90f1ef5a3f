"""Steps of running allocations: how the leader orders them from agents, and what the API asks of the leader's step registry.

Errors of this boundary::

    StepRefused   the step is not possible; the text, the figures and the hint are for the user
"""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.layout import Layout, TaskRequest
from lattice.ports.nodes.agents import OutputPiece, RunKey, StartOrder, StepKey
from lattice.ports.nodes.images import ContainerOrder


class StepRefused(Exception):
    """No step came of the request."""

    def __init__(
        self, code: str, message: str, *, current: str = "", requested: str = "", limit: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.current = current
        self.requested = requested
        self.limit = limit
        self.hint = hint


class TaskOrder(Struct, frozen=True, kw_only=True, gc=False):
    """One task; an empty `argv` means that of the step, an empty file the journal."""

    rank: int
    local_rank: int
    argv: tuple[str, ...] = ()
    has_input: bool = False
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    truncate: bool = False  # its files are its own alone
    pty: bool = False


class PmiOrder(Struct, frozen=True, kw_only=True):
    """The PMI service of a step. The key is of this launch alone, and is in nothing but orders."""

    kinds: tuple[str, ...]
    key: bytes
    host: str  # where the first node is reached
    timeout_s: float
    counts: tuple[int, ...]  # tasks of each node
    cyclic: bool = False
    heads: tuple[int, ...] = ()  # places of nodes to which those after them give; without any, all give to the first
    head_hosts: tuple[str, ...] = ()
    hidden: bool = False  # nodes encrypt what they exchange

    def __repr__(self) -> str:
        """Without the key: orders may be printed."""
        return f"PmiOrder(kinds={self.kinds}, host={self.host!r}, timeout_s={self.timeout_s})"


class TerminalOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that clients come and go at. Its node hangs it up after `keep_s` without one; 0 = it stays as long as the run."""

    keep_s: float = 0.0
    ends_run: bool = False  # the run ends with it, and with its exit code


class LaunchOrder(Struct, frozen=True, kw_only=True):
    """Start one node's tasks of a step. `base` says what a start of the allocation would say."""

    base: StartOrder
    step: int
    launch_id: str
    plan: bytes
    tasks: tuple[TaskOrder, ...]
    size: int
    nodes: tuple[str, ...]
    node_index: int
    cpus_per_task: int = 1
    time_s: float = 0.0
    rows: int = 0
    columns: int = 0
    pmi: PmiOrder | None = None
    master_host: str = ""
    master_port: int = 0
    terminal: TerminalOrder | None = None
    cpu_bind: str = ""  # none, cores, numa or map:LIST; empty = cores where there are enough
    gpu_bind: str = ""  # none or closest
    gpus_per_task: int = 0  # 0 = each task sees all GPUs of the run
    overlap: bool = False  # CPUs may be those of other steps
    container: ContainerOrder | None = None  # of the step; without a digest, one that its name has already

    @property
    def key(self) -> StepKey:
        return StepKey(self.base.key.number, self.base.key.run, self.step)


class StepOrder(Struct, frozen=True, kw_only=True, gc=False):
    """Common to all orders about a step that was launched."""

    key: StepKey


class SignalOrder(StepOrder, frozen=True, kw_only=True, gc=False):
    signal: int


class EndOrder(StepOrder, frozen=True, kw_only=True, gc=False):
    grace_s: float
    why: str


class NodesEndedOrder(StepOrder, frozen=True, kw_only=True):
    """All tasks of these nodes of the step have ended; `places` count in the step."""

    places: tuple[int, ...]


class ResizeOrder(StepOrder, frozen=True, kw_only=True, gc=False):
    rows: int
    columns: int
    client: str = ""  # whose window it is, where several may be


class AckOrder(StepOrder, frozen=True, kw_only=True, gc=False):
    """The end was recorded and needs no more reports."""


class DropContainersOrder(Struct, frozen=True, kw_only=True, gc=False):
    """The run is over: containers that its steps named go."""

    key: RunKey


AnyStepOrder = DropContainersOrder | LaunchOrder | SignalOrder | EndOrder | NodesEndedOrder | ResizeOrder | AckOrder


class InputPiece(Struct, frozen=True, kw_only=True):
    """Bytes for the tasks; `offset` counts those of the client since its first, so that a repeated piece is harmless."""

    offset: int
    data: bytes
    eof: bool = False
    client: str = ""  # who joined the step, or types at a terminal; empty = who launched it
    task: int | None = None  # the only one that gets them; None = all that take input


class StepLinks(Protocol):
    """The part of the agents' links that steps need."""

    def is_connected(self, node: str) -> bool: ...

    def order_step(self, node: str, order: AnyStepOrder) -> bool:
        """Queues the order; False when the node does not take any now."""
        ...

    async def feed_step(self, node: str, order: StepOrder, piece: InputPiece) -> int:
        """How many bytes of input of its client the node has taken since the first. Raises AgentUnreachable, StepRefused."""
        ...

    def read_journal(self, node: str, order: StepOrder, *, offset: int, follow: bool) -> AsyncIterator[OutputPiece]:
        """What the tasks on the node wrote. Raises AgentUnreachable or OutputUnavailable."""
        ...


ALL_INPUT = "all"  # `stdin` of a step whose tasks all take input


class Program(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What some ranks run instead of the step's command."""

    ranks: tuple[tuple[int, int], ...]  # (first, last)
    argv: tuple[str, ...]


class LaunchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user asked for, checked for its shape."""

    launch_id: str
    argv: tuple[str, ...]
    task_request: TaskRequest = TaskRequest()
    programs: tuple[Program, ...] = ()
    env: dict[str, str] = {}
    inherit: bool = True  # the environment of the submission below `env`
    cwd: str = ""
    stdin: str = "0"  # "none", "all", a rank, or a file
    stdout: str = ""  # patterns; empty = to the caller
    stderr: str = ""
    pty: bool = False
    rows: int = 0
    columns: int = 0
    no_kill: bool = False
    overlap: bool = False
    immediate: bool = False
    time_s: float = 0.0
    pmi: str = "auto"
    fence_timeout_s: float = 0.0  # 0 = the default
    terminal: TerminalOrder | None = None  # such a step takes no CPUs
    cpu_bind: str = ""  # as in the order
    gpu_bind: str = ""
    gpus_per_task: int = 0
    task_prologue: str = ""  # a program that each task runs before its own
    container: ContainerOrder | None = None  # as in the order


class StepView(Struct, frozen=True, kw_only=True):
    """A step that is not over yet, as the registry has it."""

    number: int
    run: int
    step: int
    launch_id: str
    name: str
    layout: Layout | None  # None while it waits
    tasks: int
    started_at: int
    input_nodes: tuple[str, ...] = ()
    closed_nodes: tuple[str, ...] = ()  # whose tasks are over, or lost
    has_ended: bool = False
    ended_at: int = 0
    exit_code: int = 0
    lost: int = 0
    message: str = ""
    failures: tuple[str, ...] = ()
    is_terminal: bool = False
    pmi: str = ""  # how its ranks found each other, as far as the nodes have said
    fed_at: int = 0  # when input came last, as far as this leader knows; 0 = none did
    stdin: str = ""  # which task takes input: a rank, `all`, `none`, or a file; empty while it waits


class IdleView(Protocol):
    """What the leader knows of work that is ended when it is not used."""

    def ends_at(self, number: int) -> int:
        """When the allocation will be cancelled if it stays idle; 0 = it is in use, or is never ended for that."""
        ...


class StepService(Protocol):
    """The leader's registry of steps."""

    async def launch(self, allocation: Allocation, request: LaunchRequest) -> StepView:
        """The step, on its way to its nodes or waiting for room; a repeat gives the same one. Raises StepRefused."""
        ...

    def live(self, number: int) -> tuple[StepView, ...]:
        """The steps of an allocation that are not recorded yet, by number."""
        ...

    def find(self, number: int, step: int) -> StepView | None: ...

    async def changed(self, number: int, step: int) -> None:
        """Returns at the next change of the step; immediately when it is not known."""
        ...

    def signal(self, number: int, step: int, signal: int) -> None:
        """Sends a signal to all tasks. Raises StepRefused."""
        ...

    def end(self, number: int, step: int, why: str) -> None:
        """Ends the step, or gives it up when it waits. Raises StepRefused."""
        ...

    def resize(self, number: int, step: int, rows: int, columns: int, client: str = "") -> None:
        """The size of its terminal, as this client sees it. Raises StepRefused."""
        ...

    async def feed(self, number: int, step: int, piece: InputPiece) -> int | None:
        """How much input was taken since the beginning; None while there is no reader. Raises StepRefused, AgentUnreachable."""
        ...

    def read(
        self, node: str, number: int, run: int, step: int, *, offset: int, follow: bool = True
    ) -> AsyncIterator[OutputPiece]:
        """What the tasks on the node write, from an offset on; a negative one counts from the end. Raises AgentUnreachable or OutputUnavailable."""
        ...
