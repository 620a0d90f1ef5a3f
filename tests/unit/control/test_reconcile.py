"""The walltime backstop, and nodes that count fewer runs than the state."""

from lattice.control.work.reconcile import Reconcile, ReconcileSettings
from lattice.core.machine.commands import ExpireAllocation, PauseAllocation, RaiseLevel
from lattice.core.model.work.allocations import AllocationState, StopIntent
from lattice.testing import scenario
from tests.unit.control.world import World


def reconcile(world: World, counted: dict[str, int | None]) -> Reconcile:
    settings = ReconcileSettings(every_s=30, grace_s=30, margin_s=60)
    return Reconcile(world.replica, world.links, world.clock, settings, counted.get)


@scenario
async def test_a_run_that_outlived_walltime_grace_and_margin_is_stopped() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1", walltime_s=100)
    loop = reconcile(world, {})
    world.clock.pass_s(189)
    await loop.compare()
    assert world.allocation(number).state is AllocationState.RUNNING
    world.clock.pass_s(2)
    await loop.compare()
    assert world.allocation(number).state is AllocationState.STOPPING
    assert world.allocation(number).intent is StopIntent.WALLTIME


@scenario
async def test_a_run_whose_results_are_copied_may_outlive_its_walltime() -> None:
    world = World()
    await world.do(RaiseLevel(level=2))
    await world.prepare("n1")
    number = await world.running("n1", walltime_s=100, stages_out=True)
    world.clock.pass_s(100_000)
    await reconcile(world, {}).compare()
    assert world.allocation(number).state is AllocationState.RUNNING


@scenario
async def test_time_in_a_pause_does_not_count() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1", walltime_s=100)
    loop = reconcile(world, {})
    await world.do(PauseAllocation(number=number, is_paused=True))
    world.clock.pass_s(1000)
    await loop.compare()
    await world.do(PauseAllocation(number=number, is_paused=False))
    world.clock.pass_s(180)
    await loop.compare()
    assert world.allocation(number).state is AllocationState.RUNNING
    world.clock.pass_s(20)
    await loop.compare()
    assert world.allocation(number).intent is StopIntent.WALLTIME


@scenario
async def test_an_allocation_on_many_nodes_expires_once() -> None:
    world = World()
    await world.prepare("n1", "n2")
    number = await world.running("n1", "n2", walltime_s=100, per_node=True)
    loop = reconcile(world, {})
    world.clock.pass_s(500)
    await loop.compare()
    assert world.replica.proposed.count(ExpireAllocation(number=number, run=1)) == 1


@scenario
async def test_a_node_that_twice_counts_too_few_runs_has_to_register_again() -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.running("n1")
    await world.running("n2")
    loop = reconcile(world, {"n1": 0, "n2": 1})
    await loop.compare()
    assert world.links.closed == []
    await loop.compare()
    assert [node for node, _ in world.links.closed] == ["n1"]


@scenario
async def test_a_node_whose_work_changes_is_not_suspected() -> None:
    world = World()
    await world.prepare("n1")
    loop = reconcile(world, {"n1": 0})
    first = await world.running("n1")
    await loop.compare()
    await world.ended(first, "n1")
    await world.running("n1")
    await loop.compare()
    assert world.links.closed == []


@scenario
async def test_a_node_that_has_not_said_how_many_runs_it_has_is_not_suspected() -> None:
    world = World()
    await world.prepare("n1")
    await world.running("n1")
    loop = reconcile(world, {})
    await loop.compare()
    await loop.compare()
    assert world.links.closed == []
