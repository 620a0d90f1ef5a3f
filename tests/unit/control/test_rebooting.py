"""Who is told of reboots, what becomes of those that fail, and of those in whose middle the leader changes."""

import asyncio

import msgspec

from lattice.control.nodes.rebooting import RebootDocument, Rebooting
from lattice.core.machine.commands import ConfirmNode, DisableNode, DrainNode, EnableNode, RebootNode, RegisterNode
from lattice.core.model.nodes.nodes import NodeState
from lattice.ports.site.site_program import ProgramFailed
from lattice.testing import scenario
from tests.unit.control.world import HARDWARE, World


class FakeProgram:
    def __init__(self, failure: str = "") -> None:
        self.told: asyncio.Queue[RebootDocument] = asyncio.Queue()
        self.failure = failure

    async def tell(self, document: bytes) -> None:
        self.told.put_nowait(msgspec.json.decode(document, type=RebootDocument))
        if self.failure:
            raise ProgramFailed(self.failure)


async def drained_world(*nodes: str) -> World:
    world = World()
    await world.prepare(*nodes)
    for node in nodes:
        await world.do(DrainNode(node=node))
    return world


@scenario
async def test_all_that_were_ordered_are_told_together() -> None:
    world = await drained_world("n1", "n2")
    program = FakeProgram()
    rebooting = Rebooting(world.replica, world.clock, program)
    for node in ("n1", "n2"):
        await world.do(RebootNode(node=node, reason="kernel"), actor="olga")
    await rebooting.perform()
    told = program.told.get_nowait()
    assert told.order == "reboot"
    assert [(each.node, each.reason, each.by) for each in told.nodes] == [
        ("n1", "kernel", "olga"),
        ("n2", "kernel", "olga"),
    ]
    assert world.node("n1").state is NodeState.BOOTING


@scenario
async def test_an_order_wakes_the_loop() -> None:
    world = await drained_world("n1")
    program = FakeProgram()
    loop = asyncio.create_task(Rebooting(world.replica, world.clock, program).run())
    await world.do(RebootNode(node="n1"))
    async with asyncio.timeout(20):
        assert [each.node for each in (await program.told.get()).nodes] == ["n1"]
    loop.cancel()


@scenario
async def test_a_reboot_that_fails_is_a_boot_that_failed() -> None:
    world = await drained_world("n1")
    rebooting = Rebooting(world.replica, world.clock, FakeProgram(failure="no power"))
    await world.do(RebootNode(node="n1"))
    await rebooting.perform()
    assert world.node("n1").state is NodeState.DOWN
    assert "it was not rebooted: no power" in world.state.node_history("n1")[-1].why


@scenario
async def test_a_server_that_takes_over_repeats_only_what_was_ordered_lately() -> None:
    world = await drained_world("n1", "n2", "n3")
    await world.do(RebootNode(node="n1"))
    world.clock.pass_s(3600)
    await world.do(RebootNode(node="n2", reason="kernel"))
    await world.do(DisableNode(node="n3"))
    await world.do(EnableNode(node="n3"))
    program = FakeProgram()
    rebooting = Rebooting(world.replica, world.clock, program)
    rebooting.reset()
    await rebooting.perform()
    assert [each.node for each in program.told.get_nowait().nodes] == ["n2"]
    assert program.told.empty()


@scenario
async def test_a_server_that_takes_over_does_not_reboot_what_is_back_already() -> None:
    world = await drained_world("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        await world.do(RegisterNode(node=node, hardware=HARDWARE, boot_id="before"))
        await world.do(RebootNode(node=node))
    await world.do(RegisterNode(node="n2", hardware=HARDWARE, boot_id="after"))
    await world.do(RegisterNode(node="n3", hardware=HARDWARE, boot_id="after"))
    await world.do(ConfirmNode(node="n3"))
    assert [world.node(node).state for node in ("n2", "n3")] == [NodeState.BOOTING, NodeState.DRAINED]
    program = FakeProgram()
    rebooting = Rebooting(world.replica, world.clock, program)
    rebooting.reset()
    await rebooting.perform()
    assert [each.node for each in program.told.get_nowait().nodes] == ["n1"]
    assert program.told.empty()


@scenario
async def test_without_a_program_a_node_waits_for_a_person() -> None:
    world = await drained_world("n1")
    rebooting = Rebooting(world.replica, world.clock, None)
    await world.do(RebootNode(node="n1"))
    rebooting.reset()
    await rebooting.perform()
    assert world.node("n1").state is NodeState.BOOTING
