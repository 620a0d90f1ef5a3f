"""Data of work, and its copies on the hot tier."""

from msgspec import Struct


class DataMount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source that the work sees at `target`. `tier_hint`: hot (a copy, made before the start), direct, or empty."""

    source: str
    target: str
    access: str = "read-only"  # or read-write
    tier_hint: str = ""


class StageOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is copied when the work has ended, from its scratch directory."""

    source: str
    target: str


class DataRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    mounts: list[DataMount] = []
    stage_out: list[StageOut] = []
    scratch_per_node: str | int = ""
    defaults: bool = True
    output: str = ""


class DataInfo(Struct, frozen=True, kw_only=True):
    """A source of an allocation, and how far its copy is."""

    source: str
    target: str
    access: str
    tier: str
    state: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    percent: float = 0.0
    bytes_per_s: float = 0.0
    seconds_left: float | None = None
    reason: str = ""


class StageOutInfo(Struct, frozen=True, kw_only=True):
    source: str
    target: str
    made: bool = False  # what the work finds as LATTICE_OUTPUT


class HotCopy(Struct, frozen=True, kw_only=True):
    """A source and its copy on the hot tier."""

    source: str
    state: str
    tenant: str
    size: int
    files: int
    generation: int
    bytes_done: int
    percent: float
    bytes_per_s: float
    seconds_left: float | None
    tries: int
    reason: str
    checked_at: str | None
    used_at: str | None
    allocations: tuple[str, ...]
    users: int


class HotTier(Struct, frozen=True, kw_only=True):
    capacity: int
    used: int
    movers: int
    waiting: int


class CopyTask(Struct, frozen=True, kw_only=True):
    key: str
    source: str
    generation: int
    present: int
    version: str
    tries: int
    accounts: tuple[str, ...]


class OldGeneration(Struct, frozen=True, kw_only=True):
    key: str
    generation: int


class MoverTasks(Struct, frozen=True, kw_only=True):
    tasks: tuple[CopyTask, ...]
    remove: tuple[OldGeneration, ...]
    stop: tuple[str, ...]
    bytes_per_s: float


class ReportAnswer(Struct, frozen=True, kw_only=True):
    key: str
    go_on: bool
    reason: str = ""


class ReportAnswers(Struct, frozen=True, kw_only=True):
    answers: tuple[ReportAnswer, ...]


class Retained(Struct, frozen=True, kw_only=True):
    """What is kept of an allocation that has ended."""

    id: str
    user: str
    checkpoints: int
    bytes: int
    ended_at: str | None
    until: str | None
    kept: bool
    kept_by: str


class Retention(Struct, frozen=True, kw_only=True):
    """How long what is kept, in seconds; 0 = for good."""

    logs_s: float
    checkpoints_s: float
    traces_s: float
    output_s: float
    items: list[Retained]
