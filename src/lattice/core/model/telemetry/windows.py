"""Samples become windows: mean, percentiles, maximum and count of what was measured. Nothing is interpolated.

Windows begin at multiples of their length, so that those of several nodes line up. See docs/architecture/telemetry.md.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

WINDOW_MS = 30_000  # of mode prod


class Window(Struct, frozen=True, gc=False):
    """One stretch of one series. Percentiles are values that were measured."""

    at_ms: int  # where it begins
    length_ms: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    count: int


def summarize(at_ms: int, length_ms: int, samples: Sequence[float]) -> Window:
    """The window of these samples, of which there is at least one."""
    ordered = sorted(samples)
    return Window(
        at_ms=at_ms,
        length_ms=length_ms,
        mean=math.fsum(ordered) / len(ordered),
        p50=_percentile(ordered, 50),
        p95=_percentile(ordered, 95),
        p99=_percentile(ordered, 99),
        max=ordered[-1],
        count=len(ordered),
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest rank: the smallest value that at least this many of a hundred do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


class Gathering:
    """The window that is open of each series; `length_ms` may change at any time and holds from the next window on."""

    def __init__(self, length_ms: int = WINDOW_MS) -> None:
        self.length_ms = length_ms
        self._begin_ms = 0
        self._open_ms = length_ms  # the length of the window that is open
        self._samples: dict[tuple[str, str], list[float]] = {}

    def add(self, now_ms: int, values: Iterable[tuple[tuple[str, str], float]]) -> dict[tuple[str, str], Window]:
        """Takes what was measured at this moment; the windows that are over because of it."""
        begin_ms = now_ms - now_ms % self.length_ms
        done: dict[tuple[str, str], Window] = {}
        if begin_ms != self._begin_ms or self._open_ms != self.length_ms:
            done = self.close()
            self._begin_ms, self._open_ms = begin_ms, self.length_ms
        for series, value in values:
            if math.isfinite(value):
                self._samples.setdefault(series, []).append(value)
        return done

    def close(self) -> dict[tuple[str, str], Window]:
        """Ends the open window."""
        done = self.so_far()
        self._samples = {}
        return done

    def so_far(self) -> dict[tuple[str, str], Window]:
        """The open window of each series as it would be if it ended now."""
        return {
            series: summarize(self._begin_ms, self._open_ms, samples)
            for series, samples in self._samples.items()
            if samples
        }


def figure_of(text: str) -> float | None:
    """A sample as Prometheus writes it; None for what is no number, and for NaN and infinity, of which no window can be made."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
