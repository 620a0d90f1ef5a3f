"""Steps over REST: who may launch where, and what is refused with which words."""

from tests.integration.api.world import World, in_world

LAUNCH = {"argv": ["work"], "tasks": 2}


async def submitted(world: World) -> str:
    answer = await world.call("POST", "/allocations", {"entrypoint": ["true"]})
    return str(answer.json()["id"])


@in_world
async def test_only_the_owner_may_launch_and_strangers_see_nothing(world: World) -> None:
    path = f"/allocations/{await submitted(world)}/steps"
    for token, status, told in (
        (world.token("bert"), 403, "belongs to alice"),
        (world.token("root", scope="admin"), 403, "belongs to alice"),
        (world.token("zoe", tenants=("other",)), 404, "no allocation"),
        (world.token("rita", scope="readonly"), 403, "your role does not allow"),
    ):
        answer = await world.call("POST", path, LAUNCH, token=token)
        assert (answer.status, told in answer.error["message"]) == (status, True), answer.error


@in_world
async def test_launching_into_what_waits_names_its_state(world: World) -> None:
    answer = await world.call("POST", f"/allocations/{await submitted(world)}/steps", LAUNCH)
    assert (answer.status, answer.error["code"], answer.error["current"]) == (409, "conflict", "Pending")


@in_world
async def test_an_allocation_without_steps_has_an_empty_list(world: World) -> None:
    name = await submitted(world)
    assert (await world.call("GET", f"/allocations/{name}/steps")).json() == {"items": [], "next_cursor": None}
    assert (await world.call("GET", "/allocations/a99/steps")).status == 404


@in_world
async def test_wrong_requests_name_the_field(world: World) -> None:
    path = f"/allocations/{await submitted(world)}/steps"
    for body, told in (
        ({"argv": ["x"], "distribution": "random"}, "distribution"),
        ({"argv": ["x"], "nonsense": 1}, "nonsense"),
        ({"argv": "x"}, "argv"),
        ({"argv": ["x"], "tasks": "many"}, "tasks"),
    ):
        answer = await world.call("POST", path, body)
        assert (answer.status, told in answer.error["message"]) == (400, True), answer.error
