"""The last day of a server's public figures, in memory: what `lattice admin metrics dump` shows of a server that nothing scrapes.

A sample keeps only the series that changed since the one before, packed, and the oldest samples leave when the bytes or the day are
over. What leaves is folded into `_base`, so that the samples behind it stay whole.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry

KEPT_S = 86_400.0
MAX_BYTES = 16 << 20
MAX_SERIES = 20_000
MAX_POINTS = 100_000

# Beginnings of names, by the component that an operator asks for.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "scheduler": ("lattice_scheduling_", "lattice_allocations_", "lattice_preemption", "lattice_checkpoint_"),
    "services": ("lattice_instance", "lattice_autoscaling_"),
    "quorum": ("lattice_raft_", "lattice_server_"),
    "api": ("lattice_api_",),
    "nodes": (
        "lattice_node",
        "lattice_agent",
        "lattice_heartbeats_",
        "lattice_collect",
        "lattice_probes_",
        "lattice_conformance_",
        "lattice_sensitive_",
    ),
    "loops": ("lattice_loop_",),
    "notifications": ("lattice_notifications_",),
}


class Series(NamedTuple):
    """One line of the page: its name, its labels, and (seconds since 1970, value) of each sample in which it existed."""

    name: str
    labels: Mapping[str, str]
    samples: list[tuple[float, float]]


class _Sample(NamedTuple):
    at: float
    numbers: "array[int]"  # of the series that changed
    values: "array[float]"

    @property
    def size(self) -> int:
        return 64 + len(self.numbers) * (self.numbers.itemsize + self.values.itemsize)


Key = tuple[str, tuple[tuple[str, str], ...]]


class FigureRing:
    """One task takes samples and others read, all on one event loop."""

    def __init__(self, *, kept_s: float = KEPT_S, max_bytes: int = MAX_BYTES, max_series: int = MAX_SERIES) -> None:
        self._kept_s = kept_s
        self._max_bytes = max_bytes
        self._max_series = max_series
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._base: dict[int, float] = {}  # values before the oldest sample
        self._newest: dict[int, float] = {}
        self._samples: deque[_Sample] = deque()
        self._bytes = 0
        self.lost_series = 0  # beyond the most that are kept

    @property
    def size(self) -> int:
        """Bytes of all samples."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._samples)

    def take(self, registry: CollectorRegistry, at: float) -> None:
        """Adds what the registry shows now, at a moment in seconds since 1970."""
        numbers, values = array("I"), array("d")
        for number, value in self._read(registry):
            if self._newest.get(number) != value:
                self._newest[number] = value
                numbers.append(number)
                values.append(value)
        sample = _Sample(at, numbers, values)
        self._samples.append(sample)
        self._bytes += sample.size
        while len(self._samples) > 1 and (self._bytes > self._max_bytes or at - self._samples[0].at > self._kept_s):
            self._drop_oldest()

    def _read(self, registry: CollectorRegistry) -> Iterator[tuple[int, float]]:
        for family in registry.collect():
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                number = self._numbers.get(key)
                if number is None:
                    if len(self._keys) >= self._max_series:
                        self.lost_series += 1
                        continue
                    number = self._numbers[key] = len(self._keys)
                    self._keys.append(key)
                yield number, float(sample.value)

    def _drop_oldest(self) -> None:
        oldest = self._samples.popleft()
        self._bytes -= oldest.size
        self._base.update(zip(oldest.numbers, oldest.values, strict=True))

    def since(self, at: float, prefixes: tuple[str, ...] = ("",), *, most_points: int = MAX_POINTS) -> list[Series]:
        """The samples from a moment on, of the series whose names begin so; by name and labels.

        Where these would be too many points only every second sample is given, or every third and so on; the newest always.
        """
        wanted = {number for number, (name, _) in enumerate(self._keys) if name.startswith(prefixes)}
        shown = [sample.at for sample in self._samples if sample.at >= at]
        step = 1 + len(shown) * len(wanted) // most_points
        moments = frozenset(shown[::-1][::step])
        current = {number: value for number, value in self._base.items() if number in wanted}
        found: dict[int, list[tuple[float, float]]] = {}
        for sample in self._samples:
            current.update(
                (number, value) for number, value in zip(sample.numbers, sample.values, strict=True) if number in wanted
            )
            if sample.at in moments:
                for number, value in current.items():
                    found.setdefault(number, []).append((sample.at, value))
        series = (Series(self._keys[number][0], dict(self._keys[number][1]), each) for number, each in found.items())
        return sorted(series, key=lambda each: (each.name, sorted(each.labels.items())))

    @property
    def began_at(self) -> float | None:
        """The moment of the oldest sample."""
        return self._samples[0].at if self._samples else None
