"""The last hour of every series, as packed figures, within a fixed number of bytes."""

import struct
from collections import deque
from collections.abc import Iterable

from lattice.core.model.telemetry.windows import Window
from lattice.ports.nodes.telemetry import MetricSeries

KEEP_MS = 3_600_000
MAX_BYTES = 20 << 20
_ROW = struct.Struct("<qi5fi")  # four bytes for a figure: seven digits are more than it was measured with
# Of one row, with what Python needs around it.
ROW_BYTES = 41 + _ROW.size

Series = tuple[str, str]


class SeriesMemory:
    """By owner (a run, or None for the node) and series; the oldest go first when there is no more room."""

    def __init__(self, max_bytes: int = MAX_BYTES, keep_ms: int = KEEP_MS) -> None:
        self._max_rows = max(1, max_bytes // ROW_BYTES)
        self._keep_ms = keep_ms
        self._rows = 0
        self._owners: dict[object, dict[Series, deque[bytes]]] = {}
        self.newest_ms = 0

    @property
    def bytes(self) -> int:
        return self._rows * ROW_BYTES

    @property
    def owners(self) -> frozenset[object]:
        return frozenset(self._owners)

    def add(self, owner: object, windows: dict[Series, Window]) -> None:
        known = self._owners.setdefault(owner, {})
        for series, window in windows.items():
            known.setdefault(series, deque()).append(_packed(window))
            self.newest_ms = max(self.newest_ms, window.at_ms)
        self._rows += len(windows)
        if self._rows > self._max_rows:
            self._drop_oldest()

    def expire(self, now_ms: int) -> None:
        """Forgets what is older than it is kept."""
        self._drop_before(now_ms - self._keep_ms)

    def _drop_oldest(self) -> None:
        """A tenth at once: looking for the oldest costs a look at all."""
        ages = sorted(_at_ms(row) for series in self._owners.values() for rows in series.values() for row in rows)
        self._drop_before(ages[len(ages) // 10] + 1)

    def _drop_before(self, before_ms: int) -> None:
        for owner, series in list(self._owners.items()):
            for name, rows in list(series.items()):
                while rows and _at_ms(rows[0]) < before_ms:
                    rows.popleft()
                    self._rows -= 1
                if not rows:
                    del series[name]
            if not series:
                del self._owners[owner]

    def read(self, owner: object, since_ms: int = 0, metrics: Iterable[str] = ()) -> dict[Series, list[Window]]:
        """The windows that began then or later, oldest first; of these metrics, none = of all."""
        wanted = frozenset(metrics)
        found: dict[Series, list[Window]] = {}
        for series, rows in self._owners.get(owner, {}).items():
            if not wanted or series[0] in wanted:
                windows = [_unpacked(row) for row in rows if _at_ms(row) >= since_ms]
                if windows:
                    found[series] = windows
        return found


def _packed(window: Window) -> bytes:
    return _ROW.pack(
        window.at_ms,
        window.length_ms,
        window.mean,
        window.p50,
        window.p95,
        window.p99,
        window.max,
        window.count,
    )


def _unpacked(row: bytes) -> Window:
    return Window(*_ROW.unpack(row))


def _at_ms(row: bytes) -> int:
    return int.from_bytes(row[:8], "little", signed=True)


def as_series(found: dict[Series, list[Window]]) -> tuple[MetricSeries, ...]:
    """As they travel."""
    return tuple(
        MetricSeries(
            metric=metric,
            device=device,
            **{
                field: tuple(getattr(window, field) for window in windows)
                for field in ("at_ms", "length_ms", "mean", "p50", "p95", "p99", "max", "count")
            },
        )
        for (metric, device), windows in sorted(found.items())
    )
