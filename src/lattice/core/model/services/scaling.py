"""How a service that follows its load is scaled, and what was decided last. See docs/architecture/scaling.md."""

from msgspec import Struct

MAX_KEPT = 20_000


class ScalePolicy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One node more while the metric stays above the target, one less while it stays far below it."""

    min_nodes: int
    max_nodes: int
    metric: str
    target: float
    up_window_s: int = 120
    down_window_s: int = 300
    down_threshold: float = 0.5  # of the target
    interval_s: int = 60
    cooldown_s: int = 180


class ScaleStanding(Struct, frozen=True, kw_only=True, gc=False):
    """What the last evaluation found: an observation, never in the log."""

    run: int
    at: int
    value: float | None  # None = the metric is not known
    decision: str  # up, down, hold
    reason: str


class ScalingBoard:
    """The last standing of every service that is scaled."""

    def __init__(self) -> None:
        self._known: dict[int, ScaleStanding] = {}

    def note(self, number: int, standing: ScaleStanding) -> None:
        self._known.pop(number, None)
        self._known[number] = standing
        if len(self._known) > MAX_KEPT:
            del self._known[next(iter(self._known))]

    def get(self, number: int) -> ScaleStanding | None:
        return self._known.get(number)

    def forget(self, number: int) -> None:
        self._known.pop(number, None)
