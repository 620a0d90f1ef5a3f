"""Reports: who used what, how long it waited, and who may see it."""

import pytest

from tests.integration.api.world import World, in_world

HOUR_MS = 3_600_000


async def ran(world: World, number: int, *, waited_s: int, hours: float, code: int = 0) -> None:
    world.clock.ms += waited_s * 1000
    await world.start_run(number)
    world.clock.ms += int(hours * HOUR_MS)
    await world.finish(number, exit_code=code)


@in_world
async def test_hours_waits_and_ends_are_summed_whether_archived_or_not(world: World) -> None:
    for number, waited_s in ((1, 10), (2, 20), (3, 90)):
        await world.submit(project="cfd" if number < 3 else "")
        await ran(world, number, waited_s=waited_s, hours=1, code=number // 3)
    await world.archive(1)
    await world.submit(tasks="0-3")
    await world.call("DELETE", "/allocations/a4")
    report = (await world.call("GET", "/reports/usage")).json()
    (row,) = report["rows"]
    assert (row["name"], row["tenant"], row["allocations"]) == ("alice", "default", 7)
    assert (row["completed"], row["failed"], row["cancelled"]) == (2, 1, 4)
    assert (row["node_hours"], row["gpu_hours"]) == (3.0, 0.0)
    assert (row["wait_mean_s"], row["wait_p50_s"], row["wait_p95_s"]) == (40.0, 20.0, pytest.approx(83.0))
    assert (row["cpu_efficiency"], row["memory_efficiency"]) == (0.0, 0.0)
    by_project = (await world.call("GET", "/reports/usage?by=project")).json()
    assert {row["name"]: row["allocations"] for row in by_project["rows"]} == {"": 5, "cfd": 2}
    assert by_project["total"]["allocations"] == 7
    only = (await world.call("GET", "/reports/usage?by=project&project=cfd")).json()
    assert (only["total"]["node_hours"], only["total"]["wait_p50_s"]) == (2.0, 15.0)


@in_world
async def test_only_what_ended_in_the_span_counts(world: World) -> None:
    await world.submit()
    await ran(world, 1, waited_s=0, hours=1)
    ended = (await world.call("GET", "/allocations/a1")).json()["completed_at"]
    world.clock.ms += HOUR_MS
    assert (await world.call("GET", f"/reports/usage?since={ended}")).json()["total"]["allocations"] == 1
    assert (await world.call("GET", f"/reports/usage?until={ended}")).json()["total"]["allocations"] == 0
    empty = (await world.call("GET", "/reports/usage?since=2020-01-01T00:00:00Z&until=2020-02-01T00:00:00Z")).json()
    assert (empty["rows"], empty["total"]["wait_mean_s"]) == ([], None)
    backwards = await world.call("GET", "/reports/usage?since=2020-03-01T00:00:00Z&until=2020-02-01T00:00:00Z")
    assert backwards.status == 400
    assert (await world.call("GET", "/reports/usage?by=shoe")).status == 400


@in_world
async def test_everybody_sees_oneself_and_administrators_the_rest(world: World) -> None:
    bob = world.token("bob")
    for number, token in ((1, None), (2, bob)):
        await world.submit(token=token)
        await ran(world, number, waited_s=0, hours=1)
    own = (await world.call("GET", "/reports/usage", token=bob)).json()
    assert [row["name"] for row in own["rows"]] == ["bob"]
    assert (await world.call("GET", "/reports/usage?user=alice", token=bob)).status == 403
    everybody = (await world.call("GET", "/reports/usage", token=world.admin)).json()
    assert [row["name"] for row in everybody["rows"]] == ["alice", "bob"]
    one = (await world.call("GET", "/reports/usage?user=bob&by=tenant", token=world.admin)).json()
    assert [(row["name"], row["allocations"]) for row in one["rows"]] == [("default", 1)]
    nobody = (await world.call("GET", "/reports/usage?tenant=physics", token=world.admin)).json()
    assert nobody["rows"] == []
