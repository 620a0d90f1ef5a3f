"""What the runs of a node have of it: asked of the node, and shown of work that the caller may know of."""

from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.measures import GroupUse, MissingFeature
from tests.integration.api.world import World, in_world


@in_world
async def test_devices_of_runs_and_missing_features_are_shown(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    mine, step = (GroupUse(key=RunKey(1, 1), step=number, cpus=(0, 1), gpus=(2,)) for number in (None, 0))
    world.links.figures["n1"] = (mine, step, GroupUse(key=RunKey(77, 1), cpus=(3,)))
    world.links.missing["n1"] = (MissingFeature(name="container", reason="no runtime"),)
    shown = (await world.call("GET", "/nodes/n1/usage")).json()
    assert shown == {
        "node": "n1",
        "runs": [{"id": "a1", "cpus": [0, 1], "gpus": [2]}],
        "missing": [{"name": "container", "reason": "no runtime"}],
    }
    operator = (await world.call("GET", "/nodes/n1/usage", token=world.token("olga", scope="operator"))).json()
    assert [run["id"] for run in operator["runs"]] == ["a1", "a77"]
    assert (await world.call("GET", "/nodes/n1/usage", token=world.token("bob", tenants=("beta",)))).json()[
        "runs"
    ] == []
    world.links.lose("n1")
    assert (await world.call("GET", "/nodes/n1/usage")).status == 409
    assert (await world.call("GET", "/nodes/n9/usage")).status == 404
