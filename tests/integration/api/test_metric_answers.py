"""Figures from a store, comparisons and diagnostics: who may see them, and what they say of themselves."""

from msgspec.structs import replace

from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.telemetry.modes import Mode, RunMode
from lattice.core.model.telemetry.windows import Window
from lattice.ports.nodes.agents import RunKey
from lattice.ports.site.metric_store import Selector, StoreAsk, StoredRun, StoredSeries, StoreUnavailable
from lattice.ports.site.storage_qos import QosUnavailable, StorageRate
from tests.integration.api.test_metrics import AT, series, told
from tests.integration.api.world import World, in_world


class FakeStore:
    """Answers whatever it was given, also what it was not asked for."""

    def __init__(self, *several: StoredSeries, failure: str = "") -> None:
        self.series = several
        self.failure = failure
        self.asked: list[StoreAsk] = []

    async def read(self, ask: StoreAsk) -> tuple[StoredSeries, ...]:
        self.asked.append(ask)
        if self.failure:
            raise StoreUnavailable(self.failure)
        return self.series

    async def latest(self, selector: Selector, nodes: tuple[str, ...], allocation: str) -> float | None:
        raise StoreUnavailable(f"not asked for {selector.name} of {nodes}")


def stored(
    name: str, metric: str, *means: float, node: str = "n1", run: int = 1, tenant: str = "default"
) -> StoredSeries:
    windows = tuple(
        Window(AT - 30_000 * (len(means) - at), 30_000, mean, mean, mean, mean, mean + 1, 30)
        for at, mean in enumerate(means)
    )
    owner = StoredRun(name, run, tenant) if name else None
    return StoredSeries(run=owner, node=node, metric=metric, device="", windows=windows)


async def two_running(world: World) -> None:
    for number in (1, 2):
        await world.submit()
        await world.start_run(number, node=f"n{number}")


@in_world
async def test_the_store_answers_and_says_so(world: World) -> None:
    await two_running(world)
    store = world.services.metric_store = FakeStore(stored("a1", "cpus_used", 1.0, 2.0))
    shown = (await world.call("GET", "/allocations/a1/metrics?points=true")).json()
    assert (shown["source"], shown["note"], shown["resolution_s"]) == ("store", "", 30.0)
    assert shown["age_s"] is not None
    assert [point["mean"] for point in shown["items"][0]["points"]] == [1.0, 2.0]
    assert store.asked[0].runs == (StoredRun("a1", 1, "default"),)
    assert store.asked[0].step_ms == 0
    await world.call("GET", "/allocations/a1/metrics?duration=7d")
    assert store.asked[-1].step_ms == 2_520_000
    assert world.links.telemetry_asked == []


@in_world
async def test_the_nodes_answer_for_a_store_that_is_gone_or_knows_nothing_yet(world: World) -> None:
    await two_running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("cpus_used", 3.0)),)
    world.links.telemetry["n1", None] = (told(series("load1", 0.5)),)
    for store, note in (
        (
            FakeStore(failure="the store cannot be reached: refused"),
            "the store cannot be reached: refused; the nodes answer",
        ),
        (FakeStore(), "the store has nothing of it yet; the nodes answer"),
    ):
        world.services.metric_store = store
        shown = (await world.call("GET", "/allocations/a1/metrics")).json()
        assert (shown["source"], shown["note"], shown["items"][0]["now"]) == ("agents", note, 3.0)
        listed = (await world.call("GET", "/allocations/metrics")).json()
        assert (listed["source"], listed["note"]) == ("agents", note)
        of_node = (await world.call("GET", "/nodes/n1/metrics")).json()
        assert (of_node["source"], of_node["note"]) == ("agents", note.replace("nodes answer", "node answers"))
    world.services.metric_store = FakeStore(stored("", "load1", 7.0))
    assert (await world.call("GET", "/nodes/n1/metrics")).json()["source"] == "store"


@in_world
async def test_a_store_that_answers_too_much_shows_nothing_of_others(world: World) -> None:
    await two_running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("cpus_used", 3.0)),)
    world.services.metric_store = FakeStore(
        stored("a2", "cpus_used", 50.0),
        stored("a1", "cpus_used", 60.0, tenant="physics"),
        stored("a1", "cpus_used", 70.0, run=9),
        stored("a1", "cpus_used", 80.0, node="n2"),  # a node that speaks for work it does not have
        stored("", "load1", 90.0, node="n2"),
    )
    shown = (await world.call("GET", "/allocations/a1/metrics")).json()
    assert (shown["source"], [row["now"] for row in shown["items"]]) == ("agents", [3.0])
    world.links.telemetry["n1", None] = (told(series("load1", 0.5)),)
    assert (await world.call("GET", "/nodes/n1/metrics")).json()["items"][0]["now"] == 0.5


