"""What the agent says unasked: once in each window the last figures of its runs, and alerts as they change."""

import time
from collections.abc import Callable

from lattice.agent.telemetry.collector import Collector, Target
from lattice.agent.telemetry.questions import TelemetryQuestions
from lattice.core.model.site.protocols import TELEMETRY
from lattice.core.model.telemetry.alerts import AlertRegistry, Change
from lattice.core.model.telemetry.catalogue import METRICS, merged
from lattice.core.model.telemetry.rates import Name
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import MetricAlert, NodeAlert, NodeFigures, RunFigure
from lattice.wire.agents.telemetry import NODE_FIGURES
from lattice.wire.pb import agent_pb2 as pb

EVERY_S = 30.0
# What servers decide by.
REPORTED = (
    "cpu_utilization",
    "memory_used",
    "gpu_utilization",
    "io_read_bytes",
    "io_write_bytes",
    "power_draw",
    "network_congestion",
)


class Reporting:
    """One per agent."""

    def __init__(
        self,
        collector: Collector,
        questions: TelemetryQuestions,
        post: Callable[[pb.AgentMessage], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collector = collector
        self._questions = questions
        self._post = post
        self._now_s = now_s
        self._registries: dict[RunKey | None, AlertRegistry] = {}
        self._alerts: list[NodeAlert] = []
        self._due_s = 0.0
        self._is_wanted = False
        collector.samples.append(self._sampled)
        collector.ended.append(lambda target: self._forget(target.key))
        collector.ticks.append(self.send_due)

    def heard(self, message: pb.ServerMessage) -> None:
        """A server of an older release is spared what it would not understand."""
        if message.HasField("welcome"):
            self._is_wanted = TELEMETRY in message.welcome.protocol.features
            self._due_s = 0.0

    def closed(self) -> None:
        self._is_wanted = False

    def _forget(self, key: RunKey | None) -> None:
        self._registries.pop(key, None)

    def _sampled(self, target: Target, figures: dict[Name, float]) -> None:
        registry = self._registries.setdefault(target.key, AlertRegistry())
        for change in registry.judge(self._now_s(), figures):
            self._alert(target.key, change)

    def _alert(self, key: RunKey | None, change: Change) -> None:
        rule = change.rule
        unit = METRICS[rule.metric].unit
        where = f" ({METRICS[rule.metric].device} {change.device})" if change.device else ""
        alert = MetricAlert(
            rule=rule.name,
            at_ms=self._collector.now_ms(),
            is_over=change.is_over,
            metric=rule.metric,
            device=change.device,
            value=change.value,
            text=f"{rule.text}; now {change.value:.1f} {unit}{where}",
        )
        # What is wrong with the node concerns every run there.
        keys = [key] if key is not None else list(self._collector.targets)
        for each in keys:
            self._questions.alerted(each, alert)
        self._alerts.append(NodeAlert(key=key, alert=alert))
        self._due_s = 0.0
        self._collector.wake()

    def send_due(self) -> None:
        now_s = self._now_s()
        if now_s < self._due_s or not self._is_wanted:
            return
        self._due_s = now_s + EVERY_S
        runs = tuple(self._figures(target) for target in self._collector.targets.values())
        told = NodeFigures(runs=tuple(each for each in runs if each.metrics), alerts=tuple(self._alerts))
        self._alerts.clear()
        if told.alerts or any(each.key is not None for each in told.runs):
            self._post(pb.AgentMessage(run_figures=NODE_FIGURES.write(told)))

    def _figures(self, target: Target) -> RunFigure:
        """The means of the window that is open, devices put together."""
        means: dict[str, list[float]] = {}
        for (metric, _), window in target.gathering.so_far().items():
            if metric in REPORTED:
                means.setdefault(metric, []).append(window.mean)
        figures = {metric: value for metric, values in means.items() if (value := merged(metric, values)) is not None}
        return RunFigure(key=target.key, metrics=tuple(figures), values=tuple(figures.values()))
