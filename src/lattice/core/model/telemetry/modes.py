"""How closely a run or a node is measured, and for how long.

A mode is logged state: the log says what was asked and when. That it is over follows from the time, on the node by the node's own
clock. See docs/architecture/telemetry.md.
"""

from enum import StrEnum

from msgspec import Struct

DEFAULT_INTERVAL_MS = 1000
MIN_INTERVAL_MS = 100
MAX_INTERVAL_MS = 10_000
DEFAULT_DURATION_S = 1800
MAX_DURATION_S = 86_400
MIN_DURATION_S = 1
ACCESS_FEATURE = "access_log"  # of a node that can say which files its work touches


class Mode(StrEnum):
    PROD = "prod"  # windows of 30 s
    DEBUG = "debug"  # every sample, for a limited time
    AUDIT = "audit"  # as prod, with the files that sensitive work touches; until the work ends


class Telemetry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mode that was asked for. `since_ms` is when; 0 = with the submission, and it counts from the start of the run."""

    mode: Mode = Mode.PROD
    interval_ms: int = DEFAULT_INTERVAL_MS
    duration_s: int = DEFAULT_DURATION_S
    since_ms: int = 0

    def left_s(self, now_ms: int, started_ms: int) -> float:
        """How long it still holds; 0 = it is over, and never over where it is not debug."""
        if self.mode is not Mode.DEBUG:
            return 0.0
        begun = self.since_ms or started_ms or now_ms
        return max(0.0, self.duration_s - (now_ms - begun) / 1000)


class RunMode(Struct, frozen=True, kw_only=True, gc=False):
    """How closely a run is measured, and for how much longer; the node returns to prod by itself."""

    mode: Mode = Mode.PROD
    interval_ms: int = DEFAULT_INTERVAL_MS
    left_s: float = 0.0


class BadMode(ValueError):
    """Says what is wrong with a mode that was asked for."""


def check_mode(asked: Telemetry) -> None:
    """Raises BadMode for what cannot be carried out."""
    if asked.mode is Mode.DEBUG and not MIN_DURATION_S <= asked.duration_s <= MAX_DURATION_S:
        raise BadMode(f"debug lasts from 1 second to 24 hours, not {asked.duration_s} s")
    if not MIN_INTERVAL_MS <= asked.interval_ms <= MAX_INTERVAL_MS:
        raise BadMode(f"the interval lies between 100 ms and 10 s, not {asked.interval_ms} ms")


def in_force(asked: Telemetry | None, now_ms: int, started_ms: int) -> Mode:
    """The mode at this moment."""
    if asked is None:
        return Mode.PROD
    if asked.mode is Mode.DEBUG and not asked.left_s(now_ms, started_ms):
        return Mode.PROD
    return asked.mode
