"""The figures a server shows at /metrics. Loops, replica and API report through the small methods of `Metrics`."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lattice.core.machine.events import AnyEvent, NodeMoved
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import HOLDING, QUEUED, TERMINAL
from lattice.observe.conformance import ConformanceFigures
from lattice.observe.figures.autoscaling import AutoscalingFigures
from lattice.observe.figures.checkpoints import CheckpointFigures
from lattice.observe.figures.preemption import PreemptionFigures
from lattice.observe.figures.quorum import QuorumFigures
from lattice.observe.figures.scheduling import SchedulingFigures
from lattice.observe.figures.services import ServiceFigures
from lattice.observe.figures.silence import SilentNodes
from lattice.observe.figures.staging import StagingCollector
from lattice.observe.figures.tenants import TenantFigures
from lattice.ports.data.staging import StagingFigures

# The moment a series was created is useless and doubles the page.
disable_created_metrics()  # type: ignore[no-untyped-call]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Few: there is a histogram for each operation.
_API_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)
MAX_CHECK_NAMES = 512


class Metrics:
    """One registry per server, which `member` names; what names tenants is in another one."""

    def __init__(self, member: str = "server") -> None:
        self.registry = CollectorRegistry()
        self.scheduling = SchedulingFigures(self.registry)
        self.quorum = QuorumFigures(self.registry, member)
        self.preemption = PreemptionFigures(self.registry)
        self.checkpoints = CheckpointFigures(self.registry)
        self.services = ServiceFigures(self.registry)
        self.autoscaling = AutoscalingFigures(self.registry)
        self._tenants: TenantFigures | None = None
        self._requests = Counter(
            "lattice_api_requests",
            "API requests by operation, method and status",
            ["operation", "method", "status"],
            registry=self.registry,
        )
        self._durations = Histogram(
            "lattice_api_request_duration_seconds",
            "Time from a request's headers to the end of its answer; streams are not counted",
            ["operation", "method"],
            registry=self.registry,
            buckets=_API_BUCKETS,
        )
        self._notifications = Counter(
            "lattice_notifications",
            "Notifications by channel and outcome: delivered, failed (tried again), given_up, dropped, off",
            ["channel", "outcome"],
            registry=self.registry,
        )
        self._check_failures = Counter(
            "lattice_node_check_failures",
            "Health checks that began to fail on a node, by check",
            ["check"],
            registry=self.registry,
        )
        self._transitions = Counter(
            "lattice_node_transitions", "Moves of nodes between states, by trigger", ["trigger"], registry=self.registry
        )
        for trigger in NodeTrigger:
            self._transitions.labels(trigger)  # from 0 on, so that the first one is an increase
        self._boot_failures = Counter(
            "lattice_node_boot_failures", "Boots of nodes that failed", registry=self.registry
        )
        self._wipe_failures = Counter(
            "lattice_sensitive_wipe_failure", "Wipes of nodes that failed or took too long", registry=self.registry
        )
        self._checks_seen: set[str] = set()
        self._requests_by_key: dict[tuple[str, str, int], Counter] = {}
        self._shown: dict[type[Collector], Collector] = {}
        self._durations_by_key: dict[tuple[str, str], Histogram] = {}

    def request_done(self, operation: str, method: str, status: int, seconds: float | None) -> None:
        """A request was answered; no duration for a stream."""
        key = (operation, method, status)
        counter = self._requests_by_key.get(key)
        if counter is None:
            counter = self._requests_by_key[key] = self._requests.labels(*map(str, key))
        counter.inc()
        if seconds is None:
            return
        histogram = self._durations_by_key.get(key[:2])
        if histogram is None:
            histogram = self._durations_by_key[key[:2]] = self._durations.labels(*key[:2])
        histogram.observe(seconds)

    def commit_done(self, seconds: float) -> None:
        """A batch became durable."""
        self.quorum.commits.observe(seconds)

    def notification_done(self, channel: str, outcome: str) -> None:
        """A notification was sent, failed for now, or will not be sent."""
        self._notifications.labels(channel, outcome).inc()

    def check_failed(self, check: str) -> None:
        """A check began to fail on some node."""
        # Agents choose the names: one that invents them must not fill the memory.
        if check not in self._checks_seen:
            check = check if len(self._checks_seen) < MAX_CHECK_NAMES else "other"
            self._checks_seen.add(check)
        self._check_failures.labels(check).inc()

    def nodes_moved(self, events: tuple[AnyEvent, ...]) -> None:
        """Nodes changed their states, among whatever else happened."""
        for event in events:
            if isinstance(event, NodeMoved):
                self._transitions.labels(event.trigger).inc()
                if event.trigger in (NodeTrigger.BOOT_FAILED, NodeTrigger.BOOTS_EXHAUSTED):
                    self._boot_failures.inc()
                elif event.trigger is NodeTrigger.WIPE_FAILED:
                    self._wipe_failures.inc()

    def show_state(self, read: Callable[[], State]) -> None:
        """Shows the counts of the state, read at each scrape."""
        self.registry.register(_StateFigures(read))
        self._tenants = TenantFigures(read)

    def show_streams(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Shows how many streams are open, by kind, read at each scrape."""
        self.registry.register(_StreamFigures(read))

    def show_silence(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Shows the nodes that are not heard, read at each scrape."""
        self._show(SilentNodes(read))

    def show_loops(self, failures: Callable[[], Mapping[str, int]], repeats: Callable[[], Mapping[str, int]]) -> None:
        """Shows what failed in each loop, and what of it failed again in the same way, read at each scrape."""
        self.registry.register(_LoopFigures(failures, repeats))

    def show_clocks(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Shows how far the clocks of other servers are ahead, read at each scrape."""
        self.registry.register(_ClockFigures(read))

    def show_agents(self, read: Callable[[], int], refusals: Callable[[], int]) -> None:
        """Shows how many agents are attached to this server and how many were refused, read at each scrape."""
        self._show(_Refusals(refusals))
        attached = Gauge("lattice_agents_attached", "Agents whose stream this server holds", registry=self.registry)
        attached.set_function(read)

    def show_heartbeats(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Shows what became of the agents' heartbeats, read at each scrape."""
        self._show(_HeartbeatFigures(read))

    def show_inventories(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Shows what became of the inventories that nodes sent, read at each scrape."""
        self._show(_InventoryFigures(read))

    def show_conformance(self, figures: ConformanceFigures) -> None:
        """Shows the nodes' configurations, read at each scrape."""
        self._show(figures)

    def show_collectors(self, beats: Callable[[], Mapping[str, int]], shares: Callable[[], Mapping[str, int]]) -> None:
        """Shows what collectors brought and how many nodes each gathers, read at each scrape."""
        self._show(_CollectorFigures(beats, shares))

    def show_staging(self, read: Callable[[], StagingFigures]) -> None:
        """Shows how data comes to the hot tier, read at each scrape."""
        self._show(StagingCollector(read))

    def show_node_script(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Shows how often the site's script for node events ran, read at each scrape."""
        self._show(_ScriptFigures(read))

    def hide_loops(self) -> None:
        """A server that does not lead any more has nothing to say of nodes."""
        self.scheduling.rest()
        while self._shown:
            self.registry.unregister(self._shown.popitem()[1])

    def _show(self, figures: Collector) -> None:
        """Until `hide_loops`; in place of those of the same kind that were shown before."""
        former = self._shown.get(type(figures))
        if former is not None:
            self.registry.unregister(former)
        self._shown[type(figures)] = figures
        self.registry.register(figures)

    def render(self) -> bytes:
        """The public page in the text format: it names no tenant, project, user or allocation."""
        return generate_latest(self.registry)

    def render_tenants(self) -> bytes:
        """The page for those who may see every tenant."""
        return b"" if self._tenants is None else generate_latest(self._tenants.registry)


class _Figures(Collector):
    """Figures that are read when somebody asks for them, not when the collector is registered."""

    def describe(self) -> Iterator[Metric]:
        yield from ()


class _StreamFigures(_Figures):
    """Streams that this server answers, by kind."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "lattice_api_active_streams",
            "Open streams: attach (terminals), logs, metrics, watch, wait, steps, ports",
            labels=["stream_type"],
        )
        for kind, count in sorted(self._read().items()):
            family.add_metric([kind], count)
        yield family


class _StateFigures(_Figures):
    """Counts that the state keeps anyway."""

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        state = self._read()
        ended = CounterMetricFamily("lattice_allocations", "Allocations that ended, by final state", labels=["state"])
        for name in sorted(TERMINAL):
            ended.add_metric([name], state.finished.get(name, 0))
        yield ended
        counts = state.state_counts
        yield GaugeMetricFamily(
            "lattice_allocations_active",
            "Allocations that hold nodes now",
            value=sum(counts.get(name, 0) for name in HOLDING),
        )
        waiting = sum(group.pending_count for group in state.groups.values())
        yield GaugeMetricFamily(
            "lattice_allocations_pending",
            "Allocations and tasks that wait to be placed",
            value=sum(counts.get(name, 0) for name in QUEUED) + waiting,
        )
        yield GaugeMetricFamily(
            "lattice_notifications_waiting",
            "Notifications that wait to be sent",
            value=len(state.notifications.waiting),
        )
        yield _node_figures(state)
        yield GaugeMetricFamily(
            "lattice_nodes_unfit",
            "Nodes that are not configured for work: they have less than specified, or are in no partition",
            value=sum(bool(node.shortfall) for node in state.nodes.values()),
        )


class _LoopFigures(_Figures):
    """Loops that continue after a failure, and so would fail unseen."""

    def __init__(self, failures: Callable[[], Mapping[str, int]], repeats: Callable[[], Mapping[str, int]]) -> None:
        self._failures = failures
        self._repeats = repeats

    def collect(self) -> Iterator[Metric]:
        failed = CounterMetricFamily(
            "lattice_loop_failures", "Turns of a loop, and single items of a turn, that failed", labels=["loop"]
        )
        again = CounterMetricFamily(
            "lattice_loop_repeated_failures",
            "Failures that were the same as the one before, of the loop or of the item: these do not pass by themselves",
            labels=["loop"],
        )
        repeats = self._repeats()
        for name, count in sorted(self._failures().items()):
            failed.add_metric([name], count)
            again.add_metric([name], repeats.get(name, 0))
        yield failed
        yield again


class _InventoryFigures(_Figures):
    """Inventories by outcome."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "lattice_node_inventories",
            "Inventories of nodes: taken, changed (another fingerprint), refused (garbage), surplus, asked for again",
            labels=["outcome"],
        )
        counts = self._read()
        for outcome in ("taken", "changed", "refused", "surplus", "asked"):
            family.add_metric([outcome], counts.get(outcome, 0))
        yield family


class _Refusals(_Figures):
    """Agents that are not who they say."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "lattice_agents_refused",
            "Agents without a valid token or certificate, or with that of another node",
            value=self._read(),
        )


class _HeartbeatFigures(_Figures):
    """Heartbeats that were heard, and those that were not believed."""

    _OUTCOMES: Mapping[str, str] = {
        "taken": "heartbeats",
        "stale": "stale_heartbeats",
        "surplus": "surplus_heartbeats",
        "forged": "forged_heartbeats",
    }

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        counts = self._read()
        heard = CounterMetricFamily(
            "lattice_heartbeats",
            "Heartbeats: taken; stale (an old number, or on a stream that was replaced); surplus (too many); forged (made for another session)",
            labels=["outcome"],
        )
        for outcome, key in self._OUTCOMES.items():
            heard.add_metric([outcome], counts.get(key, 0))
        yield heard


class _CollectorFigures(_Figures):
    """Heartbeats that came through collectors, and their shares."""

    def __init__(self, beats: Callable[[], Mapping[str, int]], shares: Callable[[], Mapping[str, int]]) -> None:
        self._beats = beats
        self._shares = shares

    def collect(self) -> Iterator[Metric]:
        counts = self._beats()
        brought = CounterMetricFamily(
            "lattice_collected_heartbeats",
            "Heartbeats that collectors brought: taken; refused (not of their share); forged (the seal is not the node's); surplus (whole messages that came too often)",
            labels=["outcome"],
        )
        for outcome in ("taken", "refused", "forged", "surplus"):
            brought.add_metric([outcome], counts.get(outcome, 0))
        yield brought
        yield CounterMetricFamily("lattice_collected_shares", "Shares that collectors brought", counts.get("shares", 0))
        yield CounterMetricFamily("lattice_collectors_lost", "Collectors that brought nothing", counts.get("lost", 0))
        unreported = counts.get("stray", 0)
        yield CounterMetricFamily(
            "lattice_collector_unreported", "Nodes whose collectors did not report their heartbeats", unreported
        )
        yield CounterMetricFamily(
            "lattice_collector_strays", "Former name of lattice_collector_unreported_total", unreported
        )
        probes = CounterMetricFamily(
            "lattice_probes", "Probes of Down nodes, answered by their agents or silent", labels=["outcome"]
        )
        for outcome in ("answered", "silent"):
            probes.add_metric([outcome], counts.get(outcome, 0))
        yield probes
        members = GaugeMetricFamily("lattice_collector_members", "Nodes that a collector gathers", labels=["node"])
        for collector, count in self._shares().items():
            members.add_metric([collector], count)
        yield members


class _ClockFigures(_Figures):
    """The clocks of other servers, as the one that leads measures them."""

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        ahead = GaugeMetricFamily(
            "lattice_server_clock_skew_seconds",
            "How far the clock of another server is ahead of this one's",
            labels=["server"],
        )
        for name, seconds in self._read().items():
            ahead.add_metric([name], seconds)
        yield ahead


class _ScriptFigures(_Figures):
    """Runs of the site's script for node events by outcome, and events that it never heard of."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        counts = self._read()
        runs = CounterMetricFamily(
            "lattice_node_event_script_runs", "Runs of the site's script for node events by outcome", labels=["outcome"]
        )
        for outcome in ("done", "failed"):
            runs.add_metric([outcome], counts.get(outcome, 0))
        yield runs
        lost = counts.get("lost", 0)
        yield CounterMetricFamily(
            "lattice_node_events_lost", "Node events that did not reach the site's script", value=lost
        )


def _node_figures(state: State) -> Metric:
    nodes = GaugeMetricFamily("lattice_nodes_total", "Nodes by state", labels=["state"])
    counts = dict.fromkeys(NodeState, 0)
    for node in state.nodes.values():
        counts[node.state] += 1
    for name, count in counts.items():
        nodes.add_metric([name], count)
    return nodes
