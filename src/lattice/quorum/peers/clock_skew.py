"""Clock differences between servers: measured with every answer of another server, reported if too large.

Times in the log come from the leader, and never go back; a leader whose clock is ahead takes the others with it. Walltimes,
deadlines and certificates depend on clocks that agree, so operators should know before anything fails.
"""

import logging
from collections.abc import Collection, Mapping

LIMIT_S = 0.5

_log = logging.getLogger(__name__)


class SkewWatch:
    """Stores the newest difference to each server; differences up to `limit_s` are not reported."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_ms = limit_s * 1000
        self._skews_ms: dict[str, float] = {}
        self._told: set[str] = set()

    @property
    def skews_s(self) -> Mapping[str, float]:
        """How far each server's clock is ahead of ours."""
        return {name: skew / 1000 for name, skew in sorted(self._skews_ms.items())}

    def note(self, name: str, theirs_ms: int, asked_ms: int, trip_ms: float) -> tuple[int | None, str]:
        """Records the difference that an answer shows; warns if it exceeds the limit regardless of the round-trip time."""
        if not theirs_ms:
            return None, ""
        skew_ms = theirs_ms - (asked_ms + trip_ms / 2)
        self._skews_ms[name] = skew_ms
        if abs(skew_ms) - trip_ms / 2 <= self._limit_ms:
            if name in self._told:
                self._told.discard(name)
                _log.info("the clock of server %s agrees again", name)
            return round(skew_ms), ""
        direction = "ahead" if skew_ms > 0 else "behind"
        warning = (
            f"its clock is {abs(skew_ms) / 1000:.1f} s {direction}, "
            f"more than {self._limit_ms / 1000:g} s; check time synchronization (chrony, ntpd)"
        )
        if name not in self._told:
            self._told.add(name)
            _log.warning("server %s: %s", name, warning)
        return round(skew_ms), warning

    def keep_only(self, names: Collection[str]) -> None:
        """Removes servers that are gone."""
        self._skews_ms = {name: skew for name, skew in self._skews_ms.items() if name in names}
        self._told.intersection_update(names)
