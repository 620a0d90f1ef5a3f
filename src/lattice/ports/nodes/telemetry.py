"""What nodes measure of themselves and of their runs, asked by a server. Their fields have the names of `agent.proto`."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from lattice.core.model.nodes.at_hand import AtHand
from lattice.core.model.telemetry.modes import DEFAULT_INTERVAL_MS, Mode, RunMode
from lattice.ports.nodes.agents import AgentSink, RunKey

NOT_MEASURED = "is not measured on this node"


class TelemetryAsk(Struct, frozen=True, kw_only=True):
    """The windows of a run, without a key of the node, that began at `since_ms` or later; of these metrics, none = of all."""

    key: RunKey | None = None
    since_ms: int = 0
    metrics: tuple[str, ...] = ()
    follow: bool = False  # and each further window as it ends, until the run has ended
    mode: RunMode | None = None  # without a key: the node is measured this closely from now on


class MetricSeries(Struct, frozen=True, kw_only=True):
    """Windows of one metric, oldest first: equally long lists. `device` is empty where the metric has none."""

    metric: str
    device: str = ""
    at_ms: tuple[int, ...] = ()
    length_ms: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    p50: tuple[float, ...] = ()
    p95: tuple[float, ...] = ()
    p99: tuple[float, ...] = ()
    max: tuple[float, ...] = ()
    count: tuple[int, ...] = ()


class MetricAlert(Struct, frozen=True, kw_only=True):
    """A threshold that was crossed, or is no longer; `text` is for people."""

    rule: str
    at_ms: int
    is_over: bool = False
    metric: str = ""
    device: str = ""
    value: float = 0.0
    text: str = ""


class TelemetryTold(Struct, frozen=True, kw_only=True):
    """An answer; with `error` there is nothing. `sources` says what the node reads: bpf, cgroup, proc, nvml, rocm.

    `missing` are those that it cannot read, each with the reason.
    """

    error: str = ""
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    mode: Mode = Mode.PROD
    interval_ms: int = DEFAULT_INTERVAL_MS
    now_ms: int = 0
    series: tuple[MetricSeries, ...] = ()
    alerts: tuple[MetricAlert, ...] = ()
    ended: bool = False  # nothing follows


class TelemetryLinks(Protocol):
    """The nodes' telemetry. Raises AgentUnreachable, also for an agent of a release that measures nothing."""

    async def ask_telemetry(self, node: str, ask: TelemetryAsk) -> TelemetryTold:
        """What the node has."""
        ...

    def follow_telemetry(self, node: str, ask: TelemetryAsk) -> AsyncIterator[TelemetryTold]:
        """What it has and then what comes, until the run has ended."""
        ...


class RunFigure(Struct, frozen=True, kw_only=True):
    """The last figures of a run on a node, without a key of the node: equally long lists."""

    key: RunKey | None = None
    metrics: tuple[str, ...] = ()
    values: tuple[float, ...] = ()


class NodeAlert(Struct, frozen=True, kw_only=True):
    """An alert about a run, without a key about the node."""

    alert: MetricAlert
    key: RunKey | None = None


class NodeFigures(Struct, frozen=True, kw_only=True):
    """What a node says unasked, once in each window."""

    runs: tuple[RunFigure, ...] = ()
    alerts: tuple[NodeAlert, ...] = ()


class NodeSink(AgentSink, Protocol):
    """All that agents report to, figures and what nodes have at hand included."""

    def at_hand(self, node: str, session: int, told: AtHand) -> None:
        """Takes note of the images and free GPUs of the node, in place of what it said before."""
        ...

    def run_figures(self, node: str, session: int, figures: NodeFigures) -> None:
        """Takes note of the last figures of the node and its runs."""
        ...
