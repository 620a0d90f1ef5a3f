"""Nodes over time."""

from typing import Any

from lattice.core.machine.commands import SetReservation
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.ports.scheduling import Outlook, Prediction
from tests.integration.api.world import NOW_MS, World, in_world

HOUR_MS = 3_600_000


async def timeline(world: World, query: str = "", token: str | None = None) -> dict[str, Any]:
    answer = await world.call("GET", f"/timeline{query}", token=token)
    assert answer.status == 200, answer.body
    return answer.json()


@in_world
async def test_what_runs_reaches_to_its_limit_and_what_ended_to_its_end(world: World) -> None:
    one, other = await world.submit(name="one"), await world.submit(name="other")
    await world.start_run(one["number"], "n1")
    world.clock.ms += 60_000
    await world.finish(one["number"])
    await world.start_run(other["number"], "n2")
    found = await timeline(world)
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    bars = {bar["name"]: bar for bar in found["bars"]}
    assert (bars["one"]["kind"], bars["one"]["nodes"], bars["one"]["own"]) == ("past", "n1", True)
    assert (bars["other"]["kind"], bars["other"]["nodes"]) == ("running", "n2")
    assert bars["other"]["end"] > bars["other"]["start"]


@in_world
async def test_what_waits_is_shown_where_it_is_expected(world: World) -> None:
    made = await world.submit(name="next")
    held = await world.submit(name="held", hold=True)
    outlook = Outlook(predicted_start=NOW_MS + HOUR_MS, predicted_nodes=("n1", "n2"))
    world.scheduling.outlook = lambda number: outlook  # type: ignore[method-assign]
    found = await timeline(world)
    assert [(bar["id"], bar["kind"], bar["nodes"]) for bar in found["bars"]] == [(made["id"], "predicted", "n[1-2]")]
    assert held["id"] not in str(found)


@in_world
async def test_a_group_that_waits_is_one_bar(world: World) -> None:
    group = await world.submit(tasks="0-99")
    outlook = Outlook(predicted_start=NOW_MS, predicted_nodes=("n1",))
    world.scheduling.outlook = lambda number: outlook if number == group["number"] else None  # type: ignore[method-assign]
    assert [bar["id"] for bar in (await timeline(world))["bars"]] == [group["id"]]


@in_world
async def test_tasks_of_a_group_are_folded_unless_they_are_asked_for(world: World) -> None:
    group = await world.submit(tasks="0-3", name="sweep")
    for task in (1, 2):
        await world.start_run(group["number"] + task, "n1")
        world.clock.ms += 60_000
        await world.finish(group["number"] + task)
    await world.start_run(group["number"] + 3, "n2")
    found = (await timeline(world))["bars"]
    shown = [(bar["id"], bar["kind"], bar["nodes"], bar["tasks"], bar["failed"], bar["own"]) for bar in found]
    assert shown == [(group["id"], "past", "n1", 2, 0, True), (group["id"], "running", "n2", 1, 0, True)]
    apart = (await timeline(world, "?tasks=true"))["bars"]
    assert [bar["group_id"] for bar in apart] == [group["id"]] * 3
    assert [bar["tasks"] for bar in apart] == [None] * 3
    assert len({bar["id"] for bar in apart}) == 3


@in_world
async def test_an_explanation_says_how_the_prediction_moved(world: World) -> None:
    made = await world.submit()
    points = (Prediction(NOW_MS, NOW_MS + HOUR_MS), Prediction(NOW_MS + 5000, NOW_MS + 2 * HOUR_MS))
    world.scheduling.predictions = lambda number: points if number == made["number"] else ()  # type: ignore[method-assign]
    said = (await world.call("GET", f"/allocations/{made['id']}/explanation")).json()["predictions"]
    assert len(said) == 2
    assert said[0]["at"] < said[1]["at"] < said[0]["start"] < said[1]["start"]
    other = await world.submit()
    assert (await world.call("GET", f"/allocations/{other['id']}/explanation")).json()["predictions"] == []


