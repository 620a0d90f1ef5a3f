"""Task groups in the queue: only what may start does, and the rest says why."""

import pytest
from msgspec.structs import replace

from lattice.core.machine.commands import HoldAllocation, ReleaseAllocation, SetReservation
from lattice.core.model.intervals import Intervals
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.work.allocations import Hold
from lattice.core.scheduler.plan import plan
from tests.unit.core.scheduler.world import World

WEEK_MS = 7 * 86_400_000


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


@pytest.mark.parametrize("is_reserved", [False, True])
def test_promises_that_are_kept_to_the_letter_stay_where_they_were(is_reserved: bool) -> None:
    world = World()
    world.add_nodes(("n1", "n2"))
    if is_reserved:
        upkeep = AdvanceReservation(name="upkeep", start_at=world.now + WEEK_MS, end_at=world.now + WEEK_MS + 1)
        world.do(SetReservation(reservation=upkeep, create=True))
    running, starting = world.submit(), world.submit()
    world.place(running, "n1")
    world.report_running(running)
    world.now += 60_000
    world.place(starting, "n2")
    waiting = [world.submit() for _ in range(3)]
    before = {kept.number: kept for kept in world.plan().reservations}
    # What has not started yet ends later and later, and those behind it with it; the others do not move.
    world.now += 1_000
    after = {kept.number: kept for kept in world.plan().reservations}
    assert after[waiting[0]] == before[waiting[0]]
    assert after[waiting[1]].start_at == before[waiting[1]].start_at + 1_000
    assert after[waiting[2]] == before[waiting[2]]


@pytest.mark.parametrize("is_reserved", [False, True])
def test_a_promise_is_redeemed_early_when_its_node_is(is_reserved: bool) -> None:
    world = World()
    world.add_nodes(("n1", "n2"))
    if is_reserved:
        upkeep = AdvanceReservation(name="upkeep", start_at=world.now + WEEK_MS, end_at=world.now + WEEK_MS + 1)
        world.do(SetReservation(reservation=upkeep, create=True))
    running, starting = world.submit(), world.submit()
    world.place(running, "n1")
    world.report_running(running)
    world.now += 60_000
    world.place(starting, "n2")
    waiting = [world.submit() for _ in range(3)]
    world.plan()
    world.now += 1_000
    world.finish(running)
    made = world.plan()
    assert [(placement.number, placement.shares[0].node) for placement in made.placements] == [(waiting[0], "n1")]
