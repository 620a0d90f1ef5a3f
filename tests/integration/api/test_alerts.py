"""What needs attention now."""

from lattice.api.operations.observe.alerts import UNHEARD_S
from tests.integration.api.world import World, in_world


async def _found(world: World, token: str) -> dict[str, tuple[str, str]]:
    answer = await world.call("GET", "/alerts", token=token)
    assert answer.status == 200, answer
    return {each["name"]: (each["severity"], each["text"]) for each in answer.json()["items"]}


@in_world
async def test_a_cluster_in_which_all_is_well_has_none(world: World) -> None:
    assert await _found(world, world.admin) == {}


@in_world
async def test_nodes_that_are_down_or_silent_are_named_with_the_reason(world: World) -> None:
    world.observations.join("n2", world.clock.monotonic_s() - UNHEARD_S - 5)
    assert (await world.call("POST", "/nodes/n1/disable", {"reason": "smoke"}, token=world.admin)).status == 200
    answer = (await world.call("GET", "/alerts", token=world.admin)).json()["items"]
    assert [each["severity"] for each in answer] == ["critical", "warning"]
    found = await _found(world, world.admin)
    assert found["LatticeNodeDown"] == ("critical", "1 node (n1) down: smoke")
    assert found["LatticeNodeHeartbeatMissing"][1].startswith("1 node (n2) not heard for 6")


@in_world
async def test_a_full_tenant_is_told_to_those_who_may_see_it(world: World) -> None:
    await world.call("PUT", "/tenants/default", {"max_nodes": 1}, token=world.admin)
    await world.submit()
    await world.start_run(1)
    found = await _found(world, world.admin)
    assert found["LatticeQuotaUtilizationHigh"] == ("warning", "Tenant default uses 100% of its nodes.")
    await world.call("POST", "/tenants", {"name": "elsewhere", "members": ["eve"]}, token=world.admin)
    assert await _found(world, world.token("eve", tenants=("elsewhere",))) == {}
