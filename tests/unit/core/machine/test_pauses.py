"""Pauses: a property of a run that ends with it."""

from lattice.core.machine import commands as cmd
from lattice.core.model.work.allocations import AllocationState
from tests.unit.core.machine.world import World


def test_pause_keeps_the_nodes_and_counts_its_time() -> None:
    world = World()
    number = world.running("n1")
    before = world.node("n1")
    world.must(cmd.PauseAllocation(number=number, is_paused=True))
    since = world[number].paused_at
    assert since
    assert world[number].state is AllocationState.RUNNING
    assert world.node("n1") == before
    assert world.must(cmd.PauseAllocation(number=number, is_paused=True)) == ()
    world.must(cmd.PauseAllocation(number=number, is_paused=False))
    assert world[number].paused_at == 0
    assert world[number].paused_ms >= 0
    assert world.must(cmd.PauseAllocation(number=number, is_paused=False)) == ()


def test_a_stop_ends_the_pause_and_another_run_knows_nothing_of_it() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.PauseAllocation(number=number, is_paused=True))
    world.must(cmd.RequeueAllocation(number=number))
    assert world[number].paused_at == 0
    world.ended(number, "n1", stopped=True)
    assert (world[number].paused_at, world[number].paused_ms) == (0, 0)


def test_only_running_work_can_be_paused() -> None:
    world = World()
    number = world.submit()
    refused = world.refused(cmd.PauseAllocation(number=number, is_paused=True))
    assert (refused.code, refused.message) == ("conflict", f"a{number} is Pending; only running work can be paused")
    assert world.refused(cmd.PauseAllocation(number=99, is_paused=True)).code == "not_found"
    group = world.submit(tasks=((0, 3, 1),))
    assert world.refused(cmd.PauseAllocation(number=group, is_paused=True)).code == "invalid"
    assert world.refused(cmd.PauseAllocation(number=group + 1, is_paused=True)).code == "conflict"
