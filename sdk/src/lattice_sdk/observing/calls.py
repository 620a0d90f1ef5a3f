"""What servers measure of themselves."""

from lattice_sdk.observing.models import FigureHistory, MetricTargets, NodeLog, ServerDiagnostics
from lattice_sdk.operation import Steps, at, operation, read


class FigureCalls:
    @operation
    def figure_history(self, component: str = "all", *, duration_s: int = 3600) -> Steps[FigureHistory]:
        """The metrics of the server that answers, a sample a minute; of one component or all."""
        query = [("component", component), ("duration_s", str(duration_s))]
        return read("/metrics/history", FigureHistory, query)

    @operation
    def metric_targets(self) -> Steps[MetricTargets]:
        """Where a monitoring system finds the metrics of agents, and which nodes show it none."""
        return read("/metrics/targets", MetricTargets)

    @operation
    def server_diagnostics(self, *, since_s: int = 3600) -> Steps[ServerDiagnostics]:
        """Configuration and recent log lines of the server that answers, without secrets."""
        return read("/admin/diagnostics", ServerDiagnostics, [("since_s", str(since_s))])

    @operation
    def node_log(self, node_id: str, *, since_s: int = 3600) -> Steps[NodeLog]:
        """Recent log lines of the agent of a node, without secrets."""
        return read(at("nodes", node_id, "log"), NodeLog, [("since_s", str(since_s))])
