"""Where the figures come from that services are scaled by; a store that does not answer gives none."""

from msgspec.structs import replace

from lattice.control.services.metrics import ScaleMetrics
from lattice.control.telemetry.reported import ReportedFigures
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.services.scaling import ScalePolicy
from lattice.core.model.telemetry.windows import Window
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import NodeFigures, RunFigure
from lattice.ports.site.metric_store import Selector, StoreAsk, StoredRun, StoredSeries, StoreUnavailable
from lattice.testing import HandClock, scenario
from tests.unit.core.test_rollouts import service


def scaled(metric: str, number: int = 7) -> Allocation:
    """Four instances."""
    policy = ScalePolicy(min_nodes=1, max_nodes=8, metric=metric, target=1.0)
    return replace(service(), number=number, rollout=None, revision=0, scaling=policy)


class Store:
    """Knows the CPUs of a7 on two nodes, and a metric of the site."""

    def __init__(self) -> None:
        self.is_gone = False
        self.asked: list[Selector] = []

    async def read(self, ask: StoreAsk) -> tuple[StoredSeries, ...]:
        if self.is_gone:
            raise StoreUnavailable("gone")
        run = StoredRun("a7", 1, "t")
        assert run in ask.runs
        window = Window(at_ms=0, length_ms=1, mean=0.0, p50=0.0, p95=0.0, p99=0.0, max=0.0, count=1)
        return tuple(
            StoredSeries(
                run=run,
                node=node,
                metric="cpu_utilization",
                device="",
                windows=(replace(window, mean=1.0), replace(window, mean=mean)),
            )
            for node, mean in (("n1", 60.0), ("n2", 80.0))
        )

    async def latest(self, selector: Selector, nodes: tuple[str, ...], allocation: str) -> float | None:
        if self.is_gone:
            raise StoreUnavailable("gone")
        self.asked.append(selector)
        return 12.0 if nodes == ("n1", "n2", "n3", "n4") else None


def metrics(store: Store | None = None) -> tuple[ScaleMetrics, Observations, ReportedFigures]:
    clock, seen = HandClock(), Observations()
    reported = ReportedFigures(clock)
    return ScaleMetrics(seen, reported, clock, store), seen, reported


@scenario
async def test_without_a_store_agents_say_it_as_fractions_and_per_instance() -> None:
    read, _, reported = metrics()
    for node in ("n1", "n2"):
        told = RunFigure(key=RunKey(7, 1), metrics=("cpu_utilization", "memory_used"), values=(70.0, 2000.0))
        reported.take(node, NodeFigures(runs=(told,)))
    assert await read.read([scaled("cpu_utilization")]) == {7: 0.7}
    assert await read.read([scaled("memory_used")]) == {7: 1000.0}
    assert await read.read([scaled("gpu_utilization"), scaled("cpu_utilization", number=8)]) == {}
    assert await read.read([scaled("jobs{a='b'}")]) == {}


@scenario
async def test_requests_are_those_of_one_instance() -> None:
    read, seen, _ = metrics()
    now_s = HandClock().monotonic_s()
    for _ in range(8):
        seen.requests.begun(7, 1, now_s)
    seen.requests.ended(7, 1, now_s, 0.25)
    assert await read.read([scaled("in_flight")]) == {7: 7 / 4}
    assert (await read.read([scaled("request_rate")]))[7] > 0
    assert await read.read([scaled("request_latency_p99")]) == {7: 0.25}
    assert await read.read([scaled("request_latency_p99", number=9)]) == {9: 0.0}


@scenario
async def test_a_store_is_asked_where_there_is_one_and_its_silence_is_no_figure() -> None:
    store = Store()
    read, _, _ = metrics(store)
    assert await read.read([scaled("cpu_utilization"), scaled("cpu_utilization", number=8)]) == {7: 0.7}
    assert await read.read([scaled("jobs{a='b'}")]) == {7: 12.0}
    assert store.asked[0].name == "jobs"
    store.is_gone = True
    assert await read.read([scaled("cpu_utilization"), scaled("jobs{a='b'}", number=8)]) == {}
