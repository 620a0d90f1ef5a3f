"""The loop that leads updates of services: next when ready, back when late, from the middle on too."""

from lattice.control.services.updating import Updating
from lattice.core.machine.commands import ReportPart, ReviseService
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.nodes.readiness import Standing
from lattice.core.model.services.rollouts import RolloutPhase
from lattice.core.model.work.allocations import PartPhase
from lattice.ports.nodes.agents import StartOrder
from lattice.testing import scenario
from lattice.wire.work.payloads import Work, encode_work
from tests.unit.control.test_dispatch import dispatch
from tests.unit.control.test_service_instances import serving
from tests.unit.control.world import World

NEXT = encode_work(Work(argv=("serve", "--new")))


async def stopped_and_started(world: World, number: int, node: str) -> None:
    """The node carries out both orders."""
    for phase in (PartPhase.ENDED, PartPhase.RUNNING):
        part = next(each for each in world.allocation(number).parts if each.node == node)
        stopped = phase is PartPhase.ENDED
        await world.do(
            ReportPart(number=number, run=1, node=node, seq=part.seq + 1, phase=phase, stopped=stopped, signal=15)
        )


def phase(world: World, number: int) -> RolloutPhase | None:
    rollout = world.allocation(number).rollout
    return None if rollout is None else rollout.phase


@scenario
async def test_an_update_goes_from_node_to_node_and_each_gets_what_is_new() -> None:
    world = World()
    await world.prepare("n1", "n2")
    orders = dispatch(world)
    number = await serving(world, "n1", "n2")
    await orders.send_due()
    loop = Updating(world.replica, Observations(), world.clock)
    await world.do(ReviseService(number=number, base=0, payload=NEXT))
    for node in ("n1", "n2"):
        await loop.step_due()
        assert [each.phase for each in world.allocation(number).parts if each.node == node] == [PartPhase.LEAVING]
        await loop.step_due()
        await orders.send_due()
        world.links.take()
        await stopped_and_started(world, number, node)
        await orders.send_due()
        sent = [order for at, order in world.links.take() if isinstance(order, StartOrder) and at == node]
        assert [each.argv for each in sent] in ([], [("serve", "--new")])
    await loop.step_due()
    assert phase(world, number) is RolloutPhase.DONE


@scenario
async def test_a_new_leader_continues_and_gives_nodes_time_to_tell_what_is_ready() -> None:
    world = World()
    await world.prepare("n1", "n2")
    number = await serving(world, "n1", "n2")
    await world.do(ReviseService(number=number, base=0, payload=NEXT, probed=True, ready_within_s=30))
    first = Updating(world.replica, Observations(), world.clock)
    await first.step_due()
    await stopped_and_started(world, number, "n1")
    world.clock.pass_s(100)
    seen = Observations()
    second = Updating(world.replica, seen, world.clock)
    await second.step_due()
    assert phase(world, number) is RolloutPhase.ROLLING, "it may be ready and only not have told it yet"
    instance = world.allocation(number).parts[0].instance
    seen.readiness.note(number, "n1", Standing(run=1, instance=instance, ready=True))
    await second.step_due()
    assert world.allocation(number).parts[1].phase is PartPhase.LEAVING
    await stopped_and_started(world, number, "n2")
    world.clock.pass_s(31)
    await second.step_due()
    assert phase(world, number) is RolloutPhase.TAKING_BACK
    rollout = world.allocation(number).rollout
    assert rollout is not None
    assert "node n2 was not ready within 30 s" in rollout.reason
