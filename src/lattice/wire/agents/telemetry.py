"""What nodes measure, on the wire: the plans of `lattice.ports.nodes.telemetry`. docs/architecture/telemetry.md."""

from lattice.core.model.telemetry.modes import Mode
from lattice.ports.nodes.telemetry import (
    MetricAlert,
    MetricSeries,
    NodeAlert,
    NodeFigures,
    RunFigure,
    TelemetryAsk,
    TelemetryTold,
)
from lattice.wire.agents.messages import RUN_KEY, RUN_MODE
from lattice.wire.agents.plans import Plan
from lattice.wire.pb import agent_pb2 as pb

_TICKET = {"ticket": "the link gives and takes it"}
TELEMETRY_ASK = Plan(TelemetryAsk, pb.AskTelemetry, RUN_KEY, RUN_MODE, apart=_TICKET)
METRIC_SERIES = Plan(MetricSeries, pb.MetricSeries)
METRIC_ALERT = Plan(MetricAlert, pb.MetricAlert)
TELEMETRY_TOLD = Plan(
    TelemetryTold, pb.TelemetryTold, METRIC_SERIES, METRIC_ALERT, apart=_TICKET, unknown={"mode": Mode.PROD}
)
RUN_FIGURE = Plan(RunFigure, pb.RunFigure, RUN_KEY)
NODE_ALERT = Plan(NodeAlert, pb.NodeAlert, RUN_KEY, METRIC_ALERT)
NODE_FIGURES = Plan(NodeFigures, pb.RunFigures, RUN_FIGURE, NODE_ALERT)
