"""Task groups in the queue: only what may start does, and the rest says why."""

from msgspec.structs import replace

from lattice.core.machine.commands import HoldAllocation, ReleaseAllocation
from lattice.core.model.allocations import Hold
from lattice.core.model.intervals import Intervals
from lattice.core.scheduler.plan import plan
from tests.unit.core.scheduler.world import World


def grouped(nodes: int, last: int = 5) -> tuple[World, int]:
    world = World()
    for index in range(nodes):
        world.add_node(f"n{index}")
    return world, world.submit(tasks=((0, last, 1),))


def started(world: World, group: int) -> list[int]:
    """Positions of the tasks that would start now."""
    made = plan(world.cycle.snapshot(), world.cycle.profiles, world.now)
    return [placement.number - group - 1 for placement in made.placements]


def reason(world: World, number: int) -> str:
    made = plan(world.cycle.snapshot(), world.cycle.profiles, world.now)
    explanation = made.explain(number)
    return "" if explanation is None else explanation.reason


def test_held_tasks_are_passed_over() -> None:
    world, group = grouped(nodes=3)
    world.do(HoldAllocation(number=group, positions=((0, 2), (3, 4))))
    assert started(world, group) == [2, 4, 5]
    world.do(ReleaseAllocation(number=group, positions=((0, 1),)))
    assert started(world, group) == [0, 2, 4]


def test_a_group_of_which_all_tasks_are_held_waits_as_held() -> None:
    world, group = grouped(nodes=3)
    world.do(HoldAllocation(number=group, positions=((0, 3),)))
    world.do(HoldAllocation(number=group, positions=((3, 6),), hold=Hold.OPERATOR))
    assert started(world, group) == []
    assert "held" in reason(world, group)
    assert "held" in reason(world, group + 1)


def test_blocked_tasks_are_not_in_the_queue() -> None:
    world, group = grouped(nodes=3)
    everything: Intervals = ((0, 6),)
    record = world.state.groups[group]
    world.cycle._columns.put_group(replace(record, blocked=((0, 4),)))
    assert started(world, group) == [4, 5]
    world.cycle._columns.put_group(replace(record, blocked=everything))
    assert started(world, group) == []
    assert len(world.cycle.snapshot().queue.number) == 0
