"""Figures through the API: who may see them, what is asked of the nodes, and what the answer says of itself."""

from collections.abc import AsyncIterator

from lattice.control.work.orders import update_order
from lattice.core.model.telemetry.modes import Mode
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import MetricAlert, MetricSeries, TelemetryTold
from tests.integration.api.world import NOW_MS, Stream, World, in_world

AT = NOW_MS - NOW_MS % 30_000


def series(metric: str, *values: float, device: str = "") -> MetricSeries:
    count = len(values)
    return MetricSeries(
        metric=metric,
        device=device,
        at_ms=tuple(AT - 30_000 * (count - 1 - at) for at in range(count)),
        length_ms=(30_000,) * count,
        mean=values,
        p50=values,
        p95=values,
        p99=values,
        max=tuple(value + 1 for value in values),
        count=(30,) * count,
    )


def told(*several: MetricSeries, **more: object) -> TelemetryTold:
    return TelemetryTold(sources=("cgroup", "proc"), now_ms=AT + 40_000, series=several, **more)  # type: ignore[arg-type]


async def rest_of(stream: Stream) -> AsyncIterator[str]:
    while (event := await stream.next()) is not None:
        yield event.event


async def running(world: World) -> None:
    await world.submit()
    await world.start_run(1)


@in_world
async def test_figures_of_an_allocation_are_asked_of_its_nodes(world: World) -> None:
    await running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("cpus_used", 1.0, 2.0), series("memory_used", 5.0)),)
    shown = (await world.call("GET", "/allocations/a1/metrics?points=true")).json()
    assert (shown["source"], shown["read"], shown["mode"]) == ("agents", ["cgroup", "proc"], "prod")
    assert (shown["resolution_s"], shown["age_s"], shown["unreachable"]) == (30.0, 10.0, [])
    cpu, memory = shown["items"]
    assert (cpu["metric"], cpu["unit"], cpu["now"], cpu["mean"], cpu["max"]) == ("cpus_used", "CPUs", 2.0, 1.5, 3.0)
    assert [point["mean"] for point in cpu["points"]] == [1.0, 2.0]
    assert (memory["metric"], memory["node"], memory["device"]) == ("memory_used", None, None)
    (node, ask) = world.links.telemetry_asked[-1]
    assert (node, ask.key, ask.follow) == ("n1", RunKey(1, 1), False)
    per_node = (await world.call("GET", "/allocations/a1/metrics?mode=per_node&metric=memory_used")).json()
    assert per_node["items"][0]["node"] == "n1"
    assert world.links.telemetry_asked[-1][1].metrics == ("memory_used",)


@in_world
async def test_wrong_questions_are_refused_by_name(world: World) -> None:
    await running(world)
    bad = await world.call("GET", "/allocations/a1/metrics?metric=speed")
    assert bad.status == 400
    assert "known are gpu_utilization" in bad.json()["error"]["message"]
    assert (await world.call("GET", "/allocations/a1/metrics?mode=round")).status == 400
    assert (await world.call("GET", "/allocations/a1/metrics?duration=1y")).status == 400
    assert (await world.call("GET", "/allocations/a1/metrics?duration=900d")).status == 400
    assert (await world.call("GET", "/allocations/a9/metrics")).status == 404
    assert (await world.call("GET", "/nodes/n9/metrics")).status == 404


@in_world
async def test_figures_of_others_are_not_shown(world: World) -> None:
    await running(world)
    world.links.telemetry["n1", RunKey(1, 1)] = (told(series("cpus_used", 1.0)),)
    colleague = world.token("bob")
    for path in ("/allocations/a1/metrics", "/allocations/a1/metrics/stream"):
        assert (await world.call("GET", path, token=colleague)).status == 403
        assert (await world.call("GET", path, token=world.token("eve", tenants=("physics",)))).status == 404
    listed = (await world.call("GET", "/allocations/metrics?all=true", token=colleague)).json()
    assert listed["items"] == []
    chief = world.token("carol", scope="tenant:admin")
    assert (await world.call("GET", "/allocations/a1/metrics", token=chief)).status == 200
    assert [each["id"] for each in (await world.call("GET", "/allocations/metrics")).json()["items"]] == ["a1"]
    all_of_them = (await world.call("GET", "/allocations/metrics?all=true", token=world.admin)).json()
    assert [each["id"] for each in all_of_them["items"]] == ["a1"]
    assert (await world.call("GET", "/allocations/metrics", token=world.admin)).json()["items"] == []


@in_world
async def test_what_has_not_started_has_ended_or_cannot_be_reached_is_said(world: World) -> None:
    await world.submit()
    waiting = await world.call("GET", "/allocations/a1/metrics")
    assert (waiting.status, waiting.json()["error"]["message"]) == (409, "a1 has not started")
    await world.start_run(1)
    world.links.lose("n1")
    assert (await world.call("GET", "/allocations/a1/metrics")).status == 503
    assert (await world.call("GET", "/nodes/n1/metrics")).status == 409
    await world.finish(1)
    ended = await world.call("GET", "/allocations/a1/metrics")
    assert ended.status == 404
    assert "keep figures for 01:00:00 only" in ended.json()["error"]["message"]
    assert (await world.call("GET", "/allocations/a1/metrics/stream")).status == 409


