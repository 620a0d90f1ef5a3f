"""The figures that services are scaled by: of the gateway, of the store where there is one, else of the agents' last reports."""

from collections.abc import Sequence

from lattice.control.telemetry.reported import ReportedFigures
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.telemetry.catalogue import merged
from lattice.core.model.telemetry.windows import WINDOW_MS
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.readiness import ready_count
from lattice.ports.clock import Clock
from lattice.ports.site.metric_store import MetricStore, StoreAsk, StoredRun, StoredSeries, StoreUnavailable
from lattice.wire.services.scaling import FRACTIONS, OF_AGENTS, OF_GATEWAY, selector_of

FRESH_MS = 3 * WINDOW_MS


class ScaleMetrics:
    """`read` gives the value of each service that is known; the others are left out."""

    def __init__(
        self, observations: Observations, reported: ReportedFigures, clock: Clock, store: MetricStore | None
    ) -> None:
        self._observations = observations
        self._reported = reported
        self._clock = clock
        self._store = store

    async def read(self, records: Sequence[Allocation]) -> dict[int, float]:
        found: dict[int, float] = {}
        stored: dict[str, list[Allocation]] = {}
        for record in records:
            metric = "" if record.scaling is None else record.scaling.metric
            if metric in OF_GATEWAY:
                _keep(found, record, self._of_gateway(record, metric))
            elif metric in OF_AGENTS and self._store is None:
                figures = self._reported.of_allocation(record.number, record.run)
                _keep(found, record, _per_instance(metric, figures.get(metric), len(record.parts)))
            elif metric:
                stored.setdefault(metric, []).append(record)
        if self._store is not None:
            for metric, several in stored.items():
                found |= await self._of_store(self._store, metric, several)
        return found

    def _of_gateway(self, record: Allocation, metric: str) -> float | None:
        rates = self._observations.requests.rates(record.number, record.run, self._clock.monotonic_s())
        ready = max(1, ready_count(self._observations.readiness, record))
        if metric == "request_rate":
            return rates.per_s / ready
        if metric == "in_flight":
            return rates.in_flight / ready
        return rates.latency_p99_s if rates.latency_p99_s is not None else 0.0

    async def _of_store(self, store: MetricStore, metric: str, records: Sequence[Allocation]) -> dict[int, float]:
        try:
            if metric in OF_AGENTS:
                return await self._windows(store, metric, records)
            found: dict[int, float] = {}
            for record in records:
                selector = selector_of(metric)
                if selector is not None:
                    _keep(found, record, await store.latest(selector, record.nodes, allocation_id(record.number)))
        except StoreUnavailable:
            return {}
        return found

    async def _windows(self, store: MetricStore, metric: str, records: Sequence[Allocation]) -> dict[int, float]:
        """The newest window of each node, put together."""
        runs = {StoredRun(allocation_id(each.number), each.run, each.tenant): each for each in records}
        now = self._clock.now_ms()
        ask = StoreAsk(metrics=(metric,), begin_ms=now - FRESH_MS, end_ms=now, runs=tuple(runs))
        newest: dict[int, list[float]] = {}
        for series in await store.read(ask):
            record = None if series.run is None else runs.get(series.run)
            value = _newest(series)
            if record is not None and value is not None:
                newest.setdefault(record.number, []).append(value)
        found: dict[int, float] = {}
        for record in records:
            value = merged(metric, newest.get(record.number, ()))
            _keep(found, record, _per_instance(metric, value, len(record.parts)))
        return found


def _newest(series: StoredSeries) -> float | None:
    return series.windows[-1].mean if series.windows else None


def _keep(found: dict[int, float], record: Allocation, value: float | None) -> None:
    if value is not None:
        found[record.number] = value


def _per_instance(metric: str, value: float | None, count: int) -> float | None:
    """Utilisations as fractions; amounts as those of one instance."""
    if value is None:
        return None
    return value / 100 if metric in FRACTIONS else value / max(1, count)
