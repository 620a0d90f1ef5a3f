"""Nodes that are not heard. The only figures of single nodes on a server's page: a silent agent cannot show its own."""

from collections.abc import Callable, Iterator, Mapping
from heapq import nlargest

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# A page with every node of a large machine is of no use when the network is gone.
MAX_SHOWN = 500


class SilentNodes(Collector):
    """`read` gives the silent nodes, and when each was last heard, in seconds since 1970."""

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        silent = self._read()
        yield GaugeMetricFamily(
            "lattice_agents_silent",
            "Nodes that are not heard though they were not disabled",
            value=len(silent),
        )
        last = GaugeMetricFamily(
            "lattice_agent_last_heartbeat_timestamp",
            "When a silent node was last heard, in seconds since 1970; of the 500 that fell silent last",
            labels=["node_id"],
        )
        for node, heard_at in sorted(nlargest(MAX_SHOWN, silent.items(), key=lambda item: (item[1], item[0]))):
            last.add_metric([node], heard_at)
        yield last
