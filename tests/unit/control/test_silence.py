"""Which nodes a server calls silent."""

from lattice.control.nodes.silence import silent_nodes
from lattice.core.machine.commands import DegradeNode, DisableNode
from lattice.core.model.nodes.observations import Observations
from lattice.testing import scenario
from tests.unit.control.world import World


@scenario
async def test_a_node_beyond_its_time_out_is_silent_since_it_was_heard() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3", "n4")
    observations = Observations()
    began_s = world.clock.monotonic_s()
    for node in ("n1", "n2", "n3"):
        observations.join(node, began_s)
    await world.do(DisableNode(node="n3"))
    world.clock.pass_s(40.0)
    observations.touch("n1", world.clock.monotonic_s())
    found = silent_nodes(world.state, observations, world.clock, timeout_s=30.0, began_s=began_s)
    heard_at = world.clock.now_ms() / 1000 - 40.0
    assert found == {"n2": heard_at, "n4": heard_at}, "nobody waits for a disabled node; n4 was never heard"
    await world.do(DegradeNode(node="n2", reason="silent"))
    assert "n2" in silent_nodes(world.state, observations, world.clock, timeout_s=30.0, began_s=began_s)
