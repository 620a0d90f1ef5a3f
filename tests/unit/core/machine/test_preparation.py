"""Nodes that run no entrypoint are prepared before the work runs, and cleared before they are given back."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, Request, RequeuePolicy, StopIntent
from tests.unit.core.machine.world import World


def world(level: int = NEWEST) -> World:
    """n1 to n3 are plain, p1 and p2 have programs of their site."""
    made = World(level=level)
    made.add_node("p1", features=("prologue",))
    made.add_node("p2", features=("prologue",))
    return made


def parts(record: Allocation) -> tuple[str, ...]:
    return tuple(part.node for part in record.parts)


def running(world: World, *nodes: str) -> int:
    number = world.submit(nodes=len(nodes))
    world.place(number, *nodes)
    for part in reversed(world[number].parts):
        world.started(number, part.node)
    return number


def test_nodes_that_have_something_to_prepare_get_a_part() -> None:
    here = world()
    number = here.submit(nodes=4)
    here.place(number, "n1", "p1", "n2", "p2")
    assert parts(here[number]) == ("n1", "p1", "p2")
    assert [part.node for part in here[number].launched] == ["n1"]


@pytest.mark.parametrize("feature", ["uenv", "container", "data", "scratch"])
def test_work_that_brings_something_is_prepared_on_every_node(feature: str) -> None:
    here = World(nodes=0)
    for name in ("n1", "n2", "n3"):
        here.add_node(name, features=(feature,))
    number = here.submit(request=Request(nodes=3, features=(feature,)))
    here.place(number, "n1", "n2", "n3")
    assert parts(here[number]) == ("n1", "n2", "n3")


def test_servers_of_the_release_before_see_parts_of_the_entrypoint_alone() -> None:
    here = world(level=OLDEST)
    number = here.submit(nodes=2)
    here.place(number, "p1", "p2")
    assert parts(here[number]) == ("p1",)


def test_it_runs_when_the_last_node_is_prepared() -> None:
    here = world()
    number = here.submit(nodes=2)
    here.place(number, "p1", "p2")
    here.started(number, "p1")
    assert here[number].state is AllocationState.STARTING
    here.started(number, "p2")
    assert here[number].state is AllocationState.RUNNING


def test_its_nodes_are_free_when_the_last_one_is_cleared() -> None:
    here = world()
    number = running(here, "p1", "p2")
    here.ended(number, "p1", elapsed_s=12.0, cpu_s=3.0)
    assert (here[number].state, here[number].intent) == (AllocationState.STOPPING, StopIntent.DONE)
    assert here.node("p1").holders()
    here.ended(number, "p2", stopped=True, elapsed_s=99.0, cpu_s=1.0, peak_memory_mb=70)
    record = here[number]
    assert (record.state, record.cause, record.exit_code, record.message) == (
        AllocationState.COMPLETED,
        Cause.EXIT,
        0,
        "",
    )
    assert (record.cpu_s, record.peak_memory_mb) == (4.0, 70)
    assert not here.node("p1").holders()
    assert not here.node("p2").holders()


def test_the_end_of_the_entrypoint_is_the_end_of_the_work() -> None:
    here = world()
    number = running(here, "p1", "p2")
    here.ended(number, "p1", exit_code=3)
    assert here[number].intent is StopIntent.PART_FAILED
    here.ended(number, "p2", stopped=True)
    assert (here[number].state, here[number].exit_code) == (AllocationState.FAILED, 3)


def test_work_that_is_done_stays_done() -> None:
    here = world()
    number = running(here, "p1", "p2")
    here.ended(number, "p1")
    here.must(cmd.CancelAllocation(number=number))
    here.must(cmd.DegradeNode(node="p2"))
    here.must(cmd.DrainNode(node="p2", urgent=True))
    here.must(cmd.DownNode(node="p2"))
    assert here[number].state is AllocationState.COMPLETED
    assert not here.node("p1").holders()


def test_a_prologue_that_fails_on_another_node_moves_the_work() -> None:
    here = world()
    number = here.submit(nodes=2, requeue=RequeuePolicy.NEVER)
    here.place(number, "n1", "p1")
    here.ended(number, "p1", seq=1, cause=Cause.LAUNCH, prologue_failed=True, message="no licence")
    here.ended(number, "n1", seq=1, stopped=True)
    record = here[number]
    assert (record.state, record.avoided, record.requeue_count) == (AllocationState.PENDING, ("p1",), 0)
    assert "p1: no licence" in record.message


def test_a_lost_node_requeues_it_as_before() -> None:
    here = world()
    number = running(here, "p1", "p2")
    here.must(cmd.DegradeNode(node="p2"))
    here.must(cmd.DownNode(node="p2"))
    here.ended(number, "p1", stopped=True)
    assert (here[number].state, here[number].requeue_count) == (AllocationState.PENDING, 1)


def test_a_run_that_was_not_started_in_time_is_rolled_back_uncounted() -> None:
    here = world()
    number = here.submit(nodes=2)
    here.place(number, "p1", "p2")
    here.started(number, "p2")
    here.must(cmd.RollbackRun(number=number, run=1, node="p1"))
    here.ended(number, "p1", seq=1, stopped=True)
    here.ended(number, "p2", stopped=True, signal=15, cpu_s=0.1)
    assert (here[number].state, here[number].requeue_count) == (AllocationState.PENDING, 0)
