"""Deadlines: what can no longer keep them is ended, what can is left alone."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.rules.work.deadlines import due_at
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import AllocationState, Cause, Hold, RequeuePolicy
from tests.unit.core.machine.world import World

HOUR_MS = 3_600_000


def test_what_waits_is_ended_when_its_walltime_no_longer_fits() -> None:
    world = World()
    number = world.submit(walltime_s=60, deadline_at=world.at + 100_000)
    assert world.refused(cmd.EnforceDeadline(number=number)).code == "stale"
    world.at = due_at(world[number])
    placed = cmd.PlaceAllocation(number=number, run=1, shares=(Share(node="n1"),))
    assert world.refused(placed).message == f"a{number} could not end before its deadline"
    world.must(cmd.EnforceDeadline(number=number))
    assert (world[number].state, world[number].cause) == (AllocationState.FAILED, Cause.DEADLINE)
    assert due_at(world[number]) == 0
    assert world.refused(cmd.EnforceDeadline(number=number)).code == "stale"


def test_what_runs_is_stopped_at_the_deadline_and_not_requeued() -> None:
    world = World()
    number = world.running("n1", deadline_at=world.at + 2 * HOUR_MS, requeue=RequeuePolicy.ALWAYS)
    assert world.refused(cmd.EnforceDeadline(number=number)).code == "stale"
    world.at += 2 * HOUR_MS
    world.must(cmd.EnforceDeadline(number=number))
    assert world[number].state is AllocationState.STOPPING
    assert world.refused(cmd.EnforceDeadline(number=number)).code == "stale"
    world.ended(number, "n1", stopped=True)
    assert (world[number].state, world[number].cause) == (AllocationState.FAILED, Cause.DEADLINE)


def test_what_is_being_stopped_for_another_reason_is_left_to_that() -> None:
    world = World()
    number = world.running("n1", deadline_at=world.at + 2 * HOUR_MS)
    world.must(cmd.CancelAllocation(number=number))
    world.at += 2 * HOUR_MS
    assert world.refused(cmd.EnforceDeadline(number=number)).code == "stale"


@pytest.mark.parametrize(
    ("level", "ends"),
    [(OLDEST, (AllocationState.CANCELLED, Cause.CANCELLED)), (NEWEST, (AllocationState.FAILED, Cause.DEADLINE))],
)
def test_a_cancel_after_the_deadline_changes_nothing(level: int, ends: tuple[AllocationState, Cause]) -> None:
    """It has failed; that its user gave it up meanwhile does not make it look as if it could have been in time."""
    world = World(level=level)
    number = world.running("n1", deadline_at=world.at + 2 * HOUR_MS)
    world.at += 2 * HOUR_MS
    world.must(cmd.EnforceDeadline(number=number))
    world.must(cmd.CancelAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert (world[number].state, world[number].cause) == ends


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        (RequeuePolicy.ON_NODE_FAILURE, (AllocationState.FAILED, Cause.WALLTIME)),
        (RequeuePolicy.ALWAYS, (AllocationState.CANCELLED, Cause.CANCELLED)),
    ],
)
def test_a_cancel_after_the_walltime_only_keeps_it_from_running_again(
    policy: RequeuePolicy, ends: tuple[AllocationState, Cause]
) -> None:
    world = World()
    number = world.running("n1", requeue=policy)
    world.must(cmd.ExpireAllocation(number=number, run=1))
    world.must(cmd.CancelAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert (world[number].state, world[number].cause) == ends


def test_a_group_is_ended_task_by_task_and_together() -> None:
    world = World()
    group = world.submit(tasks=((0, 4, 1),), walltime_s=60, deadline_at=world.at + 100_000)
    world.place(group + 1, "n1")
    world.started(group + 1, "n1")
    world.must(cmd.HoldAllocation(number=group + 2, hold=Hold.USER))
    world.at += 50_000
    world.must(cmd.EnforceDeadline(number=group))
    after = world.state.groups[group]
    assert (after.failed, after.cancelled, after.live, after.cause) == (4, 0, 1, Cause.DEADLINE)
    given_up = world.state.find(group + 3)
    assert given_up is not None
    assert (given_up.state, given_up.cause) == (AllocationState.FAILED, Cause.DEADLINE)
    assert world.refused(cmd.EnforceDeadline(number=group)).code == "stale"
    world.ended(group + 1, "n1")
    assert world.state.groups[group].is_done


def test_a_deadline_that_cannot_be_kept_is_refused() -> None:
    world = World()
    refused = world.refused(world.submission(walltime_s=7200, deadline_at=world.at + HOUR_MS))
    assert refused.message == "the deadline comes before the allocation could end"
    assert refused.requested == "a walltime of 02:00:00"
    late = world.refused(
        world.submission(walltime_s=60, eligible_at=world.at + HOUR_MS, deadline_at=world.at + HOUR_MS)
    )
    assert late.current == "00:00:00 until the deadline"


def test_an_unknown_number_is_stale() -> None:
    assert World().refused(cmd.EnforceDeadline(number=9)).code == "stale"
