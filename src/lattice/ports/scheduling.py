"""What the scheduling loop tells others about itself."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.work.allocations import Allocation, TaskGroup


class SchedulingStatus(Struct, frozen=True, kw_only=True):
    """The loop's own figures since the server started."""

    cycles: int = 0
    last_cycle_at: int = 0  # ms since 1970, 0 = none yet
    last_cycle_ms: float = 0.0
    last_placements: int = 0
    placements: int = 0
    failed_cycles: int = 0
    last_error: str = ""  # of the last cycle; empty when it went well


class VclusterCycle(Struct, frozen=True, kw_only=True):
    """One cycle as a vCluster saw it: what it left waiting, and what became of its placements."""

    waiting: int = 0  # allocations and tasks
    accepted: int = 0
    rejected: int = 0  # placements that no longer held when they were applied
    backfilled: int = 0  # of those accepted


class CycleReport(Struct, frozen=True, kw_only=True):
    """One cycle. `vclusters` has every vCluster; `scoring_s` is the part of `seconds` that went into the cost function."""

    seconds: float
    scoring_s: float = 0.0
    vclusters: Mapping[str, VclusterCycle] = {}
    took_part: frozenset[str] = frozenset()  # the vClusters that had anything in the queue

    @property
    def placed(self) -> int:
        return sum(each.accepted for each in self.vclusters.values())

    @property
    def stale(self) -> int:
        return sum(each.rejected for each in self.vclusters.values())


class Outlook(Struct, frozen=True, kw_only=True):
    """What the scheduler says of an allocation that waits.

    `ahead` = how many of its vCluster are before it. `scores` has each factor by name and "total". `predicted_start` (ms since
    1970) is None when it is not known; with `starts_now` it is the present.
    """

    reason: str = ""
    scores: dict[str, float] = {}
    penalty: tuple[float, str] = (1.0, "")  # what soft quotas multiply the score by, and why
    ahead: int = 0
    predicted_start: int | None = None
    predicted_nodes: tuple[str, ...] = ()
    starts_now: bool = False
    candidates: Candidates | None = None  # of a prediction; else `candidates` has them
    images: str = ""  # on how many nodes its images are; empty where it brings none, or that is not known


class Prediction(Struct, frozen=True):
    """What was predicted at a moment, both in ms since 1970."""

    at: int
    start: int


class SchedulingView(Protocol):
    def reason_for(self, number: int) -> str:
        """Why this allocation or task group waits, in one sentence; empty when the last cycle said nothing of it."""
        ...

    def behind(self) -> frozenset[int]:
        """Numbers of all allocations and groups that wait for nothing but their turn; for lists of many."""
        ...

    def outlook(self, number: int) -> Outlook | None:
        """The last cycle's view of a waiting allocation, task or group; None when it said nothing of it."""
        ...

    def predictions(self, number: int) -> tuple[Prediction, ...]:
        """How the predicted start moved since this server leads, oldest first; empty when none is known."""
        ...

    def candidates(self, number: int) -> Candidates | None:
        """Whom it could preempt by the last cycle; None when it does not wait for room or nothing runs where it could."""
        ...

    def queue(self) -> list[int]:
        """Numbers of all that the last cycle left waiting, in the order in which they are considered."""
        ...

    async def predict(self, record: Allocation | TaskGroup) -> Outlook:
        """What a cycle would do now if this were in the queue as well. Changes nothing."""
        ...

    def status(self) -> SchedulingStatus:
        """The loop's figures."""
        ...
