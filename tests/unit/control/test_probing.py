"""Nodes that are Down are knocked at: who answers is told apart from who is gone."""

from lattice.control.probing import Probing
from lattice.core.machine.commands import DownNode
from lattice.core.model.nodes import DownCause
from lattice.wire.collecting import Alive
from tests.unit.control.world import World, scenario


@scenario
async def test_only_nodes_that_are_down_are_knocked_at_and_only_their_own_agents_count() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3", "n4", "n5")
    for node in ("n2", "n3", "n4", "n5"):
        await world.do(DownNode(node=node, cause=DownCause.HARDWARE, reason="test"))
    knocked: list[str] = []

    async def knock(address: str, within_s: float) -> Alive | None:
        knocked.append(address)
        return {"b:1": Alive("n2", False), "d:1": Alive("somebody else", True)}.get(address)

    addresses = {"n1": "a:1", "n2": "b:1", "n3": "c:1", "n4": "d:1", "n5": "", "gone": "e:1"}
    probing = Probing(world.replica, addresses, knock)
    assert await probing.probe() == {"n2"}
    assert knocked == ["b:1", "c:1", "d:1"]
    assert await probing.probe() == {"n2"}
    assert probing.counts == {"answered": 2, "silent": 4}
