"""Instances of services: nodes for those that are missing, and the orders of those that come and go."""

from msgspec.structs import replace

from lattice.core.machine.commands import DisableNode, GrowAllocation, RaiseLevel, ReportPart, ShrinkAllocation
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import (
    INSTANCE_SHIFT,
    AllocationState,
    Cause,
    Lifecycle,
    PartPhase,
    Request,
    Restart,
)
from lattice.ports.nodes.agents import RunKey, StartOrder, StopOrder
from lattice.testing import scenario
from lattice.wire.work.payloads import Work, encode_work
from tests.unit.control.test_dispatch import dispatch
from tests.unit.control.test_scheduling import Loop
from tests.unit.control.world import World


async def serving(world: World, *nodes: str) -> int:
    """A service that runs on these nodes."""
    for level in range(OLDEST + 1, NEWEST + 1):
        await world.replica.propose(RaiseLevel(level=level), actor="test")
    number = await world.submit(nodes=len(nodes))
    record = world.allocation(number)
    changed = {
        "lifecycle": Lifecycle.UNBOUNDED,
        "restart": Restart.ALWAYS,
        "per_node": True,
        "walltime_s": 0,
        "request": Request(nodes=len(nodes)),
    }
    world.state.put_allocation(replace(record, **changed))
    world.state.put_payload(number, encode_work(Work(argv=("serve",), drain_s=5.0)))
    await world.place(number, *nodes)
    for node in nodes:
        await world.started(number, node)
    return number


@scenario
async def test_a_lost_instance_gets_another_node_before_work_that_waits() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3")
    loop = Loop(world).loop
    number = await serving(world, "n1", "n2")
    await world.do(DisableNode(node="n2"))
    waiting = await world.submit()
    assert await loop.run_cycle() == 0, "the service had the node first"
    assert world.allocation(number).nodes == ("n1", "n3")
    assert world.allocation(waiting).state is AllocationState.PENDING


@scenario
async def test_an_instance_waits_for_the_next_free_node() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3")
    loop = Loop(world).loop
    number = await serving(world, "n1", "n2")
    other = await world.submit()
    await world.place(other, "n3")
    await world.started(other, "n3")
    await world.do(DisableNode(node="n2"))
    await loop.run_cycle()
    assert world.allocation(number).missing == 1
    await world.ended(other, "n3")
    await loop.run_cycle()
    assert (world.allocation(number).missing, world.allocation(number).nodes) == (0, ("n1", "n3"))


@scenario
async def test_a_scheduler_that_starts_in_the_middle_knows_what_is_missing() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3")
    number = await serving(world, "n1", "n2")
    await world.do(DisableNode(node="n2"))
    await Loop(world).loop.run_cycle()
    assert world.allocation(number).nodes == ("n1", "n3")


@scenario
async def test_the_instance_that_joins_is_started_and_the_others_get_no_order() -> None:
    world = World()
    await world.prepare("n1", "n2", "n3")
    orders = dispatch(world)
    number = await serving(world, "n1", "n2")
    await orders.send_due()
    world.links.take()
    await world.do(DisableNode(node="n2"))
    await world.do(GrowAllocation(number=number, run=1, share=Share(node="n3")))
    await orders.send_due()
    ((node, order),) = world.links.take()
    assert isinstance(order, StartOrder)
    assert (node, order.key, order.instance, order.restart, order.drain_s) == (
        "n3",
        RunKey(number, 1),
        1,
        "always",
        5.0,
    )
    world.clock.pass_s(2.0)
    await orders.send_due()
    assert [node for node, _ in world.links.take()] == ["n3"], "repeated until it runs"
    seq = (1 << INSTANCE_SHIFT) + 1
    await world.do(ReportPart(number=number, run=1, node="n3", seq=seq, phase=PartPhase.RUNNING))
    world.clock.pass_s(4.0)
    await orders.send_due()
    assert world.links.take() == []


@scenario
async def test_the_instance_that_leaves_is_stopped_alone_until_it_has_ended() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    number = await serving(world, "n1", "n2")
    await orders.send_due()
    world.links.take()
    await world.do(ShrinkAllocation(number=number, run=1, node="n2", reason="scaled down"))
    await orders.send_due()
    ((node, order),) = world.links.take()
    assert isinstance(order, StopOrder)
    assert (node, order.why, order.grace_s) == ("n2", "scaled down", 30.0)
    ended = ReportPart(
        number=number, run=1, node="n2", seq=2, phase=PartPhase.ENDED, cause=Cause.EXIT, stopped=True, signal=15
    )
    await world.do(ended)
    world.clock.pass_s(4.0)
    await orders.send_due()
    assert world.links.take() == []
    assert world.allocation(number).nodes == ("n1",)
