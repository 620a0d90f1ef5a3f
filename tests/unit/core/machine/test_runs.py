"""Runs: what reports do, and what an allocation comes to."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.rules.work.runs import BACKOFF_FIRST_MS, MAX_BACKOFF_MS
from lattice.core.model.nodes.nodes import DownCause, NodeState, Share
from lattice.core.model.work.allocations import AllocationState, Cause, PartPhase, RequeuePolicy
from lattice.core.model.work.usage import Usage, total_usage
from tests.unit.core.machine.world import World


def test_what_several_nodes_used_is_added_up_but_for_the_peak() -> None:
    one = Usage(throttled_s=0.5, read_bytes=1, written_bytes=2, peak_pids=3)
    assert total_usage((one, Usage(), one)) == Usage(throttled_s=1.0, read_bytes=2, written_bytes=4, peak_pids=3)


def test_a_run_goes_from_pending_to_completed_and_gives_its_nodes_back() -> None:
    world = World()
    number = world.submit(nodes=2)
    assert world[number].state is AllocationState.PENDING
    world.place(number, "n1", "n2")
    assert (world[number].state, world[number].run) == (AllocationState.STARTING, 1)
    assert [part.node for part in world[number].parts] == ["n1"], "bounded work starts on its first node"
    world.started(number, "n1")
    assert world[number].state is AllocationState.RUNNING
    assert world.node("n2").holder == number
    usage = Usage(throttled_s=0.5, read_bytes=1, written_bytes=2, peak_pids=3)
    world.ended(number, "n1", exit_code=0, cpu_s=1.5, peak_memory_mb=12, usage=usage)
    record = world[number]
    assert (record.state, record.cause, record.exit_code) == (AllocationState.COMPLETED, Cause.EXIT, 0)
    assert (record.cpu_s, record.peak_memory_mb, record.nodes) == (1.5, 12, ("n1", "n2"))
    assert record.usage == usage
    assert world.node("n1").is_free
    assert world.node("n2").is_free


def test_usage_that_was_noted_before_the_end_counts_as_well() -> None:
    world = World()
    number = world.running("n1")
    usage = Usage(read_bytes=1, peak_pids=3)
    world.must(cmd.NoteUsage(number=number, run=1, node="n1", usage=usage))
    world.ended(number, "n1")
    assert world[number].usage == usage


@pytest.mark.parametrize(
    ("report", "cause", "exit_code", "signal"),
    [
        ({"exit_code": 3}, Cause.EXIT, 3, 0),
        ({"cause": Cause.SIGNAL, "signal": 11}, Cause.SIGNAL, None, 11),
        ({"cause": Cause.OOM, "signal": 9}, Cause.OOM, None, 9),
        ({"cause": Cause.WALLTIME, "signal": 15}, Cause.WALLTIME, None, 15),
        ({"cause": Cause.LAUNCH, "message": "no such directory"}, Cause.LAUNCH, None, 0),
        ({"cause": Cause.NODE}, Cause.NODE, None, 0),
    ],
)
def test_each_way_to_fail_has_its_cause(
    report: dict[str, object], cause: Cause, exit_code: int | None, signal: int
) -> None:
    world = World()
    number = world.running("n1", requeue=RequeuePolicy.NEVER)
    world.ended(number, "n1", **report)
    record = world[number]
    assert (record.state, record.cause) == (AllocationState.FAILED, cause)
    assert (record.exit_code, record.signal) == (exit_code, signal)


def test_an_end_may_arrive_before_the_start_was_reported() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.ended(number, "n1", seq=1)
    assert world[number].state is AllocationState.COMPLETED
    assert world[number].started_at == world[number].ended_at


def test_the_nodes_clock_says_how_long_it_ran_however_late_the_report_comes() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.at += 10_000
    started = cmd.ReportPart(number=number, run=1, node="n1", seq=1, phase=PartPhase.RUNNING, elapsed_s=2.0)
    world.must(started)
    started_at = world.at - 2_000
    assert world[number].started_at == started_at
    world.at += 60_000
    world.ended(number, "n1", cause=Cause.WALLTIME, elapsed_s=4.25)
    assert (world[number].started_at, world[number].ended_at) == (started_at, started_at + 4_250)
    (ledger,) = world.state.ledger.values()
    assert ledger.since(0)[0] == 4_250


def test_an_end_without_a_start_began_as_long_before_as_it_took() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.at += 10_000
    world.ended(number, "n1", elapsed_s=3.0)
    assert (world[number].started_at, world[number].ended_at) == (world.at - 3_000, world.at)


@pytest.mark.parametrize("elapsed_s", [-5.0, 1e300, float("nan"), float("inf")])
def test_a_time_that_makes_no_sense_counts_as_none(elapsed_s: float) -> None:
    world = World()
    number = world.running("n1")
    started_at = world[number].started_at
    world.ended(number, "n1", elapsed_s=elapsed_s)
    assert (world[number].started_at, world[number].ended_at) == (started_at, world.at)


def test_a_run_took_no_longer_than_since_its_submission_nor_until_later_than_now() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.ended(number, "n1", elapsed_s=3600.0)
    assert world[number].started_at == world[number].submitted_at
    assert world[number].ended_at == world.at


def test_late_repeated_and_foreign_reports_change_nothing() -> None:
    world = World()
    number = world.running("n1")
    assert world.started(number, "n1", seq=1) == ()
    assert world.started(number, "n2", seq=9) == ()
    assert world.started(number, "n1", run=0, seq=9) == ()
    world.ended(number, "n1")
    digest_before = world[number]
    assert world.ended(number, "n1", run=1, seq=3, exit_code=9) == ()
    assert world[number] is digest_before
    assert world.must(cmd.ReportPart(number=99, run=1, node="n1", seq=1, phase=PartPhase.RUNNING)) == ()


def test_services_start_on_every_node_and_one_failed_part_stops_the_rest() -> None:
    world = World()
    number = world.submit(nodes=2, per_node=True)
    world.place(number, "n1", "n2")
    world.started(number, "n1")
    assert world[number].state is AllocationState.STARTING
    world.started(number, "n2")
    assert world[number].state is AllocationState.RUNNING
    world.ended(number, "n1", exit_code=4)
    assert world[number].state is AllocationState.STOPPING
    assert world.node("n1").holder == number, "nodes are given back together"
    world.ended(number, "n2", stopped=True, signal=15)
    assert (world[number].state, world[number].exit_code) == (AllocationState.FAILED, 4)


def test_a_part_that_ends_well_leaves_the_others_alone() -> None:
    world = World()
    number = world.submit(nodes=2, per_node=True)
    world.place(number, "n1", "n2")
    world.started(number, "n1")
    world.ended(number, "n1")
    assert world[number].state is AllocationState.STARTING
    world.started(number, "n2")
    assert world[number].state is AllocationState.RUNNING
    world.ended(number, "n2")
    assert world[number].state is AllocationState.COMPLETED


def test_a_lost_node_requeues_once_and_clears_the_run() -> None:
    world = World()
    number = world.running("n1")
    submitted = world[number].submitted_at
    world.must(cmd.DegradeNode(node="n1"))
    assert world[number].state is AllocationState.RUNNING
    world.must(cmd.DownNode(node="n1"))
    record = world[number]
    assert (record.state, record.requeue_count, record.restart_count) == (AllocationState.PENDING, 1, 1)
    assert (record.submitted_at, record.started_at, record.shares, record.parts) == (submitted, 0, (), ())
    assert world.ended(number, "n1", run=1, seq=5) == (), "the old run no longer counts"
    world.place(number, "n2")
    assert world[number].run == 2


def test_requeues_end_at_the_limit() -> None:
    world = World(nodes=2)
    number = world.running("n1", max_requeue=1)
    world.must(cmd.DownNode(node="n1", cause=DownCause.HARDWARE, reason="fan"))
    world.place(number, "n2")
    world.must(cmd.DownNode(node="n2", cause=DownCause.HARDWARE, reason="fan"))
    assert (world[number].state, world[number].cause) == (AllocationState.FAILED, Cause.NODE)
    assert world[number].requeue_count == 1


def test_never_means_never() -> None:
    world = World()
    number = world.running("n1", requeue=RequeuePolicy.NEVER)
    world.must(cmd.DownNode(node="n1", cause=DownCause.HARDWARE))
    assert (world[number].state, world[number].cause) == (AllocationState.FAILED, Cause.NODE)


def test_always_comes_back_more_slowly_each_time() -> None:
    world = World()
    number = world.submit(requeue=RequeuePolicy.ALWAYS, max_requeue=100)
    waits = []
    for _ in range(8):
        world.place(number, "n1")
        world.started(number, "n1")
        world.ended(number, "n1", exit_code=1)
        waits.append(world[number].eligible_at - world.at)
        refusal = world.refused(cmd.PlaceAllocation(number=number, run=world[number].run + 1, shares=_on("n1")))
        assert "not eligible" in refusal.message
        world.at = world[number].eligible_at
    assert waits[:3] == [BACKOFF_FIRST_MS, 2 * BACKOFF_FIRST_MS, 4 * BACKOFF_FIRST_MS]
    assert waits[-1] == MAX_BACKOFF_MS


def test_a_lost_side_node_stops_the_run_on_the_first_before_anything_is_given_back() -> None:
    world = World()
    number = world.running("n1", "n2")
    world.must(cmd.DownNode(node="n2", cause=DownCause.HARDWARE))
    assert world[number].state is AllocationState.STOPPING
    assert world.node("n1").holder == number
    world.ended(number, "n1", stopped=True, signal=15)
    assert (world[number].state, world[number].requeue_count) == (AllocationState.PENDING, 1)
    assert world.node("n1").is_free


def test_a_part_that_the_returning_node_does_not_know_counts_as_lost() -> None:
    world = World()
    number = world.running("n1")
    assert world.must(cmd.LosePart(number=number, run=7, node="n1")) == ()
    world.must(cmd.LosePart(number=number, run=1, node="n1"))
    assert world[number].state is AllocationState.PENDING
    assert world.node("n1").state is NodeState.READY


def test_work_that_a_node_stopped_on_its_own_account_counts_as_lost() -> None:
    world = World()
    number = world.running("n1")
    world.ended(number, "n1", stopped=True, signal=9)
    assert (world[number].state, world[number].requeue_count) == (AllocationState.PENDING, 1)


def test_the_walltime_backstop_fails_the_run_with_its_cause() -> None:
    world = World()
    number = world.running("n1", requeue=RequeuePolicy.NEVER)
    assert world.refused(cmd.ExpireAllocation(number=number, run=4)).code == "stale"
    world.must(cmd.ExpireAllocation(number=number, run=1))
    assert world[number].state is AllocationState.STOPPING
    world.ended(number, "n1", stopped=True, signal=15)
    assert (world[number].state, world[number].cause) == (AllocationState.FAILED, Cause.WALLTIME)


def _rolled_back(world: World, **changes: object) -> int:
    """An allocation on n1 and n2 that n2 did not start in time."""
    number = world.submit(nodes=2, per_node=True, **changes)
    world.place(number, "n1", "n2")
    world.must(cmd.RollbackRun(number=number, run=1, node="n2"))
    assert world[number].state is AllocationState.STOPPING
    return number


def test_a_rolled_back_run_that_never_ran_waits_again_and_is_not_counted() -> None:
    world = World()
    number = _rolled_back(world, requeue=RequeuePolicy.NEVER)
    world.ended(number, "n1", stopped=True)
    assert world.node("n1").holder == number, "nodes are given back when every part has ended"
    world.ended(number, "n2", stopped=True)
    record = world[number]
    assert (record.state, record.requeue_count, record.restart_count) == (AllocationState.PENDING, 0, 1)
    assert record.message == "requeued: node n2 did not start it in time"
    assert world.node("n1").is_free


@pytest.mark.parametrize(
    ("policy", "state", "cause"),
    [
        (RequeuePolicy.NEVER, AllocationState.FAILED, Cause.NODE),
        (RequeuePolicy.ON_NODE_FAILURE, AllocationState.PENDING, None),
    ],
)
def test_a_rolled_back_run_that_ran_somewhere_follows_the_policy_for_lost_nodes(
    policy: RequeuePolicy, state: AllocationState, cause: Cause | None
) -> None:
    world = World()
    number = _rolled_back(world, requeue=policy)
    world.ended(number, "n1", stopped=True, cpu_s=0.001)
    world.ended(number, "n2", stopped=True)
    assert (world[number].state, world[number].cause) == (state, cause)
    assert world[number].requeue_count == (state is AllocationState.PENDING)


@pytest.mark.parametrize(
    ("report", "state", "cause"),
    [
        ({"exit_code": 0}, AllocationState.COMPLETED, Cause.EXIT),
        ({"exit_code": 3}, AllocationState.FAILED, Cause.EXIT),
        ({"cause": Cause.LAUNCH}, AllocationState.FAILED, Cause.LAUNCH),
    ],
)
def test_work_that_ended_by_itself_before_its_rollback_keeps_its_end(
    report: dict[str, object], state: AllocationState, cause: Cause
) -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.must(cmd.RollbackRun(number=number, run=1, node="n1"))
    world.ended(number, "n1", **report)
    assert (world[number].state, world[number].cause) == (state, cause)


def test_a_node_that_is_lost_during_a_rollback_counts_as_lost() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    world.must(cmd.RollbackRun(number=number, run=1, node="n1"))
    world.must(cmd.DownNode(node="n1", cause=DownCause.HARDWARE))
    assert (world[number].state, world[number].requeue_count) == (AllocationState.PENDING, 1)


def test_a_rollback_that_comes_too_late_is_refused() -> None:
    world = World()
    number = world.submit()
    world.place(number, "n1")
    assert world.refused(cmd.RollbackRun(number=99, run=1, node="n1")).code == "stale"
    assert world.refused(cmd.RollbackRun(number=number, run=2, node="n1")).code == "stale"
    assert world.refused(cmd.RollbackRun(number=number, run=1, node="n2")).code == "stale"
    world.started(number, "n1")
    assert world.refused(cmd.RollbackRun(number=number, run=1, node="n1")).code == "stale"


def test_an_end_empties_a_draining_node() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.DrainNode(node="n1", reason="fan"), actor="op")
    assert world.node("n1").state is NodeState.DRAINING
    events = world.ended(number, "n1")
    assert isinstance(events[-1], ev.NodeMoved)
    node = world.node("n1")
    assert (node.state, node.reason, node.reason_by) == (NodeState.DRAINED, "fan", "op")


def _on(*nodes: str) -> tuple[Share, ...]:
    return tuple(Share(node=node) for node in nodes)


def test_what_a_foreign_repeated_or_late_report_says_was_used_changes_nothing() -> None:
    world = World()
    number = world.running("n1")
    usage = Usage(read_bytes=7)
    assert world.must(cmd.NoteUsage(number=number, run=1, node="n2", usage=usage)) == ()
    assert world.must(cmd.NoteUsage(number=number, run=9, node="n1", usage=usage)) == ()
    assert world.must(cmd.NoteUsage(number=99, run=1, node="n1", usage=usage)) == ()
    assert len(world.must(cmd.NoteUsage(number=number, run=1, node="n1", usage=usage))) == 1
    assert world.must(cmd.NoteUsage(number=number, run=1, node="n1", usage=usage)) == ()
    world.ended(number, "n1")
    assert world.must(cmd.NoteUsage(number=number, run=1, node="n1", usage=Usage())) == ()
