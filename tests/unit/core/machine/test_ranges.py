"""Ranges of tasks: one command, no records for those that only wait."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import AllocationState, Cause, Hold, RequeuePolicy, StopIntent, TaskGroup
from tests.unit.core.machine.world import World

HUNDRED_THOUSAND = 100_000


def group_of(world: World, last: int = 9, **changes: object) -> int:
    return world.submit(tasks=((0, last, 1),), **changes)


def run_task(world: World, group: int, position: int, node: str) -> int:
    number = group + 1 + position
    world.place(number, node)
    world.started(number, node)
    return number


def seen(world: World, number: int) -> TaskGroup:
    return world.state.groups[number]


def test_cancel_of_a_range_gives_up_what_waits_and_stops_what_runs() -> None:
    world = World()
    group = group_of(world)
    running = run_task(world, group, 3, "n1")
    events = world.must(cmd.CancelAllocation(number=group, positions=((2, 6),)))
    assert events == (
        ev.TasksCancelled(group=group, count=3, positions=((2, 3), (4, 6))),
        ev.AllocationStopping(number=running, intent=StopIntent.CANCEL),
    )
    assert (seen(world, group).pending, seen(world, group).cancelled) == (((0, 2), (6, 10)), 3)
    given_up = world.state.find(group + 1 + 4)
    assert given_up is not None
    assert (given_up.state, given_up.cause, given_up.task_index) == (AllocationState.CANCELLED, Cause.CANCELLED, 4)
    assert given_up.ended_at == world.at
    assert world.refused(cmd.CancelAllocation(number=group, positions=((4, 6),))).code == "conflict"
    assert world.refused(cmd.CancelAllocation(number=group + 5)).code == "conflict"


def test_a_hundred_thousand_tasks_are_cancelled_by_one_event() -> None:
    world = World()
    group = group_of(world, HUNDRED_THOUSAND - 1)
    assert len(world.must(cmd.CancelAllocation(number=group, positions=((0, 99_999),)))) == 1
    assert not world.state.allocations
    assert seen(world, group).pending == ((99_999, 100_000),)


def test_a_held_range_is_passed_over_and_released_again() -> None:
    world = World()
    group = group_of(world)
    world.must(cmd.HoldAllocation(number=group, positions=((0, 4),)))
    assert (seen(world, group).held, seen(world, group).startable) == (((0, 4),), ((4, 10),))
    assert world.state.find(group + 1).hold is Hold.USER  # type: ignore[union-attr]
    assert world.must(cmd.HoldAllocation(number=group, positions=((1, 3),))) == ()
    world.must(cmd.ReleaseAllocation(number=group, positions=((0, 2),)))
    assert seen(world, group).held == ((2, 4),)
    world.must(cmd.ReleaseAllocation(number=group))
    assert seen(world, group).held == ()


def test_what_an_operator_holds_only_an_operator_releases() -> None:
    world = World()
    group = group_of(world)
    world.must(cmd.HoldAllocation(number=group, positions=((0, 6),)))
    world.must(cmd.HoldAllocation(number=group, positions=((0, 4),), hold=Hold.OPERATOR))
    assert (seen(world, group).held, seen(world, group).held_by_operator) == (((4, 6),), ((0, 4),))
    assert world.state.find(group + 1).hold is Hold.OPERATOR  # type: ignore[union-attr]
    assert world.must(cmd.HoldAllocation(number=group, positions=((1, 3),))) == ()
    assert world.refused(cmd.ReleaseAllocation(number=group, positions=((0, 2),))).code == "forbidden"
    world.must(cmd.ReleaseAllocation(number=group, positions=((3, 5),)))
    assert (seen(world, group).held, seen(world, group).held_by_operator) == (((5, 6),), ((0, 4),))
    world.must(cmd.ReleaseAllocation(number=group, positions=((0, 2),), as_operator=True))
    assert seen(world, group).held_by_operator == ((2, 4),)


def test_some_tasks_of_a_held_group_may_be_released() -> None:
    world = World()
    group = group_of(world, hold=Hold.USER)
    assert seen(world, group).template.hold is Hold.USER
    assert world.must(cmd.HoldAllocation(number=group, positions=((0, 2),))) == ()
    world.must(cmd.ReleaseAllocation(number=group, positions=((0, 2),)))
    assert (seen(world, group).template.hold, seen(world, group).held) == (Hold.NONE, ((2, 10),))
    world.must(cmd.HoldAllocation(number=group, hold=Hold.OPERATOR))
    assert (seen(world, group).template.hold, seen(world, group).held) == (Hold.OPERATOR, ())
    assert world.refused(cmd.ReleaseAllocation(number=group, positions=((0, 2),))).code == "forbidden"
    world.must(cmd.ReleaseAllocation(number=group, positions=((0, 2),), as_operator=True))
    assert seen(world, group).held_by_operator == ((2, 10),)
    world.must(cmd.HoldAllocation(number=group))
    assert (seen(world, group).template.hold, seen(world, group).held_by_operator) == (Hold.USER, ((2, 10),))
    world.must(cmd.ReleaseAllocation(number=group))
    assert (seen(world, group).template.hold, seen(world, group).held_by_operator) == (Hold.NONE, ((2, 10),))


def test_pending_tasks_that_are_records_are_held_and_released_too() -> None:
    world = World()
    group = group_of(world)
    task = run_task(world, group, 1, "n1")
    world.must(cmd.RequeueAllocation(number=group, positions=((0, 3),), hold=True))
    world.ended(task, "n1", stopped=True)
    assert (world[task].state, world[task].hold, world[task].restart_count) == (AllocationState.PENDING, Hold.USER, 1)
    world.must(cmd.ReleaseAllocation(number=group, positions=((1, 2),)))
    assert world[task].hold is Hold.NONE
    world.must(cmd.HoldAllocation(number=group, positions=((1, 2),), hold=Hold.OPERATOR))
    assert world[task].hold is Hold.OPERATOR
    assert world.must(cmd.HoldAllocation(number=group, positions=((1, 2),))) == ()
    assert world.refused(cmd.ReleaseAllocation(number=group, positions=((1, 2),))).code == "forbidden"
    world.must(cmd.ReleaseAllocation(number=group, positions=((1, 2),), as_operator=True))
    assert world[task].hold is Hold.NONE
    assert world.must(cmd.ReleaseAllocation(number=group, positions=((1, 2),))) == ()


def test_only_running_tasks_are_requeued() -> None:
    world = World()
    group = group_of(world)
    task = run_task(world, group, 0, "n1")
    refusal = world.refused(cmd.RequeueAllocation(number=group, positions=((1, 3),)))
    assert refusal.message == f"a{group}: none of these tasks is running"
    assert world.must(cmd.RequeueAllocation(number=group, positions=((0, 3),))) == (
        ev.AllocationStopping(number=task, intent=StopIntent.REQUEUE),
    )


def test_what_has_ended_is_neither_held_nor_released() -> None:
    world = World()
    group = group_of(world)
    world.must(cmd.CancelAllocation(number=group, positions=((0, 2),)))
    for command in (
        cmd.HoldAllocation(number=group, positions=((0, 2),)),
        cmd.ReleaseAllocation(number=group, positions=((0, 2),)),
    ):
        assert world.refused(command).code == "conflict"


@pytest.mark.parametrize("positions", [((3, 3),), ((5, 2),), ((0, 2), (1, 4)), ((-1, 2),), ((0, 11),)])
@pytest.mark.parametrize(
    "kind", [cmd.CancelAllocation, cmd.HoldAllocation, cmd.ReleaseAllocation, cmd.RequeueAllocation]
)
def test_positions_that_the_group_does_not_have_are_refused(kind: type, positions: Intervals) -> None:
    world = World()
    group = group_of(world)
    assert world.refused(kind(number=group, positions=positions)).code == "invalid"
    assert world.refused(kind(number=99, positions=((0, 1),))).code == "not_found"


def test_a_range_in_a_thousand_pieces_is_refused() -> None:
    world = World()
    group = group_of(world, HUNDRED_THOUSAND - 1)
    every_second = tuple((position, position + 1) for position in range(0, 5_000, 2))
    refusal = world.refused(cmd.HoldAllocation(number=group, positions=every_second))
    assert (refusal.requested, refusal.limit) == ("2,500 pieces", "1,000 pieces")


def test_the_limit_of_tasks_at_once_can_be_changed() -> None:
    world = World()
    group = group_of(world, concurrency=1)
    run_task(world, group, 0, "n1")
    world.must(cmd.UpdateAllocation(number=group, concurrency=2))
    run_task(world, group, 1, "n2")
    world.must(cmd.UpdateAllocation(number=group, concurrency=1))
    share = (world[group + 1].shares[0],)
    assert world.refused(cmd.PlaceAllocation(number=group + 3, run=1, shares=share)).code == "stale"
    assert seen(world, group).concurrency == 1
    world.must(cmd.UpdateAllocation(number=group, name="sweep"))
    assert seen(world, group).concurrency == 1
    assert world.refused(cmd.UpdateAllocation(number=group, concurrency=-1)).code == "invalid"
    assert world.refused(cmd.UpdateAllocation(number=group + 1, concurrency=3)).code == "invalid"


@pytest.mark.parametrize(
    ("low", "high", "step", "found"),
    [
        (0, 99, 1, ((0, 7),)),
        (2, 6, 1, ((1, 4),)),
        (3, 5, 1, ((2, 3),)),
        (5, 5, 1, ()),
        (9, 30, 1, ((5, 7),)),
        (0, 99, 4, ((0, 1), (2, 3), (4, 6))),
    ],
)
def test_indices_are_found_by_range_and_step(low: int, high: int, step: int, found: Intervals) -> None:
    world = World()
    group = seen(world, world.submit(tasks=((0, 8, 2), (20, 21, 1))))
    assert group.positions_of(low, high, step) == found


def test_ended_tasks_become_rows_and_lose_nothing_that_counts() -> None:
    world = World()
    group = group_of(world, requeue=RequeuePolicy.NEVER)
    good, bad = run_task(world, group, 0, "n1"), run_task(world, group, 5, "n2")
    world.ended(good, "n1", cpu_s=1.5, peak_memory_mb=12, elapsed_s=2.0)
    world.ended(bad, "n2", cause=Cause.SIGNAL, signal=9, message="killed")
    before = {number: world[number] for number in (good, bad)}
    world.must(cmd.FoldTasks(numbers=(bad, good, good, group, 99)))
    assert not world.state.allocations
    for number, record in before.items():
        found = world.state.find(number)
        assert found is not None
        assert found.parts[0].node == record.parts[0].node
        parts = tuple(found.parts)
        assert found == type(record)(
            **{name: getattr(record, name) for name in record.__struct_fields__ if name != "parts"}, parts=parts
        )
    assert world.must(cmd.FoldTasks(numbers=(good,))) == ()
    assert world.refused(cmd.CancelAllocation(number=good)).code == "conflict"
    assert world.state.find(group + 1 + 1).state is AllocationState.PENDING  # type: ignore[union-attr]


def test_a_row_keeps_what_was_changed_for_one_task_or_later_for_the_group() -> None:
    world = World()
    group = group_of(world, requeue=RequeuePolicy.NEVER)
    first = run_task(world, group, 0, "n1")
    world.must(cmd.UpdateAllocation(number=first, name="special"))
    world.ended(first, "n1")
    second = run_task(world, group, 1, "n1")
    world.ended(second, "n1")
    world.must(cmd.FoldTasks(numbers=(second,)))
    world.must(cmd.UpdateAllocation(number=group, name="later"))
    world.must(cmd.FoldTasks(numbers=(first,)))
    names = [world.state.find(number).name for number in (first, second, group + 5)]  # type: ignore[union-attr]
    assert names == ["special", "work", "later"]


def test_a_task_on_several_nodes_keeps_its_parts() -> None:
    world = World()
    group = group_of(world, nodes=2, per_node=True)
    number = group + 1
    world.place(number, "n1", "n2")
    world.ended(number, "n1")
    world.ended(number, "n2", cpu_s=3.0)
    before = world[number]
    world.must(cmd.FoldTasks(numbers=(number,)))
    assert world.state.find(number) == before


def test_a_task_cancelled_before_it_ran_has_no_part_in_its_row() -> None:
    world = World()
    group = group_of(world)
    world.must(cmd.CancelAllocation(number=group + 1))
    before = world[group + 1]
    world.must(cmd.FoldTasks(numbers=(group + 1,)))
    assert world.state.find(group + 1) == before


def test_a_group_takes_its_rows_along_and_the_digest_forgets_them() -> None:
    world = World()
    untouched = World()
    group, same = group_of(world, last=1), group_of(untouched, last=1)
    assert group == same
    for position in range(2):
        world.ended(run_task(world, group, position, "n1"), "n1")
    assert world.must(cmd.ArchiveAllocations(numbers=(group,))) == ()
    world.must(cmd.FoldTasks(numbers=(group + 1, group + 2)))
    world.must(cmd.ArchiveAllocations(numbers=(group,)))
    assert not world.state.folded
    assert world.state.find(group + 1) is None


def test_cancel_of_tasks_that_all_run_gives_nothing_up() -> None:
    world = World()
    group = group_of(world)
    running = run_task(world, group, 3, "n1")
    events = world.must(cmd.CancelAllocation(number=group, positions=((3, 4),)))
    assert events == (ev.AllocationStopping(number=running, intent=StopIntent.CANCEL),)
    assert seen(world, group).cancelled == 0