@in_world
async def test_ended_work_is_answered_for_by_the_store_at_its_end(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.finish(1)
    store = world.services.metric_store = FakeStore(stored("a1", "cpus_used", 2.0))
    world.clock.pass_s(86_400)
    shown = (await world.call("GET", "/allocations/a1/metrics")).json()
    assert (shown["source"], shown["items"][0]["mean"]) == ("store", 2.0)
    ended_ms = world.state.allocations[1].ended_at
    assert store.asked[0].end_ms == ended_ms + 40_000
    world.services.metric_store = FakeStore()
    assert (await world.call("GET", "/allocations/a1/metrics")).status == 404


@in_world
async def test_a_comparison_begins_at_the_start_of_each(world: World) -> None:
    await two_running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("cpus_used", 1.0, 2.0), series("memory_used", 5.0)),)
    world.links.telemetry["n2", RunKey(2, 1)] = (told(series("cpus_used", 4.0)),)
    shown = (await world.call("GET", "/compare?ids=a1,a2&metrics=cpus_used,memory_used")).json()
    assert (shown["align"], shown["source"]) == ("relative", "agents")
    assert [each["id"] for each in shown["allocations"]] == ["a1", "a2"]
    cpus, memory = shown["items"]
    assert [(each["id"], each["mean"]) for each in cpus["series"]] == [("a1", 1.5), ("a2", 4.0)]
    assert [each["id"] for each in memory["series"]] == ["a1"], "what is not measured is not there"
    assert all(point["t_s"] >= 0 for each in cpus["series"] for point in each["points"])


@in_world
async def test_wrong_comparisons_are_refused_by_name(world: World) -> None:
    await two_running(world)
    for query, status in (
        ("ids=a1", 400),
        ("ids=a1,a1,1", 400),
        ("ids=", 400),
        ("ids=a1,a2&align=wall", 400),
        ("ids=a1,a2&metrics=speed", 400),
        ("ids=a1,a9", 404),
        ("ids=" + ",".join(f"a{number}" for number in range(1, 13)), 400),
    ):
        assert (await world.call("GET", f"/compare?{query}")).status == status, query
    assert (await world.call("GET", "/compare?ids=a1,a2", token=world.token("bob"))).status == 403
    assert (await world.call("GET", "/compare?ids=a1,a2", token=world.token("eve", tenants=("physics",)))).status == 404
    await world.submit()
    assert (await world.call("GET", "/compare?ids=a1,a3")).status == 409, "it has not started"


@in_world
async def test_sensitive_work_is_compared_with_its_like_alone(world: World) -> None:
    await world.do(SetVcluster(vcluster=replace(world.state.vclusters["default"], scheduler=SENSITIVE)))
    await two_running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("cpus_used", 1.0)),)
    world.links.telemetry["n2", RunKey(2, 1)] = (told(series("cpus_used", 1.0)),)
    both = await world.call("GET", "/compare?ids=a1,a2")
    assert both.status == 200
    assert (await world.call("GET", "/compare?ids=a1,a2", token=world.admin)).status == 403
    for path in ("metrics", "diagnostics", "diagnostics/network", "diagnostics/storage"):
        assert (await world.call("GET", f"/allocations/a1/{path}", token=world.admin)).status == 403
    await world.do(SetVcluster(vcluster=Vcluster(name="open", default_walltime_s=60), create=True))
    await world.submit(vcluster="open")
    mixed = await world.call("GET", "/compare?ids=a1,a3")
    assert (mixed.status, mixed.error["hint"]) == (403, "it is compared with sensitive work alone")
    shown = (await world.call("GET", "/allocations/a1/diagnostics")).json()
    names = {each["name"] for each in (*shown["network"], *shown["storage"])}
    assert not names & {"packets lost", "file system full", "disk busy"}, "only its own traffic"


