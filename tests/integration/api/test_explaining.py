"""Why it waits and when it starts, and what would become of a submission: the real scheduler behind the API."""

from typing import Any

from tests.integration.api.test_usage import scheduled
from tests.integration.api.world import World, in_world

KEYS = {"id", "state", "reason", "scores", "rank", "predicted_start", "predicted_nodes"}
# Of work that waits, or of work that runs: what preemption means for it, and how its predicted start moved.
OF_SOME = {"preemption", "standing", "predictions"}
WALLTIME = {"walltime": "1h"}


async def explained(world: World, number: int) -> dict[str, Any]:
    answer = await world.call("GET", f"/allocations/a{number}/explanation")
    assert answer.status == 200, answer.body
    assert answer.json().keys() - OF_SOME == KEYS
    return answer.json()


async def tried(world: World, **fields: object) -> dict[str, Any]:
    answer = await world.call("POST", "/allocations?dry_run=true", {"entrypoint": ["true"], **fields})
    assert answer.status == 200, answer.body
    assert answer.json().keys() - OF_SOME == KEYS | {"vcluster"}
    return answer.json()


async def full_machine(world: World) -> None:
    for number, node in ((1, "n1"), (2, "n2")):
        await world.submit(lifecycle=WALLTIME)
        await world.start_run(number, node)


@in_world
async def test_waiting_work_is_told_when_and_where_it_will_start(world: World) -> None:
    await full_machine(world)
    for priority in ("high", "normal"):
        await world.submit(lifecycle=WALLTIME, resources={"nodes": 2}, priority=priority)
    await scheduled(world)
    first = await explained(world, 3)
    assert (first["id"], first["state"], first["rank"]) == ("a3", "Pending", 1)
    assert first["predicted_start"] == "2026-03-05T09:40:00.000Z"
    assert first["predicted_nodes"] == ["n1", "n2"]
    assert first["reason"]
    second = await explained(world, 4)
    assert second["rank"] == 2
    assert first["scores"]["priority"] == 0.8
    assert first["scores"]["total"] > second["scores"]["total"]
    view = (await world.call("GET", "/allocations/a3")).json()
    assert view["reason"] == first["reason"]


@in_world
async def test_what_does_not_wait_has_no_rank(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    running = await explained(world, 1)
    assert (running["state"], running["rank"], running["predicted_start"], running["scores"]) == (
        "Running",
        None,
        None,
        {},
    )
    await world.finish(1)
    await world.archive(1)
    assert (await explained(world, 1))["state"] == "Completed"


@in_world
async def test_held_work_says_who_holds_it(world: World) -> None:
    await world.submit(hold=True)
    assert (await explained(world, 1))["reason"] == "held by its user"
    await scheduled(world)
    assert (await explained(world, 1))["reason"] == "held by its user"


@in_world
async def test_new_work_waits_for_the_next_cycle(world: World) -> None:
    await world.submit()
    assert (await explained(world, 1))["reason"] == "waiting for the next cycle"


@in_world
async def test_nobody_is_told_of_work_of_another_tenant(world: World) -> None:
    await world.submit()
    stranger = world.token("eve", tenants=("physics",))
    assert (await world.call("GET", "/allocations/a1/explanation", token=stranger)).status == 404
    assert (await world.call("GET", "/allocations/a9/explanation")).status == 404


@in_world
async def test_a_dry_run_says_that_it_would_start_now(world: World) -> None:
    await scheduled(world)
    before = world.state.digest(), world.replica.applied_index
    outcome = await tried(world, resources={"nodes": 2})
    assert (outcome["id"], outcome["rank"], outcome["reason"]) == (None, None, "")
    assert outcome["predicted_start"] == "2026-03-05T08:40:00.000Z"
    assert outcome["predicted_nodes"] == ["n1", "n2"]
    assert (await tried(world, tasks="0-9"))["predicted_nodes"]
    assert (world.state.digest(), world.replica.applied_index) == before


@in_world
async def test_a_dry_run_says_how_long_it_would_wait_and_leaves_nothing_behind(world: World) -> None:
    await full_machine(world)
    loop = await scheduled(world)
    before = world.state.digest(), world.replica.applied_index
    for fields in ({}, {"tasks": "0-3"}):
        outcome = await tried(world, lifecycle=WALLTIME, **fields)
        assert outcome["rank"] == 1
        assert outcome["reason"]
        assert outcome["predicted_start"] == "2026-03-05T09:40:00.000Z"
    assert (world.state.digest(), world.replica.applied_index) == before
    await world.finish(1)
    assert await loop.run_cycle() == 0
    assert (await world.submit())["id"] == "a3"
    assert await loop.run_cycle() == 1


@in_world
async def test_a_dry_run_is_refused_as_the_submission_would_be(world: World) -> None:
    await scheduled(world)
    bodies: list[dict[str, object]] = [
        {"entrypoint": ["true"], "resources": {"nodes": 3}},
        {"entrypoint": ["true"], "resources": {"constraints": {"require_unified_memory": True}}},
        {"entrypoint": ["true"], "vcluster": "nowhere"},
        {"entrypoint": ["true"], "resources": {"nodes": 0}},
        {},
    ]
    for body in bodies:
        dry = await world.call("POST", "/allocations?dry_run=true", body)
        wet = await world.call("POST", "/allocations", body)
        assert dry.status == wet.status
        assert dry.status in (400, 404, 422)
        assert dry.error == wet.error
    assert world.state.allocations == {}


@in_world
async def test_the_query_takes_nothing_else_from_the_body(world: World) -> None:
    refused = await world.call("POST", "/allocations?name=x", {"entrypoint": ["true"]})
    assert (refused.status, refused.error["message"]) == (400, 'unknown parameter "name"')
    assert (await world.call("POST", "/allocations?dry_run=perhaps", {"entrypoint": ["true"]})).status == 400
    in_body = await world.call("POST", "/allocations", {"entrypoint": ["true"], "dry_run": True})
    assert in_body.status == 200
    assert (await world.call("POST", "/allocations?dry_run=false", {"entrypoint": ["true"]})).status == 201


@in_world
async def test_the_queue_is_listed_in_the_order_of_the_scheduler(world: World) -> None:
    await full_machine(world)
    await world.call("PUT", "/vclusters/default", {"weights": {"priority": 1}}, token=world.admin)
    for priority in (2, 7, 4, 9):
        await world.submit(priority=priority, hold=priority == 9)
    await scheduled(world)
    await world.submit(priority=8)
    page = (await world.call("GET", "/vclusters/default/queue?limit=2")).json()
    assert [item["id"] for item in page["items"]] == ["a4", "a5"]
    rest = (await world.call("GET", f"/vclusters/default/queue?cursor={page['next_cursor']}")).json()
    assert [item["id"] for item in rest["items"]] == ["a3", "a6", "a7"]
