"""What movers and servers say to each other about copies on the hot tier."""

from msgspec import Struct

from lattice.core.model.data.copies import CopyPhase

MAX_PROGRESS = 1_000
MAX_REPORTS = 100


class CopyProgress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a mover is with a copy."""

    key: str
    generation: int
    bytes_done: int
    bytes_total: int
    bytes_per_s: float


class MoverAsk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign of life of a mover. `slots` is how many more copies it can take on; it waits for them up to `wait_s`."""

    mover: str
    slots: int = 0
    wait_s: float = 0.0
    progress: list[CopyProgress] = []
    hot_total: int = 0  # bytes of the tier's file system
    hot_free: int = 0
    request_id: str = ""


class CopyTask(Struct, frozen=True, kw_only=True):
    """A copy that the mover now has to make, or to compare with its source."""

    key: str
    source: str
    generation: int  # of the copy, if one is to be made
    present: int  # the newest generation that is whole; 0 = none
    version: str  # of that one
    tries: int
    accounts: tuple[str, ...]  # who wants to read it


class OldGeneration(Struct, frozen=True, kw_only=True):
    """What no live work needs any more and is to be removed."""

    key: str
    generation: int


class MoverTasks(Struct, frozen=True, kw_only=True):
    """`bytes_per_s`: what this mover may use of the tier's bandwidth; 0 = all. `stop`: copies that it does not have any more."""

    tasks: tuple[CopyTask, ...]
    remove: tuple[OldGeneration, ...]
    stop: tuple[str, ...]
    bytes_per_s: float


class CopyReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    generation: int
    phase: CopyPhase
    size: int = 0
    files: int = 0
    version: str = ""
    reason: str = ""
    readers: list[str] = []
    denied: dict[str, str] = {}  # accounts that may not read the source, and why


class MoverReports(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mover: str
    reports: list[CopyReport]
    request_id: str = ""


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """`go_on`: whether the mover still has the copy, and with `sized` whether there is room for it; otherwise `reason` says why."""

    key: str
    go_on: bool
    reason: str = ""


class ReportAnswers(Struct, frozen=True, kw_only=True):
    answers: tuple[ReportAnswer, ...]