@in_world
async def test_a_node_that_does_not_measure_says_so(world: World) -> None:
    await running(world)
    shown = (await world.call("GET", "/allocations/a1/metrics")).json()
    assert (shown["items"], shown["age_s"]) == ([], None)
    assert shown["note"] == "n1: run 1.1 is not measured on this node"


@in_world
async def test_a_node_says_what_it_uses_by_device(world: World) -> None:
    world.links.open.add("n1")
    world.links.telemetry["n1", None] = (told(series("disk_busy", 7.0, device="sda"), series("load1", 0.5)),)
    shown = (await world.call("GET", "/nodes/n1/metrics")).json()
    assert [(row["metric"], row["device"], row["now"]) for row in shown["items"]] == [
        ("load1", None, 0.5),
        ("disk_busy", "sda", 7.0),
    ]


@in_world
async def test_figures_and_alerts_are_streamed_until_the_end(world: World) -> None:
    await running(world)
    alert = MetricAlert(rule="gpu_idle", at_ms=AT, metric="gpu_utilization", device="0", value=1.0, text="idle")
    world.links.telemetry["n1", RunKey(1, 1)] = (
        told(series("cpus_used", 1.5), mode=Mode.DEBUG),
        told(alerts=(alert,)),
        told(ended=True),
    )
    stream = await world.open("/allocations/a1/metrics/stream")
    run, figures, alarm = [await stream.next() for _ in range(3)]
    assert run is not None
    assert figures is not None
    assert alarm is not None
    assert (run.event, figures.event, alarm.event) == ("run", "figures", "alert")
    assert (figures.data["node"], figures.data["mode"], figures.data["figures"][0]["mean"]) == ("n1", "debug", 1.5)
    assert (alarm.data["rule"], alarm.data["over"]) == ("gpu_idle", False)
    await world.finish(1)
    assert [event async for event in rest_of(stream)] == ["end"]
    await stream.close()


@in_world
async def test_a_mode_is_state_reaches_the_node_and_is_over_by_the_clock(world: World) -> None:
    await running(world)
    debug = {"telemetry": {"mode": "debug", "duration": "10m", "interval": "250ms"}}
    changed = await world.call("PATCH", "/allocations/a1", debug)
    assert changed.json()["telemetry"]["mode"] == "debug"
    assert (changed.json()["telemetry"]["interval_s"], changed.json()["telemetry"]["duration_s"]) == (0.25, 600)
    kept = world.state.allocations[1].telemetry
    assert kept is not None
    assert kept.since_ms > 0
    order = update_order(world.state.allocations[1], "", world.clock.now_ms() + 60_000)
    assert order.telemetry is not None
    assert (order.telemetry.mode, order.telemetry.interval_ms) == (Mode.DEBUG, 250)
    assert 530 < order.telemetry.left_s <= 540
    late = update_order(world.state.allocations[1], "", world.clock.now_ms() + 700_000)
    assert late.telemetry is not None
    assert late.telemetry.mode is Mode.PROD
    world.clock.ms += 700_000
    assert (await world.call("GET", "/allocations/a1")).json()["telemetry"]["mode"] == "prod"
    assert (await world.call("PATCH", "/allocations/a1", {"telemetry": {"mode": "prod"}})).status == 200


@in_world
async def test_modes_that_cannot_be_are_refused_and_change_nothing(world: World) -> None:
    await running(world)
    for fields, named in (
        ({"mode": "loud"}, "telemetry.mode"),
        ({"mode": "debug", "duration": "25h"}, "24 hours"),
        ({"mode": "debug", "interval": "50ms"}, "100 ms"),
        ({"mode": "debug", "interval": "soon"}, "telemetry.interval"),
        ({"mode": "prod", "duration": "5m"}, "telemetry.duration"),
        ({"mode": "audit"}, "is for sensitive work"),
    ):
        answer = await world.call("PATCH", "/allocations/a1", {"telemetry": fields})
        assert answer.status == 400
        assert named in answer.json()["error"]["message"]
    assert world.state.allocations[1].telemetry is None
    assert (
        await world.call("PATCH", "/allocations/a1", {"telemetry": {"mode": "debug"}}, token=world.token("bob"))
    ).status == 403


@in_world
async def test_a_submission_says_how_closely_its_runs_are_measured(world: World) -> None:
    shown = await world.submit(telemetry={"mode": "debug", "duration": "1h"})
    assert shown["telemetry"] == {"mode": "debug", "interval_s": 1.0, "duration_s": 3600, "until": None}
    await world.start_run(1)
    begun = (await world.call("GET", "/allocations/a1")).json()
    assert begun["telemetry"]["mode"] == "debug"
    assert begun["telemetry"]["until"] is not None
