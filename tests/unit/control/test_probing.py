"""Nodes that are Down are probed at: who answers is told apart from who is gone."""

import pytest

from lattice.control.nodes.probing import Probing
from lattice.core.machine.commands import DisableNode, DownNode
from lattice.core.model.nodes.nodes import DownCause
from lattice.testing import scenario
from lattice.wire.agents.collecting import Alive
from tests.unit.control.world import World


@scenario
async def test_only_nodes_that_are_down_are_probed_and_only_their_own_agents_count() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3", "n4", "n5")
    for node in ("n2", "n3", "n4", "n5"):
        await world.do(DownNode(node=node, cause=DownCause.HARDWARE, reason="test"))
    probed: list[str] = []

    async def ask(address: str, within_s: float) -> Alive | None:
        probed.append(address)
        return {"b:1": Alive("n2", False), "d:1": Alive("somebody else", True)}.get(address)

    addresses = {"n1": "a:1", "n2": "b:1", "n3": "c:1", "n4": "d:1", "n5": "", "gone": "e:1"}
    probing = Probing(world.replica, addresses, ask)
    assert await probing.probe() == {"n2"}
    assert probed == ["b:1", "c:1", "d:1"]
    assert await probing.probe() == {"n2"}
    assert probing.counts == {"answered": 2, "silent": 4}


@scenario
async def test_only_an_agent_without_a_server_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.do(DisableNode(node="n1", reason="new fans"))
    await world.do(DownNode(node="n2", cause=DownCause.HARDWARE, reason="test"))

    async def ask(address: str, within_s: float) -> Alive | None:
        return Alive(address, address == "n1")

    probing = Probing(world.replica, {"n1": "n1", "n2": "n2"}, ask)
    assert await probing.probe() == {"n1", "n2"}
    assert [getattr(record, "node_id", "") for record in caplog.records if "is Down" in record.message] == ["n2"]
