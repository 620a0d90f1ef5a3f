"""What servers measure of themselves."""

from lattice_sdk.observing.models import FigureHistory, MetricTargets
from lattice_sdk.operation import Steps, operation, read


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
