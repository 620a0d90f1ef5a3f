"""A prologue that fails is the node's trouble: tried elsewhere, a few times, and counted for nothing."""

from lattice.core.machine import commands as cmd
from lattice.core.model.work.allocations import AllocationState, Cause, Request, RequeuePolicy
from tests.unit.core.machine.world import World


def fail(world: World, number: int, node: str, seq: int = 1) -> None:
    world.ended(number, node, seq=seq, cause=Cause.LAUNCH, prologue_failed=True, message="no scratch")


def test_it_is_tried_on_other_nodes_whatever_the_policy() -> None:
    world = World()
    number = world.submit(requeue=RequeuePolicy.NEVER)
    world.place(number, "n1")
    fail(world, number, "n1")
    record = world[number]
    assert record.state is AllocationState.PENDING
    assert (record.requeue_count, record.restart_count, record.prologue_failures) == (0, 1, 1)
    assert record.avoided == ("n1",)
    assert record.request.exclude == ("n1",)
    assert "no scratch" in record.message
    world.place(number, "n2")
    world.started(number, "n2")
    assert world[number].prologue_failures == 0


def test_after_three_more_tries_it_has_failed() -> None:
    world = World(nodes=5)
    number = world.submit(requeue=RequeuePolicy.NEVER)
    for node in ("n1", "n2", "n3", "n4"):
        world.place(number, node)
        fail(world, number, node)
    record = world[number]
    assert (record.state, record.cause, record.requeue_count) == (AllocationState.FAILED, Cause.LAUNCH, 0)


def test_a_node_is_tried_again_when_too_few_others_suit() -> None:
    world = World()
    number = world.submit(request=Request(nodes=1, node_list=("n1",)))
    world.place(number, "n1")
    fail(world, number, "n1")
    assert world[number].avoided == ()
    world.place(number, "n1")


def test_the_number_of_tries_is_a_setting() -> None:
    world = World()
    world.must(cmd.SetSetting(key="scheduling.max_prologue_retries", value="0"))
    number = world.submit(requeue=RequeuePolicy.NEVER)
    world.place(number, "n1")
    fail(world, number, "n1")
    assert world[number].state is AllocationState.FAILED


def test_on_several_nodes_the_others_are_stopped_first() -> None:
    world = World()
    number = world.submit(nodes=2, per_node=True)
    world.place(number, "n1", "n2")
    fail(world, number, "n1")
    assert world[number].state is AllocationState.STOPPING
    world.ended(number, "n2", seq=1, stopped=True)
    assert world[number].state is AllocationState.PENDING
    assert world[number].avoided == ("n1",)


def test_what_was_cancelled_meanwhile_stays_cancelled() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.must(cmd.CancelAllocation(number=number))
    fail(world, number, "n1")
    assert world[number].state is AllocationState.CANCELLED


def test_a_node_that_could_not_start_it_is_named() -> None:
    world = World()
    number = world.submit(requeue=RequeuePolicy.NEVER)
    world.place(number, "n1")
    world.ended(number, "n1", seq=1, cause=Cause.NODE, prologue_failed=True, message="no space left")
    assert world[number].message == "requeued: node n1 could not start it: no space left"
    assert world[number].avoided == ("n1",)
