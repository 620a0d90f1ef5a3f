"""Services leave nodes that are drained: one instance after the other, and only to a node that is free."""

from lattice.control.services.moving import Moving
from lattice.core.machine.commands import DrainNode, GrowAllocation, ReportPart
from lattice.core.model.nodes.nodes import NodeState, Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import AllocationState, Part, PartPhase
from lattice.testing import scenario
from tests.unit.control.test_service_instances import serving
from tests.unit.control.world import World


class Site:
    def __init__(self, world: World, *connected: str) -> None:
        self.world, self.observations = world, Observations()
        for node in connected:
            self.observations.join(node, 0.0)
        self.loop = Moving(world.replica, self.observations)

    async def drained(self, *nodes: str) -> None:
        for node in nodes:
            await self.world.do(DrainNode(node=node))

    async def phases(self, number: int) -> dict[str, str]:
        await self.loop.move_due()
        return {part.node: part.phase.value for part in self.world.allocation(number).parts}

    async def left(self, number: int, node: str, instead: str) -> None:
        """Its instance has ended there and runs on another node."""
        part = next(each for each in self.world.allocation(number).parts if each.node == node)
        await self.say(number, part, PartPhase.ENDED)
        await self.world.do(GrowAllocation(number=number, run=1, share=Share(node=instead)))
        await self.say(number, self.world.allocation(number).parts[-1], PartPhase.RUNNING)

    async def say(self, number: int, part: Part, phase: PartPhase) -> None:
        is_end = phase is PartPhase.ENDED
        await self.world.do(
            ReportPart(number=number, run=1, node=part.node, seq=part.seq + 1, phase=phase, stopped=is_end, signal=15)
        )


async def site(*free: str) -> tuple[Site, int]:
    """A service on n1 and n2, and free nodes."""
    world = World()
    await world.prepare("n1", "n2", *free)
    number = await serving(world, "n1", "n2")
    return Site(world, "n1", "n2", *free), number


@scenario
async def test_instances_move_one_after_the_other_and_the_node_is_drained() -> None:
    place, number = await site("n3", "n4")
    await place.drained("n1", "n2")
    assert await place.phases(number) == {"n1": "leaving", "n2": "running"}
    assert await place.phases(number) == {"n1": "leaving", "n2": "running"}, "the other one serves meanwhile"
    await place.left(number, "n1", "n3")
    assert place.world.node("n1").state is NodeState.DRAINED
    assert await place.phases(number) == {"n2": "leaving", "n3": "running"}
    record = place.world.allocation(number)
    assert (record.requeue_count, record.run, record.size) == (0, 1, 2)


@scenario
async def test_without_a_free_node_the_instance_keeps_running_where_it_is() -> None:
    place, number = await site()
    await place.drained("n2")
    assert await place.phases(number) == {"n1": "running", "n2": "running"}
    assert place.world.node("n2").state is NodeState.DRAINING


@scenario
async def test_the_only_instance_goes_as_the_whole_service_and_is_queued_again() -> None:
    world = World()
    await world.prepare("n1", "n2")
    number = await serving(world, "n1")
    place = Site(world, "n1", "n2")
    await place.drained("n1")
    await place.loop.move_due()
    assert world.allocation(number).state is AllocationState.STOPPING
    await place.say(number, world.allocation(number).parts[0], PartPhase.ENDED)
    after = world.allocation(number)
    assert (after.state, after.requeue_count, world.node("n1").state) == (AllocationState.PENDING, 0, NodeState.DRAINED)


@scenario
async def test_a_new_leader_continues() -> None:
    place, number = await site("n3")
    await place.drained("n1")
    heir = Moving(place.world.replica, place.observations)
    place.loop = heir
    assert await place.phases(number) == {"n1": "leaving", "n2": "running"}
