"""Work that runs again when its walltime is over."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import OLDEST
from lattice.core.model.work.allocations import AllocationState, Cause, RequeuePolicy
from tests.unit.core.machine.world import World

A = AllocationState


def test_the_limit_leads_to_another_run_at_once_as_often_as_allowed() -> None:
    world = World()
    number = world.running("n1", requeue=RequeuePolicy.ON_WALLTIME, max_requeue=1)
    world.ended(number, "n1", cause=Cause.WALLTIME)
    record = world[number]
    assert (record.state, record.requeue_count, record.eligible_at) == (A.PENDING, 1, 0)
    world.place(number, "n1")
    world.started(number, "n1")
    world.ended(number, "n1", cause=Cause.WALLTIME, seq=3)
    assert (world[number].state, world[number].cause) == (A.FAILED, Cause.WALLTIME)


@pytest.mark.parametrize(("cause", "state"), [(Cause.EXIT, A.FAILED), (Cause.OOM, A.FAILED)])
def test_what_fails_by_itself_is_not_tried_again(cause: Cause, state: AllocationState) -> None:
    world = World()
    number = world.running("n1", requeue=RequeuePolicy.ON_WALLTIME)
    world.ended(number, "n1", cause=cause, exit_code=1)
    assert world[number].state is state


def test_a_cancel_is_heard_while_it_is_stopped_for_its_limit() -> None:
    world = World()
    number = world.running("n1", requeue=RequeuePolicy.ON_WALLTIME, walltime_s=60)
    world.at += 10_000_000
    world.must(cmd.ExpireAllocation(number=number, run=1))
    world.must(cmd.CancelAllocation(number=number))
    world.ended(number, "n1", stopped=True)
    assert world[number].state is A.CANCELLED


def test_servers_of_the_release_before_do_not_know_it() -> None:
    world = World(level=OLDEST)
    refused = world.refused(world.submission(requeue=RequeuePolicy.ON_WALLTIME))
    assert "lattice admin upgrade finalize" in refused.hint
