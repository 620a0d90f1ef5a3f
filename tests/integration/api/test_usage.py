"""Usage by tenant and user, budgets, and quotas that shrink while work runs."""

from typing import Any

from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from tests.integration.api.world import NOW_MS, World, in_world

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@in_world
async def test_usage_adds_up_running_finished_and_archived_work(world: World) -> None:
    for number in (1, 2, 3):
        await world.submit()
        await world.start_run(number, "n1" if number != 3 else "n2")
        world.clock.ms += HOUR_MS
        if number != 3:
            await world.finish(number)
    await world.archive(1)
    own = (await world.call("GET", "/usage?days=7")).json()
    assert (own["user"], own["node_hours"], own["gpu_hours"], own["running"]) == ("alice", 3.0, 0.0, 1)
    tenant = (await world.call("GET", "/tenants/default/usage", token=world.admin)).json()
    assert (tenant["tenant"], tenant["node_hours"], tenant["days"]) == ("default", 3.0, 90)
    assert tenant["users"] == [
        {"user": "alice", "tenant": "default", "node_hours": 3.0, "gpu_hours": 0.0, "running": 1}
    ]
    assert (tenant["node_hours_budget"], tenant["node_hours_fraction"]) == (None, None)


@in_world
async def test_who_may_see_whose_usage(world: World) -> None:
    assert (await world.call("GET", "/usage?days=0")).status == 400
    assert (await world.call("GET", "/usage?days=401")).status == 400
    assert (await world.call("GET", "/tenants/default/usage")).status == 403
    assert (await world.call("GET", "/tenants/default/usage?user=alice")).status == 200
    assert (await world.call("GET", "/usage?user=bob")).status == 403
    assert (await world.call("GET", "/tenants/physics/usage")).status == 404


@in_world
async def test_usage_says_how_much_of_the_budgets_is_gone(world: World) -> None:
    budgets = {"node_hours_budget": 4, "gpu_hours_budget": 0}
    await world.call("PUT", "/tenants/default", budgets, token=world.admin)
    await world.submit()
    await world.start_run(1)
    world.clock.ms += 3 * HOUR_MS
    usage = (await world.call("GET", "/tenants/default/usage", token=world.admin)).json()
    assert (usage["node_hours_budget"], usage["node_hours_fraction"]) == (4.0, 0.75)
    assert (usage["gpu_hours_budget"], usage["gpu_hours_fraction"]) == (0.0, 0.0)


@in_world
async def test_usage_of_days_that_are_over_is_left_out(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.clock.ms += HOUR_MS
    await world.finish(1)
    world.clock.ms = NOW_MS + 3 * DAY_MS
    recent = (await world.call("GET", "/usage?days=2")).json()
    assert (recent["node_hours"], recent["since"], recent["users"]) == (0.0, "2026-03-06T00:00:00.000Z", [])
    assert (await world.call("GET", "/usage?days=3")).json()["node_hours"] == 1.0


@in_world
async def test_a_share_of_a_node_counts_as_a_share(world: World) -> None:
    shared = Vcluster(name="default", default_walltime_s=3600, node_sharing=NodeSharing.SHARED)
    await world.do(SetVcluster(vcluster=shared))
    await world.submit(resources={"cpus": 1, "memory": "1G"})
    await scheduled(world)
    await world.report_running(1)
    world.clock.ms += 2 * HOUR_MS
    assert (await world.call("GET", "/usage")).json()["node_hours"] == 0.5
    await world.finish(1)
    assert (await world.call("GET", "/usage")).json()["node_hours"] == 0.5


async def scheduled(world: World) -> Scheduling:
    """One cycle of the real scheduler over the world's state; its words are those of the API from then on."""
    loop = Scheduling(world.replica, world.observations, world.clock, SchedulingSettings())
    world.services.scheduling = loop
    await loop.run_cycle()
    return loop


async def quota(world: World, **limits: object) -> None:
    answer = await world.call("PUT", "/tenants/default", limits, token=world.admin)
    assert answer.status == 200, answer.body


async def shown(world: World, number: int) -> dict[str, Any]:
    return (await world.call("GET", f"/allocations/{number}")).json()


@in_world
async def test_a_hard_quota_below_what_is_in_use_stops_new_work_and_no_running_work(world: World) -> None:
    for number, node in ((1, "n1"), (2, "n2")):
        await world.submit()
        await world.start_run(number, node)
    await quota(world, max_nodes=1)
    assert [(await shown(world, number))["state"] for number in (1, 2)] == ["Running", "Running"]
    refused = await world.call("POST", "/allocations", {"entrypoint": ["true"]})
    assert (refused.status, refused.error["code"]) == (422, "quota")
    assert (refused.error["current"], refused.error["limit"]) == ("2 nodes in use", "1 nodes")
    assert refused.error["hint"]
    await world.finish(1)
    assert (await world.call("POST", "/allocations", {"entrypoint": ["true"]})).status == 422
    await world.finish(2, node="n2")
    assert (await world.call("POST", "/allocations", {"entrypoint": ["true"]})).status == 201


@in_world
async def test_a_soft_quota_below_what_is_used_refuses_nothing(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.clock.ms += 5 * HOUR_MS
    await world.finish(1)
    await quota(world, node_hours_budget=1, fair_share_target=0.01)
    usage = (await world.call("GET", "/tenants/default/usage", token=world.admin)).json()
    assert usage["node_hours_fraction"] == 5.0
    await world.submit()
    await scheduled(world)
    assert (await shown(world, 2))["state"] == "Starting"


@in_world
async def test_pending_work_waits_for_headroom_when_a_hard_quota_shrinks(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.submit()
    await quota(world, max_nodes=1)
    loop = await scheduled(world)
    waiting = await shown(world, 2)
    assert waiting["state"] == "Pending"
    assert waiting["reason"].startswith("waiting for quota headroom")
    await world.finish(1)
    await loop.run_cycle()
    assert (await shown(world, 2))["state"] == "Starting"
