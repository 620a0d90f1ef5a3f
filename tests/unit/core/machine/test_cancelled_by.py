"""Who cancelled work that is not theirs: kept in the record, said in the message."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import OLDEST
from lattice.core.model.work.allocations import AllocationState, Cause, PartPhase
from lattice.wire.text.endings import ending_of, group_ending_of
from tests.unit.core.machine.world import World


def running(world: World) -> int:
    number = world.submit()
    world.place(number, "n1")
    world.started(number, "n1")
    return number


def test_running_work_that_another_cancels_says_who() -> None:
    world = World()
    number = running(world)
    world.must(cmd.CancelAllocation(number=number), actor="bob")
    world.must(cmd.CancelAllocation(number=number), actor="eve")
    assert (world[number].state, world[number].cancelled_by) == (AllocationState.STOPPING, "bob")
    world.ended(number, "n1", stopped=True)
    assert (world[number].message, world[number].cancelled_by) == ("cancelled by bob", "bob")
    assert ending_of(world[number]) == f"a{number} was cancelled by bob"


def test_waiting_work_that_another_cancels_says_who() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.CancelAllocation(number=number), actor="bob")
    assert ending_of(world[number]) == f"a{number} was cancelled by bob"


def test_what_the_node_adds_stays() -> None:
    world = World()
    number = running(world)
    world.must(cmd.CancelAllocation(number=number), actor="bob")
    said = "its output was not stored: disk full"
    end = cmd.ReportPart(number=number, run=1, node="n1", seq=2, phase=PartPhase.ENDED, stopped=True, message=said)
    world.must(end)
    assert ending_of(world[number]) == f"a{number} was cancelled by bob; {said}"


def test_ones_own_work_names_nobody() -> None:
    world = World()
    number = running(world)
    world.must(cmd.CancelAllocation(number=number), actor="ada")
    world.ended(number, "n1", stopped=True)
    assert ending_of(world[number]) == f"a{number} was cancelled"


def test_below_its_level_nobody_is_named() -> None:
    world = World(level=OLDEST)
    number = world.submit()
    world.must(cmd.CancelAllocation(number=number), actor="bob")
    assert (world[number].message, world[number].cancelled_by) == ("", "")


@pytest.mark.parametrize(
    ("actors", "told"),
    [(("bob", "bob"), "was cancelled by bob"), (("bob", "ada"), "was cancelled"), (("ada", "bob"), "was cancelled")],
)
def test_a_group_names_the_one_who_cancelled_all_of_it(actors: tuple[str, str], told: str) -> None:
    world = World()
    group = world.submit(tasks=((0, 3, 1),))
    for actor, positions in zip(actors, (((0, 2),), ()), strict=True):
        world.must(cmd.CancelAllocation(number=group, positions=positions), actor=actor)
    assert group_ending_of(world.state.groups[group]) == f"a{group} {told}"
    task = world.state.find(group + 4)
    assert task is not None
    assert ending_of(task) == f"a{group + 4} {told}"


def test_a_group_of_which_one_runs_names_who_cancelled_it() -> None:
    world = World()
    group = world.submit(tasks=((0, 1, 1),))
    world.place(group + 1, "n1")
    world.started(group + 1, "n1")
    world.must(cmd.CancelAllocation(number=group), actor="bob")
    world.ended(group + 1, "n1", stopped=True)
    assert group_ending_of(world.state.groups[group]) == f"a{group} was cancelled by bob"


def test_tasks_given_up_for_another_reason_name_nobody() -> None:
    world = World()
    first = world.submit()
    group = world.submit(tasks=((0, 1, 1),), walltime_s=60, deadline_at=world.at + 100_000)
    world.at += 50_000
    world.must(cmd.EnforceDeadline(number=group))
    task = world.state.find(group + 1)
    assert task is not None
    assert task.cause is Cause.DEADLINE
    assert ending_of(task) == f"a{group + 1} was given up: it could no longer end before its deadline"
    world.must(cmd.CancelAllocation(number=first), actor="bob")
