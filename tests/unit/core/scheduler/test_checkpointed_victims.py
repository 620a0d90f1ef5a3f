"""Victims that write checkpoints: what they cost the plan, and that suspended work is started like pending work."""

import pytest

from lattice.core.machine.commands import ReportCheckpoint, RequestCheckpoint, RequeueAllocation, SetSetting
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.work.allocations import AllocationState, Request
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointWay
from lattice.core.scheduler.placement.victims import costs
from tests.unit.core.scheduler.test_preemption import Busy, victims_of

WAY = CheckpointWay()


def busy(nodes: int) -> Busy:
    world = Busy(nodes)
    world.do(SetSetting(key="checkpoint.root", value="/ck"))
    return world


def write(world: Busy, number: int) -> None:
    record = world.state.allocations[number]
    n, node = record.checkpoints.last_n, record.nodes[0]
    for phase in (CheckpointPhase.DONE, CheckpointPhase.SEALED):
        world.do(ReportCheckpoint(number=number, run=record.run, n=n, node=node, phase=phase, elapsed_s=30.0))


def test_work_that_has_just_written_a_checkpoint_is_taken_before_work_that_has_not() -> None:
    world = busy(2)
    first, second = world.running("n1", checkpoint=WAY), world.running("n2", checkpoint=WAY)
    world.later()
    world.do(RequestCheckpoint(number=second))
    write(world, second)
    high = world.submit(Request(nodes=1), preemption_class=9)
    assert victims_of(world.plan()) == {high: (second,)}
    assert world.state_of(first) is AllocationState.RUNNING


def test_an_estimate_counts_until_a_checkpoint_was_written() -> None:
    world = busy(2)
    first, second = world.running("n1", checkpoint=WAY), world.running("n2", checkpoint=WAY)
    world.later()
    world.do(RequestCheckpoint(number=second))
    write(world, second)
    world.submit(Request(nodes=1), preemption_class=9)
    table = world.snapshot().takeable
    assert table is not None
    plain = dict(zip(table["number"].tolist(), costs(table, world.now).tolist(), strict=True))
    guessed = dict(
        zip(table["number"].tolist(), costs(table, world.now, {first: 2.0, second: 0.1}).tolist(), strict=True)
    )
    assert guessed[first] == pytest.approx(plain[first] + 120)
    assert guessed[second] == plain[second] == pytest.approx(30, abs=1)


def test_of_two_the_one_with_the_quicker_checkpoint_is_taken() -> None:
    world = busy(2)
    first, second = world.running("n1", checkpoint=WAY), world.running("n2", checkpoint=WAY)
    world.later()
    high = world.submit(Request(nodes=1), preemption_class=9)
    world.cycle.signals = Signals(checkpoint_minutes={first: 5.0, second: 1.0})
    assert victims_of(world.plan()) == {high: (second,)}


def test_suspended_work_waits_in_the_queue_and_is_placed() -> None:
    world = busy(1)
    low = world.running("n1", checkpoint=WAY)
    world.later()
    world.do(RequeueAllocation(number=low, checkpoint=True))
    write(world, low)
    world.stopped(low)
    assert world.state_of(low) is AllocationState.SUSPENDED
    assert [placement.number for placement in world.plan().placements] == [low]
