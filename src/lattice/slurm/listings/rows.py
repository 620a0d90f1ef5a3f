"""A job as the listings see it: plain values, independent of their source. Used by `squeue`, `sacct` and `scontrol`."""

from msgspec import Struct

from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.states import State


class StepRow(Struct, frozen=True, kw_only=True, gc=False):
    """A step of a job; `name` is `batch`, `extern` or its number."""

    name: str
    command: str
    state: State
    nodes: tuple[str, ...] = ()
    ntasks: int = 1
    cpus: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int = 0
    signal: int = 0
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class TakenRow(Struct, frozen=True, kw_only=True, gc=False):
    """One of its runs that a preemption ended."""

    nodes: tuple[str, ...]
    started_at: float
    ended_at: float


class JobRow(Struct, frozen=True, kw_only=True, gc=False):
    """A job, an array task, or all pending tasks of an array (`waiting`)."""

    number: int
    name: str
    user: str
    uid: int = 0
    group: str = ""
    gid: int = 0
    partition: str
    account: str = ""
    qos: str = ""
    state: State
    reason: str = "None"
    priority: int = 0
    array_number: int = 0  # 0 = not an array
    array_index: int | None = None
    raw_number: int = 0  # for JobIDRaw, if it is not `number`
    waiting: str = ""  # indices, `2-3`
    array_limit: int = 0
    nodes: tuple[str, ...] = ()
    min_nodes: int = 1
    max_nodes: int = 0
    cpus: int = 0
    ntasks: int = 1
    cpus_per_task: int = 1
    memory_mb: int = 0
    memory_per_cpu_mb: int = 0
    held_memory_mb: int = 0  # on its first node
    tasks_per_node: int = 0
    gpus: int = 0  # on all nodes
    gres: str = ""
    features: str = ""
    wanted_nodes: str = ""
    excluded_nodes: str = ""
    scheduled_nodes: str = ""
    reservation: str = ""
    dependency: str = ""
    time_limit_s: int = 0  # 0 = none
    submitted_at: float = 0.0
    eligible_at: float | None = None
    started_at: float | None = None  # for a pending job, the expected start
    ended_at: float | None = None
    exit_code: int = 0
    signal: int = 0
    cancelled_by: int | None = None
    restarts: int = 0
    taken: tuple[TakenRow, ...] = ()  # runs that a preemption ended
    may_requeue: bool = True
    is_batch: bool = True
    deadline_at: float | None = None
    submit_host: str = ""
    submit_line: str = ""
    comment: str = ""
    system_comment: str = ""  # how it ended
    wckey: str = ""
    work_dir: str = ""
    command: str = ""
    stdin: str = "/dev/null"
    stdout: str = ""
    stderr: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    steps: tuple[StepRow, ...] = ()

    @property
    def shown_id(self) -> str:
        """`N`, `N_i` or `N_[2-3%1]`."""
        if not self.array_number:
            return str(self.number)
        return f"{self.array_number}_{self.index_text}"

    @property
    def index_text(self) -> str:
        if self.waiting:
            return f"[{self.waiting}{f'%{self.array_limit}' if self.array_limit else ''}]"
        return "N/A" if self.array_index is None else str(self.array_index)

    @property
    def node_list(self) -> str:
        return fold(self.nodes)

    def run_time_s(self, now: float) -> int:
        """Run time in whole seconds; 0 for a pending job."""
        if self.started_at is None or self.state.is_waiting:
            return 0
        return max(0, int((self.ended_at if self.ended_at is not None else now) - self.started_at))