@in_world
async def test_archived_work_is_shown_if_it_ended_in_the_period(world: World) -> None:
    made = await world.submit()
    await world.start_run(made["number"])
    await world.finish(made["number"])
    await world.archive(made["number"])
    assert [bar["kind"] for bar in (await timeline(world))["bars"]] == ["past"]
    world.clock.ms += 7 * HOUR_MS
    assert (await timeline(world))["bars"] == []


@in_world
async def test_reservations_are_shown_each_time_they_come(world: World) -> None:
    record = AdvanceReservation(
        name="night", start_at=NOW_MS + HOUR_MS, end_at=NOW_MS + 2 * HOUR_MS, nodes=("n1",), repeat_s=2 * 3600
    )
    await world.do(SetReservation(reservation=record, create=True))
    found = await timeline(world)
    assert len(found["reservations"]) == 3
    assert found["reservations"][0] | {"start": "", "end": ""} == {
        "name": "night",
        "start": "",
        "end": "",
        "nodes": "n1",
        "maintenance": True,
    }


@in_world
async def test_others_see_nothing_of_it(world: World) -> None:
    made = await world.submit(world.token("alice", tenants=("physics",)), name="secret")
    await world.start_run(made["number"])
    found = await timeline(world, token=world.token("eve"))
    assert (found["bars"], [node["name"] for node in found["nodes"]]) == ([], ["n1", "n2"])
    assert len((await timeline(world, token=world.admin))["bars"]) == 1


@in_world
async def test_bars_beyond_the_limit_are_counted_and_what_runs_is_kept(world: World) -> None:
    ended, running = await world.submit(), await world.submit()
    await world.start_run(ended["number"], "n1")
    await world.finish(ended["number"])
    await world.start_run(running["number"], "n1")
    found = await timeline(world, "?limit=1")
    assert ([bar["id"] for bar in found["bars"]], found["left_out"]) == ([running["id"]], 1)


@in_world
async def test_nodes_and_users_are_chosen(world: World) -> None:
    one, other = await world.submit(), await world.submit(world.admin)
    await world.start_run(one["number"], "n1")
    await world.start_run(other["number"], "n2")
    found = await timeline(world, "?nodes=n[2-9]", token=world.admin)
    assert ([node["name"] for node in found["nodes"]], [bar["id"] for bar in found["bars"]]) == (["n2"], [other["id"]])
    assert [bar["id"] for bar in (await timeline(world, "?user=alice", token=world.admin))["bars"]] == [one["id"]]


@in_world
async def test_a_period_that_is_none_is_refused(world: World) -> None:
    for query in (
        "?since=2026-03-05&until=2026-03-01",
        "?since=2020-01-01&until=2026-01-01",
        "?limit=0",
        "?since=then",
    ):
        assert (await world.call("GET", f"/timeline{query}")).status == 400


@in_world
async def test_allocations_are_found_by_their_nodes(world: World) -> None:
    one, other = await world.submit(), await world.submit()
    group = await world.submit(tasks="0-1")
    await world.start_run(one["number"], "n1")
    await world.finish(one["number"])
    await world.start_run(other["number"], "n2")
    await world.start_run(group["number"] + 1, "n1")
    answer = (await world.call("GET", "/allocations?node=n[1-1]")).json()
    assert [item["number"] for item in answer["items"]] == [group["number"] + 1, one["number"]]
    counts = (await world.call("GET", "/allocations/count?node=n1,n2")).json()
    assert counts["total"] == 3
    assert (await world.call("GET", "/allocations?node=n[")).status == 400


@in_world
async def test_the_weights_in_force_are_those_of_the_profile_until_others_are_set(world: World) -> None:
    found = (await world.call("GET", "/vclusters/default/weights")).json()
    assert (found["profile"], found["order"]) == ("hpc", "score")
    assert round(sum(found["weights"].values()), 3) == 1
    await world.call("PUT", "/vclusters/default", {"weights": {"priority": 1}}, token=world.admin)
    assert (await world.call("GET", "/vclusters/default/weights")).json()["weights"]["priority"] == 1
    assert (await world.call("GET", "/vclusters/nowhere/weights")).status == 404
