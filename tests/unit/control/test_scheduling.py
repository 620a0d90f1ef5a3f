"""When a cycle runs, what it proposes, and what is told about it."""

import asyncio
from collections.abc import Callable

import pytest

from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.core.machine.commands import (
    CancelAllocation,
    ConfirmNode,
    DrainNode,
    PlaceAllocation,
    RegisterNode,
    ReleaseAllocation,
    SetSetting,
)
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import AllocationState, Hold
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.tables.snapshot import Snapshot
from lattice.ports.scheduling import CycleReport
from lattice.testing import FakeReplica, scenario
from tests.unit.control.world import HARDWARE, World


class Loop:
    def __init__(self, world: World, merge_s: float = 0.05, interval_s: float = 5.0) -> None:
        self.world = world
        self.observations = Observations()
        for node in sorted(world.links.open):
            self.observations.join(node, world.clock.s)
        self.cycles: list[CycleReport] = []
        self.loop = Scheduling(
            world.replica,
            self.observations,
            world.clock,
            SchedulingSettings(cycle_interval_s=interval_s, merge_s=merge_s),
            self.cycles.append,
        )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - a cycle that ended sets no event
            await asyncio.sleep(0.005)


@scenario
async def test_pending_work_is_placed_on_free_nodes_in_order() -> None:
    world = World()
    await world.prepare("n1", "n2")
    loop = Loop(world).loop
    numbers = [await world.submit() for _ in range(3)]
    assert await loop.run_cycle() == 2
    states = [world.allocation(number).state for number in numbers]
    assert states == [AllocationState.STARTING, AllocationState.STARTING, AllocationState.PENDING]
    assert loop.reason_for(numbers[0]) == ""
    assert loop.reason_for(numbers[2]) != ""


@scenario
async def test_a_scheduler_that_fails_says_so_until_a_cycle_goes_well() -> None:
    world = World()
    await world.prepare()
    loop = Loop(world).loop
    number = await world.submit()

    failed = asyncio.Event()

    async def broken(snapshot: Snapshot, now: int) -> Plan:
        failed.set()
        raise AttributeError("no such thing")

    planned, loop._planned = loop._planned, broken  # type: ignore[method-assign]
    turning = asyncio.create_task(loop.run())
    await failed.wait()
    assert loop.status().last_error == "AttributeError: no such thing"
    assert "last cycle failed" in loop.reason_for(number)
    loop._planned = planned  # type: ignore[method-assign]
    assert await loop.run_cycle() == 0
    turning.cancel()
    assert (loop.status().failed_cycles > 0, loop.status().last_error) == (True, "")
    assert "last cycle failed" not in loop.reason_for(number)


@scenario
async def test_what_was_there_before_the_start_is_placed_too() -> None:
    world = World()
    await world.prepare("n1")
    number = await world.submit()
    loop = Loop(world).loop
    assert await loop.run_cycle() == 1
    assert world.allocation(number).state is AllocationState.STARTING


@scenario
async def test_a_ready_node_without_a_stream_gets_nothing() -> None:
    world = World()
    await world.prepare("n1")
    world.links.open.clear()
    rig = Loop(world)
    await world.submit()
    assert await rig.loop.run_cycle() == 0
    rig.observations.join("n1", world.clock.s)
    assert await rig.loop.run_cycle() == 1


@scenario
async def test_a_proposal_that_no_longer_holds_is_counted_and_tried_again() -> None:
    world = World()
    await world.prepare("n1", "n2")
    rig = Loop(world)
    number = await world.submit()
    original = FakeReplica.propose_many

    async def overtaken(*args: object, **kwargs: object) -> object:
        world.replica.propose_many = original.__get__(world.replica)  # type: ignore[method-assign]
        await world.do(DrainNode(node="n1"))
        return await world.replica.propose_many(*args, **kwargs)  # type: ignore[arg-type]

    world.replica.propose_many = overtaken  # type: ignore[method-assign,assignment]
    assert await rig.loop.run_cycle() == 0
    assert rig.loop.stale == 1
    assert await rig.loop.run_cycle() == 1
    assert world.allocation(number).nodes == ("n2",)
    assert [(report.placed, report.stale) for report in rig.cycles] == [(0, 1), (1, 0)]


@scenario
async def test_the_status_tells_of_the_last_cycle_and_of_all() -> None:
    world = World()
    await world.prepare("n1")
    loop = Loop(world).loop
    assert loop.status().cycles == 0
    await world.submit()
    await loop.run_cycle()
    await loop.run_cycle()
    status = loop.status()
    assert (status.cycles, status.last_placements, status.placements) == (2, 0, 1)
    assert status.last_cycle_at == world.clock.ms


