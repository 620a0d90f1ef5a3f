"""Steps: tasks inside a running allocation."""

from typing import Literal

from msgspec import Struct, field

from lattice_sdk.models.runs import ContainerOptions, RunUsage

StepState = Literal["waiting", "running", "ended"]


class NodeRanks(Struct, frozen=True, kw_only=True):
    """The tasks on one node; `ranks` as `0-3,7`."""

    node: str = ""
    tasks: int = 0
    ranks: str = ""


class Step(Struct, frozen=True, kw_only=True):
    """`codes` counts the tasks of an ended step by exit code, as a shell would report it."""

    id: str
    allocation: str
    step: int
    run: int = 0
    state: str = ""
    name: str = ""
    tasks: int = 0
    nodes: list[str] = []
    layout: list[NodeRanks] = []
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    lost: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    codes: dict[str, int] = {}
    launch_id: str = ""
    usage: RunUsage = field(default_factory=RunUsage)
    cause: str = ""  # "oom": processes of it were killed for lack of memory
    is_terminal: bool = False
    read_only: bool = False  # a terminal of somebody else, to watch
    watchers: list[str] = []  # whom its owner has shared it with; told to the owner alone


class StepProgram(Struct, frozen=True, kw_only=True):
    """The program of some ranks: `ranks` as `0-3,7`; `%t` in an argument stands for the rank."""

    ranks: str
    argv: list[str]


class StepRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A launch. `input`: `none`, `all`, a rank, or a file that the tasks open; `output`, `error`: files that they write."""

    argv: list[str] = []
    programs: list[StepProgram] = []
    tasks: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    node_list: list[str] = []
    distribution: str = "block"
    overcommit: bool = False
    environment: dict[str, str] = {}
    inherit_environment: bool = True
    cwd: str = ""
    input: str = "0"
    output: str = ""
    error: str = ""
    pty: bool = False
    rows: int = 0
    columns: int = 0
    no_kill: bool = False
    overlap: bool = False
    immediate: bool = False
    time: str = ""
    pmi: str = "auto"
    fence_timeout: str = ""
    cpu_bind: str = ""  # none, cores, numa or map:LIST
    gpu_bind: str = ""  # none or closest
    gpus_per_task: int = 0
    task_prologue: str = ""  # path of a program that each task runs before its own
    image: str = ""  # the tasks run inside this container image, of the step alone
    container: ContainerOptions | None = None  # without `image`, its `name` is that of one that earlier steps began


class TerminalRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A terminal to open: `command` is a line for the shell, `argv` a program with its arguments; neither means the user's shell.
    With `keep` it waits for clients as long as the allocation runs. With `ends_allocation` that ends with it, and with its exit code."""

    node: str = ""
    command: str = ""
    argv: list[str] = []
    environment: dict[str, str] = {}
    cwd: str = ""
    rows: int = 0
    columns: int = 0
    keep: bool = False
    ends_allocation: bool = False


class InputTaken(Struct, frozen=True, kw_only=True):
    """`waiting`: there are no tasks yet, and nothing was taken, not even the end."""

    upto: int = 0
    waiting: bool = False


class StepResult(Struct, frozen=True, kw_only=True):
    """How a step ended; `exit_code` is the highest of its tasks."""

    exit_code: int = 0
    lost: int = 0
    message: str = ""
    failures: list[str] = []


class OpenPort(Struct, frozen=True, kw_only=True):
    """A port on which a process of the allocation listens; `address` is what it is bound to."""

    port: int
    node: str = ""
    address: str = ""
    program: str = ""
    pid: int = 0
    name: str = ""  # by which the allocation exposes it


class OpenedPort(Struct, frozen=True, kw_only=True):
    """An address that is good once and for `expires_in_s`."""

    url: str
    port: int = 0
    node: str = ""
    expires_in_s: float = 0.0
