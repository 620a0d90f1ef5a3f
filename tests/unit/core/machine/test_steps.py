"""Steps are remembered once each, the newest of an allocation."""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.model.work.steps import KEPT_STEPS, StepRecord
from tests.unit.core.machine.world import World


def record(step: int) -> StepRecord:
    return StepRecord(step=step, run=1, name="work", nodes=("n1",), tasks=2, started_at=5, ended_at=9)


def test_steps_are_kept_by_number() -> None:
    world = World()
    number = world.submit()
    events = world.must(cmd.RecordSteps(number=number, steps=(record(2), record(0))))
    assert events == (ev.StepsRecorded(number=number, steps=(record(2), record(0))),)
    allocation = world.state.allocations[number]
    assert [step.step for step in allocation.steps] == [0, 2]
    assert allocation.next_step == 3


def test_a_repeated_record_changes_nothing() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.RecordSteps(number=number, steps=(record(0),)))
    digest = world.state.allocations[number]
    assert world.must(cmd.RecordSteps(number=number, steps=(record(0),))) == ()
    assert world.state.allocations[number] == digest


def test_the_record_of_an_allocation_that_is_gone_changes_nothing() -> None:
    assert World().must(cmd.RecordSteps(number=77, steps=(record(0),))) == ()


def test_only_the_newest_are_kept_and_the_dropped_ones_stay_dropped() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.RecordSteps(number=number, steps=tuple(record(step) for step in range(1, KEPT_STEPS + 2))))
    allocation = world.state.allocations[number]
    assert [allocation.steps[0].step, len(allocation.steps)] == [2, KEPT_STEPS]
    assert world.must(cmd.RecordSteps(number=number, steps=(record(0),))) == ()


def test_a_record_that_comes_twice_in_one_command_is_kept_once() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.RecordSteps(number=number, steps=(record(0), record(0))))
    assert [step.step for step in world.state.allocations[number].steps] == [0]
