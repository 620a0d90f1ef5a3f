"""Dependencies: what waits, what a predecessor's start or end makes of it, and how far that goes in one command."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.apply import apply
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.work.allocations import AllocationState, Cause, Hold
from lattice.core.model.work.dependencies import Condition, Dependency, EndedWork, Ending
from tests.unit.core.machine.world import World

S, F, ANY, AFTER, CORR = (
    Condition.SUCCESS,
    Condition.FAILURE,
    Condition.ANY,
    Condition.AFTER,
    Condition.CORRESPONDING,
)


def needs(*words: tuple[int, Condition]) -> dict[str, object]:
    """Dependencies all of which must be met."""
    return {"depends_on": tuple((Dependency(number=number, condition=condition),) for number, condition in words)}


def ended(world: World, number: int, *, code: int = 0) -> tuple[ev.AnyEvent, ...]:
    world.place(number, "n1")
    world.started(number, "n1")
    return world.ended(number, "n1", exit_code=code)


@pytest.mark.parametrize(
    ("condition", "after_success", "after_failure"),
    [
        (S, "Pending", "Cancelled"),
        (F, "Cancelled", "Pending"),
        (ANY, "Pending", "Pending"),
        (CORR, "Pending", "Cancelled"),
    ],
)
def test_a_condition_is_met_or_never_will_be_once_the_predecessor_has_ended(
    condition: Condition, after_success: str, after_failure: str
) -> None:
    for code, expected in ((0, after_success), (3, after_failure)):
        world = World()
        first = world.submit()
        second = world.submit(**needs((first, condition)))
        assert world[second].waits_for
        ended(world, first, code=code)
        assert world[second].state == expected
        if expected == "Pending":
            assert world[second].waits_for == ()
            assert world[second].eligible_at == world.at
        else:
            assert world[second].cause is Cause.DEPENDENCY
            assert "a1 was to end with" in world[second].message


def test_what_waits_cannot_be_placed() -> None:
    world = World()
    first = world.submit()
    second = world.submit(**needs((first, S)))
    shares = world.state.allocations  # nothing of it changes
    refused = world.refused(cmd.PlaceAllocation(number=second, run=1, shares=()))
    assert refused.message == "a2 waits for other allocations"
    assert world.state.allocations is shares


def test_the_end_of_one_releases_skips_and_catches_in_the_same_command() -> None:
    world = World()
    first = world.submit()
    second = world.submit(**needs((first, S)))
    third = world.submit(**needs((second, S)))
    caught = world.submit(**needs((second, ANY)))
    handler = world.submit(**needs((first, F)))
    not_needed = world.submit(**needs((third, F)))
    events = ended(world, first, code=1)
    assert [type(event).__name__ for event in events[2:]] == [
        "AllocationEnded",  # second
        "WaitChanged",  # handler
        "AllocationEnded",  # third
        "WaitChanged",  # caught
        "AllocationEnded",  # not_needed: third was skipped, it did not fail
    ]
    states = [world[number].state.value for number in (second, third, caught, handler, not_needed)]
    assert states == ["Cancelled", "Cancelled", "Pending", "Pending", "Cancelled"]
    assert world[not_needed].message == "a3 was to end with failure, it was skipped"


def test_a_predecessor_that_somebody_cancels_counts_as_failed() -> None:
    world = World()
    first = world.submit()
    good, bad, any_end = (world.submit(**needs((first, condition))) for condition in (S, F, ANY))
    world.must(cmd.CancelAllocation(number=first))
    assert [world[n].state.value for n in (good, bad, any_end)] == ["Cancelled", "Pending", "Pending"]


def test_all_clauses_must_be_met_and_one_alternative_of_each_is_enough() -> None:
    world = World()
    a, b, c = (world.submit() for _ in range(3))
    clauses = ((Dependency(number=a),), (Dependency(number=b), Dependency(number=c)))
    number = world.submit(depends_on=clauses)
    ended(world, b, code=1)
    assert world[number].waits_for == ((Dependency(number=a),), (Dependency(number=c),))
    ended(world, a)
    assert world[number].waits_for == ((Dependency(number=c),),)
    ended(world, c)
    assert world[number].waits_for == ()
    assert world[number].depends_on == clauses


def test_a_clause_without_alternatives_left_ends_the_allocation() -> None:
    world = World()
    a, b = world.submit(), world.submit()
    number = world.submit(depends_on=((Dependency(number=a), Dependency(number=b)),))
    ended(world, a, code=1)
    assert world[number].state is AllocationState.PENDING
    ended(world, b, code=1)
    assert world[number].state is AllocationState.CANCELLED


def test_what_was_told_to_stay_stays_pending_for_good() -> None:
    world = World()
    first = world.submit()
    number = world.submit(**needs((first, S)), keep_on_invalid_dependency=True)
    ended(world, first, code=1)
    assert world[number].state is AllocationState.PENDING
    assert world[number].waits_for == ((),)
    world.must(cmd.CancelAllocation(number=number))


def test_after_is_met_by_the_start_and_by_an_end_without_one() -> None:
    world = World()
    first, other = world.submit(), world.submit()
    late = world.submit(depends_on=((Dependency(number=first, condition=AFTER, delay_s=60),),))
    soon = world.submit(**needs((other, AFTER)))
    world.place(first, "n1")
    assert world[late].waits_for
    world.started(first, "n1")
    assert world[late].waits_for == ()
    assert world[late].eligible_at == world[first].started_at + 60_000
    world.must(cmd.CancelAllocation(number=other))
    assert world[soon].waits_for == ()


def test_a_delay_is_kept_while_something_else_is_waited_for() -> None:
    world = World()
    first, other = world.submit(), world.submit()
    number = world.submit(
        depends_on=((Dependency(number=first, condition=AFTER, delay_s=60),), (Dependency(number=other),))
    )
    world.place(first, "n1")
    world.started(first, "n1")
    until = world[first].started_at + 60_000
    assert world[number].eligible_at == until
    world.place(other, "n2")
    world.ended(other, "n2", seq=1)
    assert (world[number].waits_for, world[number].eligible_at) == ((), until)


def test_a_start_that_has_been_is_met_at_submission_with_its_delay() -> None:
    world = World()
    first = world.running("n1")
    number = world.submit(depends_on=((Dependency(number=first, condition=AFTER, delay_s=5),),))
    assert world[number].waits_for == ()
    assert world[number].eligible_at == world[first].started_at + 5_000


@pytest.mark.parametrize(("ending", "state"), [(Ending.COMPLETED, "Pending"), (Ending.FAILED, "Cancelled")])
def test_what_left_the_hot_state_is_judged_by_what_the_command_brings(ending: Ending, state: str) -> None:
    world = World()
    number = world.submit(depends_on=((Dependency(number=900),),), ended=(EndedWork(number=900, ending=ending),))
    assert world[number].state == state
    assert world[number].waits_for in ((), ((),))


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        (((1, S),), "a1 was to end with success, it failed"),
        (((1, ANY), (1, S)), "a1 was to end with success, it failed"),
        (((900, S),), "what it depends on had ended otherwise before"),
    ],
)
def test_who_comes_too_late_is_told_what_had_ended_otherwise(
    clauses: tuple[tuple[int, Condition], ...], message: str
) -> None:
    world = World()
    ended(world, world.submit(), code=1)
    number = world.submit(**needs(*clauses), ended=(EndedWork(number=900, ending=Ending.FAILED),))
    assert (world[number].cause, world[number].message) == (Cause.DEPENDENCY, message)


def test_an_unknown_predecessor_is_refused() -> None:
    world = World()
    refused = world.refused(world.submission(**needs((77, S))))
    assert (refused.code, refused.requested) == ("not_found", "a77:success")


def test_the_same_request_is_the_same_whatever_was_looked_up_for_it() -> None:
    world = World()
    first = world.submit()
    ended(world, first)
    command = world.submission(**needs((first, S)))
    number = world.do(command, command_id="x")
    repeated = world.do(replace(command, ended=(EndedWork(number=first, ending=Ending.COMPLETED),)), command_id="x")
    assert isinstance(number, Accepted)
    assert repeated == Accepted(number=number.number, repeated=True)


def test_a_requeued_predecessor_is_waited_for_again() -> None:
    world = World()
    first = world.running("n1")
    number = world.submit(**needs((first, ANY)))
    world.must(cmd.RequeueAllocation(number=first))
    world.ended(first, "n1", stopped=True)
    assert world[first].state is AllocationState.PENDING
    assert world[number].waits_for
    ended(world, first)
    assert world[number].waits_for == ()


def test_a_mutex_makes_each_wait_for_the_one_before_it() -> None:
    world = World()
    a, b, c = (world.submit(mutex="m") for _ in range(3))
    other = world.submit(mutex="m", user="bob")
    assert [bool(world[n].waits_for) for n in (a, b, c, other)] == [False, True, True, False]
    world.must(cmd.CancelAllocation(number=b))
    assert world[c].waits_for == ((Dependency(number=a, condition=Condition.MUTEX),),)
    ended(world, a, code=1)
    assert world[c].waits_for == ()
    world.must(cmd.CancelAllocation(number=c))
    assert not world[world.submit(mutex="m")].waits_for


def test_a_group_under_a_mutex_counts_once_and_runs_one_task_at_a_time() -> None:
    world = World()
    group = world.submit(mutex="m", tasks=((0, 1, 1),))
    after = world.submit(mutex="m")
    assert world.state.groups[group].concurrency == 1
    refused = world.refused(cmd.UpdateAllocation(number=group, concurrency=0))
    assert (refused.code, refused.requested, refused.limit) == ("conflict", "2 tasks at once", "1 task at once")
    world.must(cmd.UpdateAllocation(number=group, concurrency=1))
    for task in (group + 1, group + 2):
        assert world[after].waits_for
        ended(world, task)
    assert world[after].waits_for == ()


def test_a_group_is_waited_for_as_a_whole() -> None:
    for codes, expected in (((0, 0), "Pending"), ((0, 1), "Cancelled")):
        world = World()
        group = world.submit(tasks=((0, 1, 1),))
        number = world.submit(**needs((group, S)))
        for task, code in zip((group + 1, group + 2), codes, strict=True):
            assert world[number].waits_for
            ended(world, task, code=code)
        assert world[number].state == expected


def test_a_group_may_wait_for_a_whole_group() -> None:
    world = World()
    first = world.submit(tasks=((0, 1, 1),))
    second = world.submit(tasks=((0, 1, 1),), **needs((first, S)))
    ended(world, first + 1)
    assert world.state.groups[second].startable == ()
    ended(world, first + 2)
    assert world.state.groups[second].startable == ((0, 2),)


def test_a_group_has_started_when_all_its_tasks_have() -> None:
    world = World()
    group = world.submit(tasks=((0, 1, 1),))
    number = world.submit(**needs((group, AFTER)))
    world.place(group + 1, "n1")
    world.started(group + 1, "n1")
    assert world[number].waits_for
    world.place(group + 2, "n2")
    world.started(group + 2, "n2")
    assert world[number].waits_for == ()


def test_a_delay_after_a_group_counts_from_the_start_of_its_last_task() -> None:
    world = World()
    group = world.submit(tasks=((0, 1, 1),))
    later = {"depends_on": ((Dependency(number=group, condition=AFTER, delay_s=60),),)}
    number = world.submit(**later)
    for place in (1, 2):
        world.place(group + place, f"n{place}")
        world.started(group + place, f"n{place}")
    assert world[number].eligible_at == world[group + 2].started_at + 60_000
    assert world[world.submit(**later)].eligible_at == world[number].eligible_at
    for place in (1, 2):
        world.ended(group + place, f"n{place}")
    assert world[world.submit(**later)].eligible_at == world.state.groups[group].started_at + 60_000


def test_a_delay_after_what_is_archived_has_passed() -> None:
    world = World()
    gone = (EndedWork(number=900, ending=Ending.COMPLETED),)
    number = world.submit(depends_on=((Dependency(number=900, condition=AFTER, delay_s=5),),), ended=gone)
    assert (world[number].waits_for, world[number].eligible_at) == ((), 0)


def test_a_single_task_can_be_waited_for() -> None:
    world = World()
    group = world.submit(tasks=((0, 2, 1),))
    second, third = (world.submit(**needs((group + place, S))) for place in (2, 3))
    ended(world, group + 2)
    assert world[second].waits_for == ()
    world.must(cmd.CancelAllocation(number=group))
    assert world[third].state is AllocationState.CANCELLED


def test_a_group_that_waits_is_released_or_given_up_together() -> None:
    for code in (0, 1):
        world = World()
        first = world.submit()
        group = world.submit(tasks=((0, 9, 1),), **needs((first, S)))
        assert world.state.groups[group].startable == ()
        assert world.refused(cmd.PlaceAllocation(number=group + 1, run=1, shares=())).code == "stale"
        ended(world, first, code=code)
        after = world.state.groups[group]
        assert after.startable == (((0, 10),) if code == 0 else ())
        assert after.is_done == (code == 1)
        assert after.cancelled == (10 if code else 0)


def test_a_task_that_became_a_record_while_its_group_waited_waits_by_itself() -> None:
    world = World()
    first = world.submit()
    group = world.submit(tasks=((0, 2, 1),), **needs((first, S)))
    world.must(cmd.HoldAllocation(number=group + 1, hold=Hold.USER))
    assert world[group + 1].waits_for
    ended(world, first)
    assert world[group + 1].waits_for == ()
    assert world.state.groups[group].startable == ((1, 3),)


def test_a_group_all_of_whose_waiting_tasks_are_records_is_given_up_one_by_one() -> None:
    world = World()
    first = world.submit()
    group = world.submit(tasks=((0, 0, 1),), **needs((first, S)))
    world.must(cmd.HoldAllocation(number=group + 1, hold=Hold.USER))
    ended(world, first, code=1)
    assert world[group + 1].cause is Cause.DEPENDENCY
    assert world.state.groups[group].is_done


# task by task


def test_corresponding_tasks_follow_one_another() -> None:
    world = World()
    first = world.submit(tasks=((0, 4, 1),))
    second = world.submit(tasks=((0, 6, 1),), **needs((first, CORR)))
    assert world.state.groups[second].startable == ((5, 7),)
    ended(world, first + 3)
    assert world.state.groups[second].startable == ((2, 3), (5, 7))
    ended(world, first + 1, code=1)
    after = world.state.groups[second]
    assert after.given_up_at(0) is not None
    assert after.startable == ((2, 3), (5, 7))
    world.must(cmd.CancelAllocation(number=first))
    assert world.state.groups[second].blocked == ()
    assert world.state.groups[second].cancelled == 4
    assert not any(wait.blocked for wait in world.state.groups[second].task_waits)


def test_corresponding_goes_by_index_not_by_position() -> None:
    world = World()
    first = world.submit(tasks=((0, 8, 2),))
    second = world.submit(tasks=((3, 6, 1),), **needs((first, CORR)))
    assert world.state.groups[second].startable == ((0, 1), (2, 3))  # 3 and 5 have no counterpart
    ended(world, first + 1 + 2)  # index 4
    assert world.state.groups[second].startable == ((0, 3),)
    assert world.state.groups[second].waits_at(3) == ((Dependency(number=first + 1 + 3),),)
    assert world.state.groups[second].waits_at(1) == ()


def test_what_ended_before_the_successor_came_counts() -> None:
    world = World()
    first = world.submit(tasks=((0, 3, 1),))
    ended(world, first + 1)
    ended(world, first + 2, code=1)
    world.must(cmd.CancelAllocation(number=first + 3))
    second = world.submit(tasks=((0, 3, 1),), **needs((first, CORR)))
    after = world.state.groups[second]
    assert after.startable == ((0, 1),)
    assert [after.given_up_at(place) is not None for place in range(4)] == [False, True, True, False]


def test_a_blocked_task_that_became_a_record_follows_its_counterpart() -> None:
    world = World()
    first = world.submit(tasks=((0, 1, 1),))
    second = world.submit(tasks=((0, 1, 1),), **needs((first, CORR)))
    for number in (second + 1, second + 2):
        world.must(cmd.HoldAllocation(number=number, hold=Hold.USER))
    ended(world, first + 1)
    assert world[second + 1].waits_for == ()
    ended(world, first + 2, code=1)
    assert world[second + 2].state is AllocationState.CANCELLED


def test_tasks_that_are_told_to_stay_stay_blocked() -> None:
    world = World()
    first = world.submit(tasks=((0, 1, 1),))
    second = world.submit(tasks=((0, 1, 1),), keep_on_invalid_dependency=True, **needs((first, CORR)))
    ended(world, first + 1, code=1)
    assert world.state.groups[second].blocked == ((0, 2),)
    assert not world.state.groups[second].given_up


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_task_that_waits_in_vain_does_so_as_a_record_too(is_archived: bool) -> None:
    world = World()
    first = world.submit(tasks=((0, 1, 1),))
    keep = {"keep_on_invalid_dependency": True}
    second = world.submit(tasks=((0, 1, 1),), **keep, **needs((first, CORR)))
    ended(world, first + 1, code=1)
    ended(world, first + 2)
    if is_archived:
        world.must(cmd.FoldTasks(numbers=(first + 1, first + 2)))
        world.must(cmd.ArchiveAllocations(numbers=(first,)))
    world.must(cmd.HoldAllocation(number=second + 1, hold=Hold.USER))
    assert world[second + 1].waits_for == ((),)
    assert world[second + 1].state is AllocationState.PENDING


def test_tasks_of_an_archived_group_are_followed_one_by_one() -> None:
    world = World()
    gone = EndedWork(number=900, ending=Ending.FAILED, indices=((0, 3, 1),), completed=((0, 1), (2, 3)))
    group = world.submit(tasks=((0, 5, 1),), **needs((900, CORR)), ended=(gone,))
    after = world.state.groups[group]
    assert after.startable == ((0, 1), (2, 3), (4, 6))
    assert [(each.start, each.stop, each.cause) for each in after.given_up] == [
        (1, 2, Cause.DEPENDENCY),
        (3, 4, Cause.DEPENDENCY),
    ]


def test_groups_of_very_many_ranges_correspond_as_well() -> None:
    world = World()
    scattered = tuple((3 * place, 3 * place, 1) for place in range(100))
    first = world.submit(tasks=scattered)
    ended(world, first + 1)
    ended(world, first + 2, code=1)
    second = world.submit(tasks=tuple(reversed(scattered)), **needs((first, CORR)))
    assert world.state.groups[second].blocked == ((0, 98),)
    assert world.state.groups[second].startable == ((99, 100),)
    ended(world, first + 3)
    assert world.state.groups[second].startable == ((97, 98), (99, 100))
    strange = world.submit(
        tasks=tuple((3 * place + 1, 3 * place + 1, 1) for place in range(100)), **needs((first, CORR))
    )
    assert world.state.groups[strange].startable == ((0, 100),)
    mixed = world.submit(tasks=(*scattered[50:], (1, 1, 1)), **needs((first, CORR)))
    ended(world, first + 4)
    assert world.state.groups[mixed].startable == ((50, 51),)


def test_two_groups_and_a_whole_one_may_be_waited_for_at_once() -> None:
    world = World()
    one, two = world.submit(tasks=((0, 1, 1),)), world.submit(tasks=((0, 1, 1),))
    alone = world.submit()
    number = world.submit(tasks=((0, 1, 1),), **needs((one, CORR), (two, CORR), (alone, S)))
    ended(world, one + 1)
    ended(world, two + 1)
    assert world.state.groups[number].startable == ()
    ended(world, alone)
    assert world.state.groups[number].startable == ((0, 1),)
    ended(world, two + 2, code=1)
    assert world.state.groups[number].given_up_at(1) is not None


def test_corresponding_stands_alone_in_its_clause() -> None:
    world = World()
    group = world.submit(tasks=((0, 1, 1),))
    clause = (Dependency(number=group, condition=CORR), Dependency(number=group, condition=ANY))
    refused = world.refused(world.submission(tasks=((0, 1, 1),), depends_on=(clause,)))
    assert "cannot be one of several alternatives" in refused.message


def test_corresponding_to_a_single_allocation_means_its_success() -> None:
    world = World()
    first = world.submit()
    group = world.submit(tasks=((0, 1, 1),), **needs((first, CORR)))
    ended(world, first)
    assert world.state.groups[group].startable == ((0, 2),)


def test_a_hundred_thousand_tasks_stay_two_records() -> None:
    world = World()
    first = world.submit(tasks=((0, 99_999, 1),))
    second = world.submit(tasks=((0, 99_999, 1),), **needs((first, CORR)))
    ended(world, first + 50_000)
    assert world.state.groups[second].startable == ((49_999, 50_000),)
    assert len(world.state.allocations) == 1
    world.must(cmd.CancelAllocation(number=first))
    assert world.state.groups[second].cancelled == 99_999


def test_indexes_survive_a_snapshot() -> None:
    world = World()
    first = world.submit(mutex="m")
    world.submit(mutex="m", **needs((first, S)))
    group = world.submit(tasks=((0, 3, 1),))
    world.submit(tasks=((0, 3, 1),), **needs((group, CORR)))
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.dependencies.dependents == world.state.dependencies.dependents
    assert loaded.dependencies.mutexes == world.state.dependencies.mutexes
    command = cmd.CancelAllocation(number=first)
    for state in (loaded, world.state):
        apply(state, cmd.Envelope(at=world.at + 1, command=command))
    assert loaded.digest() == world.state.digest()


def test_a_group_that_was_skipped_did_not_fail() -> None:
    world = World()
    first = world.submit()
    skipped = world.submit(tasks=((0, 1, 1),), **needs((first, S)))
    handler = world.submit(**needs((skipped, F)))
    ended(world, first, code=1)
    assert world[handler].state is AllocationState.CANCELLED
    cancelled = world.submit(tasks=((0, 1, 1),))
    handler = world.submit(**needs((cancelled, F)))
    world.must(cmd.CancelAllocation(number=cancelled))
    assert (world[handler].state, world[handler].waits_for) == (AllocationState.PENDING, ())
