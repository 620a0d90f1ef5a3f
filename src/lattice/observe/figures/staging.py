"""Figures about data on the hot tier; they name no tenant, user or source."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lattice.ports.data.staging import StagingFigures


class StagingCollector(Collector):
    """Read at each scrape."""

    def __init__(self, read: Callable[[], StagingFigures]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        now = self._read()
        yield CounterMetricFamily(
            "lattice_staging_bytes", "Bytes that were brought to the hot tier", value=float(now.moved_bytes)
        )
        yield CounterMetricFamily(
            "lattice_staging_seconds", "Time that copies took from their claim to their end", value=now.moved_seconds
        )
        yield CounterMetricFamily("lattice_staging_failures", "Tries of copies that failed", value=float(now.failures))
        yield GaugeMetricFamily(
            "lattice_staging_waiting", "Allocations and groups that wait for data", value=now.waiting
        )
        yield GaugeMetricFamily("lattice_staging_hot_bytes", "Bytes of all copies on the hot tier", value=now.tier.used)
        yield GaugeMetricFamily(
            "lattice_staging_hot_capacity_bytes", "Size of the hot tier, 0 = not known", value=now.tier.capacity
        )
        yield GaugeMetricFamily("lattice_staging_movers", "Movers that are heard", value=now.tier.movers)
