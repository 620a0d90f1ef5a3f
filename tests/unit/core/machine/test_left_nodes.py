"""While results are copied from the node of the entrypoint, the other nodes are given back."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.levels import OLDEST
from lattice.core.model.work.allocations import AllocationState, Cause, PartPhase
from tests.unit.core.machine.world import World

NODES = ("p1", "p2", "p3")


def world() -> World:
    made = World(nodes=1)
    for name in NODES:
        made.add_node(name, features=("prologue",))
    return made


def copying(here: World, **changes: object) -> int:
    """Work on three nodes whose process has ended, and whose node said so."""
    number = here.running(*NODES, **{"stages_out": True, **changes})
    here.must(cmd.LeaveNodes(number=number, run=1, node="p1"))
    return number


def phases(here: World, number: int) -> list[PartPhase]:
    return [part.phase for part in here[number].parts]


def test_the_other_nodes_are_given_back_one_by_one_and_the_work_goes_on() -> None:
    here = world()
    number = copying(here)
    assert phases(here, number) == [PartPhase.RUNNING, PartPhase.LEAVING, PartPhase.LEAVING]
    here.ended(number, "p3", stopped=True, cpu_s=2.0, peak_memory_mb=50)
    assert not here.node("p3").holders()
    assert here.node("p2").holders()
    here.ended(number, "p2", stopped=True, cpu_s=1.0)
    record = here[number]
    assert (record.state, record.nodes, record.message) == (AllocationState.RUNNING, ("p1",), "")
    other = here.running("p2", "p3")
    here.ended(number, "p1", cpu_s=3.0, elapsed_s=10.0)
    done = here[number]
    assert (done.state, done.cause, done.exit_code) == (AllocationState.COMPLETED, Cause.EXIT, 0)
    assert (done.cpu_s, done.peak_memory_mb, done.held_cpus) == (6.0, 50, 12)
    assert (done.nodes, done.released) == (("p1", "p3", "p2"), ())
    assert here[other].is_running


def test_an_entrypoint_that_failed_gives_its_nodes_back_as_well() -> None:
    here = world()
    number = copying(here)
    here.ended(number, "p2", stopped=True)
    here.ended(number, "p1", exit_code=3)
    assert here[number].state is AllocationState.STOPPING
    here.ended(number, "p3", stopped=True)
    assert (here[number].state, here[number].exit_code) == (AllocationState.FAILED, 3)


def test_work_that_is_cancelled_gives_each_node_back_as_it_is_cleared() -> None:
    here = world()
    number = here.running(*NODES, stages_out=True)
    here.must(cmd.CancelAllocation(number=number))
    here.ended(number, "p2", stopped=True)
    assert not here.node("p2").holders()
    assert here[number].state is AllocationState.STOPPING
    here.ended(number, "p1", stopped=True)
    assert here.node("p3").holders()
    here.ended(number, "p3", stopped=True)
    record = here[number]
    assert (record.state, record.nodes) == (AllocationState.CANCELLED, ("p1", "p3", "p2"))


def test_a_node_that_is_lost_when_it_is_not_needed_any_more_fails_nothing() -> None:
    here = world()
    number = copying(here)
    here.must(cmd.DegradeNode(node="p2"))
    here.must(cmd.DownNode(node="p2"))
    here.must(cmd.LosePart(number=number, run=1, node="p3"))
    assert (here[number].state, here[number].nodes) == (AllocationState.RUNNING, ("p1",))
    here.ended(number, "p1")
    assert here[number].state is AllocationState.COMPLETED


def test_when_the_node_that_copies_is_lost_the_work_runs_again_on_as_many_nodes() -> None:
    here = world()
    number = copying(here)
    here.ended(number, "p2", stopped=True)
    here.ended(number, "p3", stopped=True)
    here.must(cmd.DegradeNode(node="p1"))
    here.must(cmd.DownNode(node="p1"))
    record = here[number]
    assert (record.state, record.released, record.request.nodes) == (AllocationState.PENDING, (), 3)


def test_a_drained_node_that_is_not_needed_any_more_leaves_without_ending_the_work() -> None:
    here = world()
    number = copying(here)
    here.must(cmd.DrainNode(node="p2"))
    here.ended(number, "p2", stopped=True)
    assert here[number].state is AllocationState.RUNNING
    assert here.node("p2").state == "Drained"


def test_time_on_a_node_counts_until_it_is_given_back() -> None:
    here = world()
    number = copying(here)
    here.at += 10_000
    here.ended(number, "p2", stopped=True)
    here.ended(number, "p3", stopped=True)
    here.at += 90_000
    here.ended(number, "p1")
    (ledger,) = here.state.ledger.values()
    assert ledger.since(0)[0] / 1000 == pytest.approx(10 + 10 + 100, abs=1)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"stages_out": False}, cmd.LeaveNodes(number=1, run=1, node="p1")),
        ({}, cmd.LeaveNodes(number=1, run=1, node="p2")),
        ({}, cmd.LeaveNodes(number=1, run=2, node="p1")),
        ({}, cmd.LeaveNodes(number=9, run=1, node="p1")),
        ({"per_node": True}, cmd.LeaveNodes(number=1, run=1, node="p1")),
    ],
)
def test_a_foreign_or_late_word_changes_nothing(changes: dict[str, object], word: cmd.LeaveNodes) -> None:
    here = world()
    here.running(*NODES, **{"stages_out": True, **changes})
    assert here.must(word) == ()


def test_a_repeated_word_changes_nothing() -> None:
    here = world()
    number = copying(here)
    assert here.must(cmd.LeaveNodes(number=number, run=1, node="p1")) == ()
    left = here.ended(number, "p2", stopped=True)
    assert [type(event) for event in left] == [ev.NodeLeft]
    assert here.must(cmd.LeaveNodes(number=number, run=1, node="p1")) == ()


def test_servers_of_the_release_before_do_not_read_it() -> None:
    here = World(level=OLDEST)
    assert "level 2" in here.refused(cmd.LeaveNodes(number=1, run=1, node="n1")).message
