"""Finished work leaves the hot state after its time, groups after their last task, and never what still lives."""

from lattice.control.work.archiving import BATCH, Archiving
from lattice.core.machine.commands import CancelAllocation, FoldTasks, SetSetting
from lattice.testing import scenario
from tests.unit.control.world import World


@scenario
async def test_finished_work_leaves_after_its_time() -> None:
    world = World()
    await world.prepare("n1")
    loop = Archiving(world.replica, world.clock, after_s=300)
    number = await world.running("n1")
    await world.ended(number, "n1")
    world.clock.pass_s(299)
    assert await loop.archive_due() == 0
    assert number in world.state.allocations
    world.clock.pass_s(1)
    assert await loop.archive_due() == 1
    assert number not in world.state.allocations


@scenario
async def test_what_ended_before_the_start_is_found() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.running("n1")
    await world.ended(number, "n1")
    live = await world.running("n1")
    world.clock.pass_s(400)
    loop = Archiving(world.replica, world.clock, after_s=300)
    assert await loop.archive_due() == 1
    assert list(world.state.allocations) == [live]


@scenario
async def test_a_group_leaves_after_its_last_task() -> None:
    world = World()
    await world.prepare("n1")
    group = await world.submit(tasks=((0, 1, 1),))
    for number in (group + 1, group + 2):
        await world.place(number, "n1")
        await world.started(number, "n1")
        await world.ended(number, "n1")
    world.clock.pass_s(400)
    loop = Archiving(world.replica, world.clock, after_s=300)
    assert await loop.archive_due() == 0
    assert await loop.fold_due() == 2
    assert await loop.archive_due() == 1
    assert world.state.allocations == {}
    assert world.state.groups == {}
    assert world.state.folded == {}


@scenario
async def test_the_tasks_that_ended_become_rows_while_the_group_goes_on() -> None:
    world = World()
    await world.prepare("n1")
    loop = Archiving(world.replica, world.clock, after_s=300)
    group = await world.submit(tasks=((0, 1, 1),))
    await world.place(group + 1, "n1")
    await world.ended(group + 1, "n1")
    assert await loop.fold_due() == 0
    world.clock.pass_s(5)
    assert await loop.fold_due() == 1
    assert (await loop.archive_due(), await loop.fold_due()) == (0, 0)
    assert list(world.state.groups) == [group]
    assert world.state.allocations == {}
    ended = world.state.find(group + 1)
    assert ended is not None
    assert ended.is_terminal


@scenario
async def test_a_group_that_was_cancelled_before_it_started_leaves() -> None:
    world = World()
    await world.prepare()
    loop = Archiving(world.replica, world.clock, after_s=300)
    group = await world.submit(tasks=((0, 9, 1),))
    await world.do(CancelAllocation(number=group))
    world.clock.pass_s(300)
    assert await loop.archive_due() == 1
    assert world.state.groups == {}


@scenario
async def test_batches_are_bounded() -> None:
    world = World()
    await world.prepare()
    loop = Archiving(world.replica, world.clock, after_s=0)
    group = await world.submit(tasks=((0, BATCH + 9, 1),))
    for position in range(BATCH + 10):
        await world.do(CancelAllocation(number=group + 1 + position))
    world.replica.proposed.clear()
    world.clock.pass_s(5)
    while await loop.fold_due() + await loop.archive_due():
        pass
    sizes = [len(c.numbers) for c in world.replica.proposed if isinstance(c, FoldTasks)]
    assert max(sizes) == BATCH
    assert world.state.allocations == {}
    assert world.state.groups == {}


@scenario
async def test_a_group_that_has_to_wait_for_the_next_batch_pushes_nobody_out() -> None:
    world = World()
    await world.prepare("n1")
    group = await world.submit(tasks=((0, BATCH - 1, 1),))
    for position in range(BATCH):
        await world.do(CancelAllocation(number=group + 1 + position))
    # A start finds the group before its tasks, and the last of them only in the second batch.
    loop = Archiving(world.replica, world.clock, after_s=300)
    world.clock.pass_s(200)
    late = await world.running("n1")
    await world.ended(late, "n1")
    for _ in range(2):
        world.clock.pass_s(200)
        while await loop.fold_due() + await loop.archive_due():
            pass
    assert world.state.groups == {}
    assert world.state.allocations == {}


@scenario
async def test_an_administrator_may_change_the_time() -> None:
    world = World()
    await world.prepare("n1")
    loop = Archiving(world.replica, world.clock, after_s=300)
    number = await world.running("n1")
    await world.ended(number, "n1")
    await world.do(SetSetting(key="archive.after_s", value="1"))
    world.clock.pass_s(1)
    assert await loop.archive_due() == 1