@scenario
async def test_a_submission_starts_a_cycle_at_once() -> None:
    world = World()
    await world.prepare("n1")
    loop = Loop(world).loop
    task = asyncio.create_task(loop.run())
    placed = asyncio.Event()
    world.replica.subscribe(
        lambda index, envelope, events: placed.set() if isinstance(envelope.command, PlaceAllocation) else None
    )
    await asyncio.sleep(0.06)
    number = await world.submit()
    await asyncio.wait_for(placed.wait(), 2)
    assert world.allocation(number).nodes == ("n1",)
    placed.clear()
    waiting = await world.submit()
    await world.ended(number, "n1")
    await asyncio.wait_for(placed.wait(), 2)
    assert world.allocation(waiting).shares == (Share(node="n1"),)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_work_that_is_held_starts_a_cycle_when_it_is_released() -> None:
    world = World()
    await world.prepare("n1")
    loop = Loop(world).loop
    task = asyncio.create_task(loop.run())
    await until(lambda: loop.status().cycles == 1)
    held = await world.submit(hold=Hold.USER)
    group = await world.submit(hold=Hold.USER, tasks=((0, 3, 1),))
    for _ in range(50):  # a plan this small is made between two turns of the loop
        await asyncio.sleep(0)
    assert loop.status().cycles == 1
    await world.do(ReleaseAllocation(number=held))
    await until(lambda: world.allocation(held).nodes == ("n1",))
    await world.do(ReleaseAllocation(number=group))
    await world.ended(held, "n1")
    await until(lambda: world.state.groups[group].holding > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_submissions_to_a_full_cluster_share_a_plan_and_an_end_does_not_wait_for_it() -> None:
    world = World()
    await world.prepare("n1")
    loop = Loop(world, merge_s=0.5).loop
    first = await world.submit()
    assert await loop.run_cycle() == 1
    task = asyncio.create_task(loop.run())
    await until(lambda: loop.status().cycles == 2)
    numbers = [await world.submit() for _ in range(5)]
    await asyncio.sleep(0)
    assert loop.status().cycles == 2
    await until(lambda: loop.status().cycles == 3)
    assert [loop.reason_for(number) for number in numbers] != [""] * 5
    await world.ended(first, "n1")
    await until(lambda: world.allocation(numbers[0]).nodes == ("n1",))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_the_rest_after_a_plan_counts_what_that_plan_started(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.prepare(*(f"n{place}" for place in range(8)))
    loop = Loop(world).loop
    for _ in range(8):
        await world.submit()
    rests: list[int] = []

    async def rest(work_s: float, most_s: float, *, least: int) -> None:
        rests.append(least)
        await asyncio.Event().wait()

    monkeypatch.setattr("lattice.control.work.scheduling.rest_by_load", rest)
    task = asyncio.create_task(loop.run())
    await until(lambda: bool(rests))
    assert rests == [2]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_the_first_submission_after_nodes_came_does_not_wait_for_others() -> None:
    world = World()
    await world.prepare()
    made = Loop(world, merge_s=3600, interval_s=3600)
    task = asyncio.create_task(made.loop.run())
    await until(lambda: made.loop.status().cycles == 1)  # a cluster without nodes is full
    await world.do(RegisterNode(node="n1", hardware=HARDWARE))
    await world.do(ConfirmNode(node="n1"))
    made.observations.join("n1", world.clock.s)
    number = await world.submit()
    await until(lambda: world.allocation(number).nodes == ("n1",))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_the_loop_sleeps_until_something_becomes_eligible() -> None:
    world = World()
    await world.prepare("n1")
    loop = Loop(world).loop
    number = await world.submit(eligible_at=world.clock.ms + 2000)
    assert await loop.run_cycle() == 0
    assert loop._longest_wait_s() == 2.0
    world.clock.pass_s(2)
    assert loop._longest_wait_s() == 0.0
    assert await loop.run_cycle() == 1
    assert world.allocation(number).state is AllocationState.STARTING
    assert loop._longest_wait_s() == 5.0


@scenario
async def test_cancelled_work_is_not_placed() -> None:
    world = World()
    await world.prepare("n1")
    loop = Loop(world).loop
    number = await world.submit()
    await world.do(CancelAllocation(number=number))
    assert await loop.run_cycle() == 0
    assert loop.reason_for(number) == ""


@scenario
async def test_a_cycle_reports_what_each_vcluster_placed_and_left_waiting() -> None:
    world = World()
    await world.prepare("n1")
    rig = Loop(world)
    await world.submit()
    await world.submit()
    await rig.loop.run_cycle()
    (report,) = rig.cycles
    assert report.took_part == frozenset({"default"})
    cycle = report.vclusters["default"]
    assert (cycle.accepted, cycle.rejected, cycle.waiting) == (1, 0, 1)
    assert 0 <= report.scoring_s <= report.seconds


@scenario
async def test_what_work_uses_of_the_storage_is_asked_for_where_that_is_limited() -> None:
    world = World()
    await world.prepare("n1")
    asked: list[int] = []

    def used() -> dict[int, float]:
        asked.append(world.clock.now_ms())
        return {}

    loop = Scheduling(world.replica, Observations(), world.clock, SchedulingSettings(), storage_gbps=used)
    await loop.run_cycle()
    assert asked == []
    await world.do(SetSetting(key="scheduler.storage_bandwidth_gbps", value="10"))
    await loop.run_cycle()
    assert asked == [world.clock.now_ms()]
