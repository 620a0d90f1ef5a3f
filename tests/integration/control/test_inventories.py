"""Inventories over an agent's real stream: what arrives, what is refused without harm, what is asked for again."""

from lattice.control.nodes.inventories import Inventories
from lattice.core.model.nodes.inventory import Inventory, Software, encode_inventory, inventory_fingerprint
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, served

KNOWN = Inventory(software=Software(kernel="6.1"))


def told(inventory: Inventory) -> pb.Inventory:
    return pb.Inventory(document=encode_inventory(inventory), fingerprint=inventory_fingerprint(inventory))


def kept_by(rig: Rig) -> Inventories:
    return rig.inventories


def test_what_a_node_says_before_it_is_confirmed_is_known() -> None:
    async def scenario(rig: Rig) -> None:
        registry = kept_by(rig)
        async with FakeAgent("n1", rig.endpoint).connected(confirm=False) as agent:
            await agent.send(inventory=told(KNOWN))
            await agent.until(lambda: registry.fingerprints() == {"n1": inventory_fingerprint(KNOWN)})

    served(scenario)


def test_garbage_costs_the_node_nothing_but_its_inventory() -> None:
    async def scenario(rig: Rig) -> None:
        registry = kept_by(rig)
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            for document in (b"", b"\xff" * 1000, b"{" * 1000, b'{"x": "' + b"x" * (1 << 20) + b'"}'):
                await agent.send(inventory=pb.Inventory(document=document, fingerprint="?"))
            await agent.send(inventory=told(KNOWN))
            await agent.until(lambda: "n1" in registry.fingerprints())
            assert (registry.counts["refused"], agent.closed.is_set()) == (4, False)
            await rig.submit()
            assert (await agent.order()).HasField("start_run")

    served(scenario)


def test_a_heartbeat_of_another_fingerprint_makes_the_leader_ask() -> None:
    async def scenario(rig: Rig) -> None:
        registry = kept_by(rig)
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            await agent.send(inventory=told(KNOWN))
            mark = bytes.fromhex(inventory_fingerprint(KNOWN))[:8]
            await agent.send(heartbeat=pb.Heartbeat(seq=1, fingerprint=mark))
            await agent.send(heartbeat=pb.Heartbeat(seq=2, fingerprint=b"otherone"))
            assert (await agent.order()).HasField("refresh_inventory")
            assert registry.refresh("n1")
            assert (await agent.order()).HasField("refresh_inventory")
        assert not registry.refresh("n9")

    served(scenario)
