"""The last figures that nodes reported of their runs: what the leader may decide by, and nothing more.

A figure that is two windows old is not known any more. Nothing of it is in the log; a new leader begins with nothing.
"""

from collections.abc import Callable, Mapping

from lattice.core.model.telemetry.catalogue import merged
from lattice.core.model.telemetry.windows import WINDOW_MS
from lattice.ports.clock import Clock
from lattice.ports.nodes.telemetry import NodeFigures

FRESH_S = 2 * WINDOW_MS / 1000
MAX_ENTRIES = 200_000
LOOK_EVERY_S = 5.0  # what is used by all is added up no more often
GPU_METRIC = "gpu_utilization"
STORAGE_METRICS = ("io_read_bytes", "io_write_bytes")


class ReportedFigures:
    """By allocation. `of_allocation` is for those who scale work; `queued_as`: under which number more of the same work waits."""

    def __init__(self, clock: Clock, queued_as: Callable[[int], int] = lambda number: number) -> None:
        self._clock, self._queued_as = clock, queued_as
        self._runs: dict[tuple[int, int, str], tuple[float, dict[str, float]]] = {}  # number, run, node
        self._numbers: dict[int, dict[tuple[int, int, str], None]] = {}
        self._congestion: dict[str, tuple[float, float]] = {}  # by node: when, and from 0 to 1
        self._uses: dict[
            tuple[int, int, str], tuple[float, float]
        ] = {}  # of storage, in GB/s: as `_runs`, where there is any
        self._storage: dict[int, float] = {}
        self._storage_due_s = 0.0
        self._gpus: dict[tuple[int, int, str], tuple[float, float]] = {}  # from 0 to 1: as `_runs`, where it has GPUs
        self._gpu_use: dict[int, float] = {}
        self._gpu_due_s = 0.0

    def take(self, node: str, told: NodeFigures) -> None:
        """What a node says; what it said before of the same run is forgotten."""
        now_s = self._clock.monotonic_s()
        for each in told.runs:
            figures = dict(zip(each.metrics, each.values, strict=True))
            if each.key is None:
                self._note_congestion(node, now_s, figures)
                continue
            key = (each.key.number, each.key.run, node)
            self._runs.pop(key, None)
            self._runs[key] = (now_s, figures)
            used = sum(figures.get(metric, 0.0) for metric in STORAGE_METRICS)
            if used > 0:
                self._uses[key] = (now_s, used / 1e9)
            else:
                self._uses.pop(key, None)
            self._gpus.pop(key, None)
            if (percent := figures.get(GPU_METRIC)) is not None:
                self._gpus[key] = (now_s, min(1.0, max(0.0, percent / 100)))
            self._numbers.setdefault(each.key.number, {})[key] = None
        while self._runs and (len(self._runs) > MAX_ENTRIES or not self._is_fresh(next(iter(self._runs.values()))[0])):
            key = next(iter(self._runs))
            del self._runs[key]
            self._uses.pop(key, None)
            self._gpus.pop(key, None)
            of_number = self._numbers[key[0]]
            del of_number[key]
            if not of_number:
                del self._numbers[key[0]]

    def of_allocation(self, number: int, run: int) -> Mapping[str, float]:
        """The figures of one run over all its nodes, such as cpu_utilization (percent), memory_used (bytes) and gpu_utilization.

        Only those that are fresh; nothing when no node has reported.
        """
        found: dict[str, list[float]] = {}
        for key in self._numbers.get(number, {}):
            at_s, figures = self._runs[key]
            if key[1] == run and self._is_fresh(at_s):
                for metric, value in figures.items():
                    found.setdefault(metric, []).append(value)
        together = {metric: merged(metric, values) for metric, values in found.items()}
        return {metric: value for metric, value in together.items() if value is not None}

    def _note_congestion(self, node: str, now_s: float, figures: Mapping[str, float]) -> None:
        self._congestion.pop(node, None)
        percent = figures.get("network_congestion")
        if percent is not None:
            self._congestion[node] = (now_s, min(1.0, max(0.0, percent / 100)))

    def congestion(self) -> float | None:
        """Of the network as a whole, from 0 to 1: the mean over the nodes that work and can say it; None where none can.

        Each node counts alike, so that one that lies moves it little.
        """
        while self._congestion:
            node, (at_s, _) = next(iter(self._congestion.items()))
            if self._is_fresh(at_s):
                break
            del self._congestion[node]
        if not self._congestion:
            return None
        return sum(value for _, value in self._congestion.values()) / len(self._congestion)

    def storage_gbps(self) -> Mapping[int, float]:
        """What each allocation reads and writes now, on all its nodes; looked up again every few seconds."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._storage_due_s:
            self._storage_due_s = now_s + LOOK_EVERY_S
            found: dict[int, float] = {}
            for (number, _, _), (at_s, used) in self._uses.items():
                if at_s >= now_s - FRESH_S:
                    found[number] = found.get(number, 0.0) + used
            self._storage = found
        return self._storage

    def gpu_use(self) -> Mapping[int, float]:
        """How much work used its GPUs, from 0 to 1: the mean over nodes, and over all allocations that wait under one number.

        Looked up again every few seconds.
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._gpu_due_s:
            self._gpu_due_s = now_s + LOOK_EVERY_S
            found: dict[int, list[float]] = {}
            for (number, _, _), (at_s, use) in self._gpus.items():
                if at_s >= now_s - FRESH_S:
                    found.setdefault(self._queued_as(number), []).append(use)
            self._gpu_use = {number: sum(uses) / len(uses) for number, uses in found.items()}
        return self._gpu_use

    def _is_fresh(self, at_s: float) -> bool:
        return self._clock.monotonic_s() - at_s <= FRESH_S