@in_world
async def test_diagnostics_judge_what_is_known_and_name_what_is_not(world: World) -> None:
    await two_running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (
        told(
            series("io_latency_p99", 20_000.0), series("gpu_ecc_errors", 2.0, device="0"), series("io_write_bytes", 9.0)
        ),
    )
    world.links.telemetry["n1", None] = (
        told(series("network_error_rate", 0.01), series("mount_used", 97.0, device="/")),
    )
    shown = (await world.call("GET", "/allocations/a1/diagnostics")).json()
    health = {each["name"]: each["health"] for part in ("network", "storage", "gpus") for each in shown[part]}
    assert health["p99 latency"] == health["file system full"] == health["memory errors"] == "warning"
    assert health["packets lost"] == health["written"] == health["group span"] == "ok"
    assert health["congestion"] == health["sent"] == health["guaranteed rates"] == "unknown"
    assert all(each["text"] for each in shown["network"] if each["health"] == "unknown")
    network = (await world.call("GET", "/allocations/a1/diagnostics/network")).json()
    assert network["network"]
    assert (network["storage"], network["gpus"]) == ([], [])
    assert (await world.call("GET", "/allocations/a1/diagnostics", token=world.token("bob"))).status == 403
    assert (await world.call("GET", "/allocations/a9/diagnostics")).status == 404


@in_world
async def test_a_stream_may_begin_with_what_was_before(world: World) -> None:
    await two_running(world)
    world.services.metric_store = FakeStore(stored("a1", "cpus_used", 1.0, 2.0))
    world.links.telemetry["n1", RunKey(1, 1)] = (told(ended=True),)
    stream = await world.open("/allocations/a1/metrics/stream?metric=cpus_used&history=10m")
    events = [await stream.next() for _ in range(3)]
    assert [each.event for each in events if each is not None] == ["run", "figures", "figures"]
    await stream.close()
    for wrong in ("history=soon", "history=10m&alerts_only=true"):
        assert (await world.call("GET", f"/allocations/a1/metrics/stream?{wrong}")).status == 400


@in_world
async def test_operators_look_more_closely_at_a_node(world: World) -> None:
    world.links.open.add("n1")
    operator = world.token("olga", scope="operator")
    debug = {"mode": "debug", "duration": "10m", "interval": "250ms"}
    world.links.telemetry["n1", None] = (told(series("load1", 0.5), mode=Mode.DEBUG, interval_ms=250),)
    shown = await world.call("PUT", "/nodes/n1/telemetry", debug, token=operator)
    assert shown.json() == {"node": "n1", "mode": "debug", "interval_s": 0.25}
    ask = world.links.telemetry_asked[-1][1]
    assert (ask.key, ask.mode) == (None, RunMode(mode=Mode.DEBUG, interval_ms=250, left_s=600.0))
    world.links.telemetry["n1", None] = (told(series("load1", 0.5)),)
    old = await world.call("PUT", "/nodes/n1/telemetry", debug, token=operator)
    assert (old.status, "cannot change its mode" in old.error["message"]) == (409, True)
    asked = len(world.links.telemetry_asked)
    for body, status in (
        ({"mode": "loud"}, 400),
        ({"mode": "debug", "duration": "25h"}, 400),
        ({"mode": "audit"}, 400),
    ):
        assert (await world.call("PUT", "/nodes/n1/telemetry", body, token=operator)).status == status
    assert (await world.call("PUT", "/nodes/n9/telemetry", debug, token=operator)).status == 404
    assert (await world.call("PUT", "/nodes/n1/telemetry", debug)).status == 403, "a foreign node"
    assert len(world.links.telemetry_asked) == asked
    world.links.lose("n1")
    assert (await world.call("PUT", "/nodes/n1/telemetry", debug, token=operator)).status == 409


class Promising:
    """A storage system."""

    def __init__(self, *rates: StorageRate) -> None:
        self.given = rates

    async def rates(self) -> tuple[StorageRate, ...]:
        if not self.given:
            raise QosUnavailable("it sleeps")
        return self.given


@in_world
async def test_diagnostics_say_what_the_storage_guarantees_and_how_congested_the_network_is(world: World) -> None:
    await two_running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("io_write_bytes", 9.0)),)
    world.links.telemetry["n1", None] = (told(series("network_congestion", 35.0, device="hsn0")),)
    world.services.storage_qos = Promising(StorageRate(place="/scratch", read_least=1.5e9), StorageRate(place="/home"))
    shown = (await world.call("GET", "/allocations/a1/diagnostics")).json()
    storage = {(each["name"], each["device"]): (each["value"], each["text"]) for each in shown["storage"]}
    assert storage["guaranteed reads", "/scratch"] == (1.5e9, "")
    assert storage["guaranteed rates", "/home"] == (None, "none")
    (congestion,) = [each for each in shown["network"] if each["name"] == "congestion"]
    assert (congestion["health"], congestion["value"], congestion["device"]) == ("warning", 35.0, "hsn0")
    world.services.storage_qos = Promising()
    storage = (await world.call("GET", "/allocations/a1/diagnostics/storage")).json()["storage"]
    assert [each["text"] for each in storage if each["name"] == "guaranteed rates"] == ["it sleeps"]
