"""Who wipes when, what becomes of the outcome, and of a wipe in whose middle the leader changes."""

import asyncio

from lattice.control.bootstrap import make_safe
from lattice.control.nodes.wiping import Wiping
from lattice.core.machine.commands import DisableNode, SetSetting, SetVcluster, WipeNode
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.ports.nodes.wiper import WipeFailed, WipeOrder
from lattice.ports.quorum.log import LogUnavailable
from lattice.testing import scenario
from tests.unit.control.world import World


class FakeWiper:
    """Waits until the test decides."""

    def __init__(self) -> None:
        self.orders: list[tuple[WipeOrder, float]] = []
        self.answers: asyncio.Queue[str | WipeFailed] = asyncio.Queue()
        self.cancelled = 0

    async def wipe(self, order: WipeOrder, timeout_s: float) -> str:
        self.orders.append((order, timeout_s))
        try:
            answer = await self.answers.get()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(answer, WipeFailed):
            raise answer
        return answer


async def sensitive_world(*, require: bool) -> World:
    world = World()
    await world.prepare("n1")
    await world.do(SetVcluster(vcluster=Vcluster(name="default", scheduler=SENSITIVE, default_walltime_s=60)))
    if require:
        await world.do(SetSetting(key="sensitive.require_wipe", value="true"))
    return world


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is under test needs turns of the loop
            await asyncio.sleep(0)


def state_is(world: World, state: NodeState) -> object:
    return lambda: world.node("n1").state is state


@scenario
async def test_a_site_with_a_wiper_has_its_nodes_wiped() -> None:
    world = await sensitive_world(require=False)
    await make_safe(world.replica, is_production=False)
    wiper = FakeWiper()
    loop = asyncio.create_task(Wiping(world.replica, world.clock, wiper, timeout_s=1800).run())
    await world.ended(await world.running("n1"), "n1")
    await until(lambda: wiper.orders)
    order, limit_s = wiper.orders[0]
    assert (order.node, order.tries, limit_s) == ("n1", 1, 1800)
    wiper.answers.put_nowait("3 disks erased")
    await until(state_is(world, NodeState.BOOTING))
    history = world.state.node_history("n1")[-1]
    assert (history.trigger, history.by, history.why) == ("wiped", "wiping", "3 disks erased")
    loop.cancel()


@scenario
async def test_what_somebody_decided_about_wiping_stands() -> None:
    world = await sensitive_world(require=False)
    await world.do(SetSetting(key="sensitive.require_wipe", value="false"))
    await make_safe(world.replica, is_production=False)
    await world.ended(await world.running("n1"), "n1")
    assert world.node("n1").state is NodeState.READY


@scenario
async def test_in_production_nodes_are_wiped_whatever_somebody_decided() -> None:
    world = await sensitive_world(require=False)
    await world.do(SetSetting(key="sensitive.require_wipe", value="false"))
    await make_safe(world.replica, is_production=True)
    assert world.state.settings["sensitive.require_wipe"] == "true"


@scenario
async def test_without_a_wiper_a_node_that_sensitive_work_leaves_is_quarantined() -> None:
    world = await sensitive_world(require=False)
    await make_safe(world.replica, is_production=False)
    loop = asyncio.create_task(Wiping(world.replica, world.clock, None).run())
    await world.ended(await world.running("n1"), "n1")
    await until(state_is(world, NodeState.QUARANTINE))
    assert "no wiper is configured" in world.node("n1").reason
    loop.cancel()


@scenario
async def test_a_failed_wipe_is_a_quarantine_and_an_operator_tries_again() -> None:
    world = await sensitive_world(require=True)
    wiper = FakeWiper()
    loop = asyncio.create_task(Wiping(world.replica, world.clock, wiper).run())
    await world.ended(await world.running("n1"), "n1")
    wiper.answers.put_nowait(WipeFailed("the disk does not answer"))
    await until(state_is(world, NodeState.QUARANTINE))
    assert world.node("n1").reason == "the wipe failed: the disk does not answer"
    await world.do(WipeNode(node="n1", force=True), actor="op")
    wiper.answers.put_nowait("")
    await until(state_is(world, NodeState.BOOTING))
    assert [order.tries for order, _ in wiper.orders] == [1, 2]
    loop.cancel()


