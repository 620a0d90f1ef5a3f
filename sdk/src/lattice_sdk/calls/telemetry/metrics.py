"""Figures: what allocations and nodes use. Their stream is `Client.stream_metrics`."""

from collections.abc import Sequence

from lattice_sdk.models.telemetry.comparison import Comparison, Diagnostics
from lattice_sdk.models.telemetry.metrics import AllRunningMetrics, Metrics
from lattice_sdk.models.telemetry.modes import NodeTelemetry
from lattice_sdk.operation import Steps, at, given, operation, read, write


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

    @operation
    def set_node_telemetry(
        self,
        node_id: str,
        *,
        mode: str,
        duration: str | None = None,
        interval: str | None = None,
        request_id: str = "",
    ) -> Steps[NodeTelemetry]:
        """Measures a node more closely for a while (`debug`), or as usual again (`prod`)."""
        asked = {"mode": mode, "duration": duration, "interval": interval}
        body = {name: value for name, value in asked.items() if value is not None}
        return write("PUT", at("nodes", node_id, "telemetry"), NodeTelemetry, body, request_id)

    @operation
    def compare(self, allocation_ids: Sequence[str], *, metrics: Sequence[str] = ()) -> Steps[Comparison]:
        """What allocations used, counted from the start of each."""
        query = [("ids", ",".join(allocation_ids))]
        return read("/compare", Comparison, [*query, *([("metrics", ",".join(metrics))] if metrics else [])])

    @operation
    def diagnostics(self, allocation_id: str, *, duration: str = "") -> Steps[Diagnostics]:
        """How the network, the storage and the GPUs of an allocation fare."""
        return read(at("allocations", allocation_id, "diagnostics"), Diagnostics, given(duration=duration))

    @operation
    def network_diagnostics(self, allocation_id: str, *, duration: str = "") -> Steps[Diagnostics]:
        """How its network fares."""
        return read(at("allocations", allocation_id, "diagnostics", "network"), Diagnostics, given(duration=duration))

    @operation
    def storage_diagnostics(self, allocation_id: str, *, duration: str = "") -> Steps[Diagnostics]:
        """How its storage fares."""
        return read(at("allocations", allocation_id, "diagnostics", "storage"), Diagnostics, given(duration=duration))


def named(metrics: Sequence[str]) -> list[tuple[str, str]]:
    return [("metric", ",".join(metrics))] if metrics else []
