"""Figures: what allocations and nodes use. Their stream is `Client.stream_metrics`."""

from collections.abc import Sequence

from lattice_sdk.models.telemetry.metrics import AllRunningMetrics, Metrics
from lattice_sdk.operation import Steps, at, given, operation, read


class MetricCalls:
    @operation
    def query_metrics(
        self,
        allocation_id: str,
        *,
        mode: str = "summary",
        duration: str = "",
        metrics: Sequence[str] = (),
        points: bool = False,
    ) -> Steps[Metrics]:
        """What an allocation uses over the last `duration` (5m): `mode` is summary, per_node, per_gpu or wide."""
        query = [*given(mode=mode, duration=duration, points="true" if points else ""), *named(metrics)]
        return read(at("allocations", allocation_id, "metrics"), Metrics, query)

    @operation
    def running_metrics(
        self, *, everybody: bool = False, duration: str = "", metrics: Sequence[str] = ()
    ) -> Steps[AllRunningMetrics]:
        """What your running allocations use or, with `everybody`, all whose figures you may see."""
        query = [*given(all="true" if everybody else "", duration=duration), *named(metrics)]
        return read("/allocations/metrics", AllRunningMetrics, query)

    @operation
    def node_metrics(
        self, node_id: str, *, duration: str = "", metrics: Sequence[str] = (), points: bool = False
    ) -> Steps[Metrics]:
        """What a node uses: CPUs, memory, disks, network interfaces, power."""
        query = [*given(duration=duration, points="true" if points else ""), *named(metrics)]
        return read(at("nodes", node_id, "metrics"), Metrics, query)


def named(metrics: Sequence[str]) -> list[tuple[str, str]]:
    return [("metric", ",".join(metrics))] if metrics else []