@scenario
async def test_without_a_wiper_a_node_is_quarantined_until_an_operator_answers_for_it() -> None:
    world = await sensitive_world(require=True)
    loop = asyncio.create_task(Wiping(world.replica, world.clock, None).run())
    await world.ended(await world.running("n1"), "n1")
    await until(state_is(world, NodeState.QUARANTINE))
    assert (
        "no wiper is configured: wipe it by hand, then `lattice admin node wipe n1 --force`" in world.node("n1").reason
    )
    await world.do(WipeNode(node="n1"), actor="op")
    await until(state_is(world, NodeState.QUARANTINE))
    await world.do(WipeNode(node="n1", force=True), actor="op")
    await until(state_is(world, NodeState.BOOTING))
    assert world.state.node_history("n1")[-1].why == "wiped by hand, says op"
    loop.cancel()


@scenario
async def test_a_new_leader_goes_on_with_a_wipe_and_its_time() -> None:
    world = await sensitive_world(require=True)
    former, later = FakeWiper(), FakeWiper()
    loop = asyncio.create_task(Wiping(world.replica, world.clock, former, timeout_s=100).run())
    await world.ended(await world.running("n1"), "n1")
    await until(lambda: former.orders)
    loop.cancel()
    await until(lambda: former.cancelled)
    world.clock.pass_s(40)
    loop = asyncio.create_task(Wiping(world.replica, world.clock, later, timeout_s=100).run())
    await until(lambda: later.orders)
    assert later.orders[0][0] == former.orders[0][0]
    assert later.orders[0][1] == 60
    loop.cancel()
    await until(lambda: later.cancelled)
    world.clock.pass_s(60)
    loop = asyncio.create_task(Wiping(world.replica, world.clock, FakeWiper(), timeout_s=100).run())
    await until(state_is(world, NodeState.QUARANTINE))
    assert world.node("n1").reason == "the wipe failed: not confirmed within 100 s"
    loop.cancel()


@scenario
async def test_a_node_that_still_worked_when_its_wipe_was_asked_for_has_all_its_time_afterwards() -> None:
    world = World()
    await world.prepare("n1")
    allocation = await world.running("n1")
    await world.do(WipeNode(node="n1"), actor="op")
    world.clock.pass_s(7200)
    await world.ended(allocation, "n1")
    wiper = FakeWiper()
    loop = asyncio.create_task(Wiping(world.replica, world.clock, wiper, timeout_s=1800).run())
    await until(lambda: wiper.orders or world.node("n1").state is NodeState.QUARANTINE)
    assert [limit_s for _, limit_s in wiper.orders] == [1800]
    loop.cancel()


@scenario
async def test_an_order_to_wipe_again_replaces_the_wipe_that_hangs() -> None:
    world = await sensitive_world(require=True)
    wiper = FakeWiper()
    wiping = Wiping(world.replica, world.clock, wiper)
    await world.ended(await world.running("n1"), "n1")
    await wiping.look()
    await until(lambda: wiper.orders)
    await world.do(WipeNode(node="n1", force=True), actor="op")
    await wiping.look()
    await until(lambda: wiper.cancelled)
    await wiping.look()
    await until(lambda: len(wiper.orders) == 2)
    assert wiper.orders[1][0].tries == 2
    wiper.answers.put_nowait("")
    await until(state_is(world, NodeState.BOOTING))


@scenario
async def test_an_outcome_that_could_not_be_recorded_is_found_out_again() -> None:
    world = await sensitive_world(require=True)
    wiper = FakeWiper()
    wiping = Wiping(world.replica, world.clock, wiper)
    await world.ended(await world.running("n1"), "n1")
    world.replica.failure = LogUnavailable("no quorum")
    wiper.answers.put_nowait("")
    await wiping.look()
    await until(lambda: world.replica.failure is None)
    assert world.node("n1").state is NodeState.DRAINED
    wiper.answers.put_nowait("")
    await wiping.look()
    await until(state_is(world, NodeState.BOOTING))


@scenario
async def test_a_node_that_is_disabled_meanwhile_is_left_alone() -> None:
    world = await sensitive_world(require=True)
    wiper = FakeWiper()
    wiping = Wiping(world.replica, world.clock, wiper)
    await world.ended(await world.running("n1"), "n1")
    await world.do(DisableNode(node="n1"))
    await wiping.look()
    assert wiper.orders == []
