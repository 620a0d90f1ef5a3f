"""Runs that are stopped for their nodes: evictions, urgent drains and requeues ask for a checkpoint first."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.folds.checkpoints import after_run
from lattice.core.model.nodes.nodes import NodeState, Share
from lattice.core.model.site.tenants import Demands, Lending, Lends, Vcluster
from lattice.core.model.work.allocations import AllocationState, Cause, Hold, RequeuePolicy, StopIntent
from lattice.core.model.work.checkpoints import CheckpointPhase, CheckpointReason, CheckpointWay
from lattice.core.model.work.evictions import (
    EvictionReason,
    Limits,
    Protection,
    VictimPhase,
    checkpoint_ms,
    cost_of,
    protection,
)
from tests.unit.core.machine.world import World

HOUR = 3_600_000
WAY = CheckpointWay()
A, P, V = AllocationState, CheckpointPhase, VictimPhase


def world_with_root(nodes: int = 3) -> World:
    world = World(nodes=nodes)
    world.must(cmd.SetSetting(key="checkpoint.root", value="/ck"))
    return world


def victim(world: World, *nodes: str, **fields: object) -> int:
    """Work of class 3 with checkpoints that has run for an hour on these nodes."""
    usual = {"preemption_class": 3, "walltime_s": 4 * 3600, "checkpoint": WAY}
    number = world.running(*nodes, **{**usual, **fields})
    world.at += HOUR
    return number


def eviction(high: int, *victims: int, nodes: tuple[str, ...] = ("n1",), **fields: object) -> cmd.EvictAllocations:
    shares = tuple(Share(node=node) for node in nodes)
    return cmd.EvictAllocations(number=high, run=1, victims=tuple((n, 1) for n in victims), shares=shares, **fields)  # type: ignore[arg-type]


def say(world: World, number: int, phase: CheckpointPhase, node: str = "n1", **more: object) -> tuple[ev.AnyEvent, ...]:
    record = world[number]
    fields = {"run": record.run, "n": record.checkpoints.last_n, **more}
    return world.must(cmd.ReportCheckpoint(number=number, node=node, phase=phase, **fields))  # type: ignore[arg-type]


def write(world: World, number: int, node: str = "n1") -> None:
    say(world, number, P.DONE, node, elapsed_s=20.0)
    say(world, number, P.SEALED, node)


def stop(world: World, number: int, node: str = "n1") -> None:
    world.ended(number, node, stopped=True, cause=Cause.SIGNAL, signal=15)


def phases(world: World, high: int) -> list[VictimPhase]:
    return [each.phase for each in world.state.evictions.records[high].victims]


def test_a_victim_writes_a_checkpoint_is_stopped_and_suspended_and_placed_again() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    submitted_at = world[low].submitted_at
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    opened = world[low].checkpoints.open
    assert opened is not None
    assert (opened.reason, opened.stops, phases(world, high)) == (CheckpointReason.PREEMPTION, True, [V.CHECKPOINTING])
    assert world[low].state is A.CHECKPOINTING
    say(world, low, P.DONE)
    assert world[low].state is A.CHECKPOINTING
    say(world, low, P.SEALED)
    assert (world[low].state, world[low].intent, phases(world, high)) == (A.STOPPING, StopIntent.PREEMPT, [V.STOPPING])
    assert world.refused(cmd.PlaceAllocation(number=high, run=1, shares=(Share(node="n1"),))).code == "stale"
    stop(world, low)
    record = world[low]
    assert (record.state, record.preempted, record.requeue_count) == (A.SUSPENDED, 1, 0)
    assert record.submitted_at == submitted_at
    assert (record.shares, record.is_waiting, record.is_queued) == ((), True, True)
    assert record.message == "preempted: work of class 9 needs its nodes"
    assert [(run.run, run.nodes, run.ended_at > run.started_at > 0) for run in record.taken] == [(1, ("n1",), True)]
    world.place(high, "n1")
    world.place(low, "n2")
    assert world[low].state is A.STARTING
    assert world[low].checkpoints.resume_path.endswith("/1")


@pytest.mark.parametrize("phase", [P.FAILED, P.NOTHING])
def test_a_victim_whose_checkpoint_fails_is_stopped_all_the_same_and_pending(phase: CheckpointPhase) -> None:
    world = world_with_root()
    low = victim(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    say(world, low, phase)
    assert (world[low].state, phases(world, high)) == (A.STOPPING, [V.STOPPING])
    stop(world, low)
    assert (world[low].state, world[low].preempted) == (A.PENDING, 1)


def test_one_that_no_node_answers_is_given_up_and_stopped() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.ExpireCheckpoint(number=low, n=1, message="nothing was heard"))
    assert (world[low].state, world[low].intent) == (A.STOPPING, StopIntent.PREEMPT)


def test_a_failed_checkpoint_leaves_the_last_complete_one() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    world.must(cmd.RequestCheckpoint(number=low))
    write(world, low)
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    say(world, low, P.FAILED)
    stop(world, low)
    assert (world[low].state, world[low].checkpoints.resume_path[-2:]) == (A.SUSPENDED, "/1")


def test_victims_write_side_by_side_and_the_record_tells_them_apart() -> None:
    world = world_with_root()
    first, second = victim(world, "n1"), victim(world, "n2", checkpoint=None)
    high = world.submit(preemption_class=9, nodes=2, walltime_s=24 * 3600)
    world.must(eviction(high, first, second, nodes=("n1", "n2")))
    assert phases(world, high) == [V.CHECKPOINTING, V.STOPPING]
    stop(world, second, "n2")
    assert (phases(world, high), world[second].state) == ([V.CHECKPOINTING, V.GONE], A.PENDING)
    assert world.refused(cmd.PlaceAllocation(number=second, run=2, shares=(Share(node="n2"),))).code == "stale"
    write(world, first)
    stop(world, first)
    assert world.state.evictions.records[high].freed_at
    world.place(high, "n1", "n2")


def test_a_victim_that_is_not_wanted_any_more_runs_on_after_its_checkpoint() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    events = world.must(cmd.CancelAllocation(number=high))
    assert any(isinstance(event, ev.CheckpointRevised) for event in events)
    write(world, low)
    assert (world[low].state, world[low].preempted) == (A.RUNNING, 0)
    assert world[low].checkpoints.newest is not None


def test_a_victim_that_ends_or_is_cancelled_while_it_writes_is_done_with() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.CancelAllocation(number=low))
    assert phases(world, high) == [V.STOPPING]
    write(world, low)
    assert world[low].intent is StopIntent.CANCEL
    stop(world, low)
    assert world[low].state is A.CANCELLED
    world.place(high, "n1")


def test_paused_work_and_a_cluster_without_a_place_are_stopped_at_once() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    world.must(cmd.PauseAllocation(number=low, is_paused=True))
    world.must(eviction(world.submit(preemption_class=9), low))
    assert world[low].state is A.STOPPING
    world = world_with_root()
    low = victim(world, "n1")
    world.must(cmd.SetSetting(key="checkpoint.root", value=""))
    world.must(eviction(world.submit(preemption_class=9), low))
    assert world[low].state is A.STOPPING


def test_work_that_may_never_run_again_ends_after_its_checkpoint() -> None:
    world = world_with_root()
    low = victim(world, "n1", requeue=RequeuePolicy.NEVER)
    world.must(eviction(world.submit(preemption_class=9), low))
    write(world, low)
    stop(world, low)
    assert (world[low].state, world[low].cause) == (A.FAILED, Cause.PREEMPTED)
    assert world[low].checkpoints.newest is not None


def test_class_7_with_checkpoints_is_taken_and_without_is_not() -> None:
    world = world_with_root()
    saved, bare = victim(world, "n1", preemption_class=7), victim(world, "n2", preemption_class=7, checkpoint=None)
    vcluster, limits = world.state.vclusters["batch"], Limits()
    assert protection(world[saved], vcluster, limits, world.at) is None
    assert protection(world[bare], vcluster, limits, world.at) is Protection.NO_CHECKPOINT


def test_a_victim_costs_what_it_did_since_its_last_checkpoint_and_the_next_one() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    assert checkpoint_ms(world[low]) == 0
    assert cost_of(world[low], world.state.nodes, world[low].started_at + HOUR) == 3600
    world.must(cmd.RequestCheckpoint(number=low))
    asked_at = world.at
    write(world, low)
    assert cost_of(world[low], world.state.nodes, asked_at + 60_000) == 80


# nodes that are lent


def lent(world: World) -> tuple[int, int]:
    """Work of another vCluster on n1, and work that waits at the home of n1."""
    lending = Demands(lending=Lending(lends=Lends.IDLE, return_grace_s=60))
    world.must(
        cmd.SetVcluster(
            vcluster=Vcluster(name="home", nodes=("n1",), default_walltime_s=60, demands=lending), create=True
        )
    )
    guest = Vcluster(name="guest", nodes=("n2",), default_walltime_s=60, demands=Demands(lending=Lending(borrows=True)))
    world.must(cmd.SetVcluster(vcluster=guest, create=True))
    low = victim(world, "n1", vcluster="guest")
    return low, world.submit(vcluster="home")


def test_a_borrower_that_has_written_its_checkpoint_goes_before_its_time_is_over() -> None:
    world = world_with_root()
    low, high = lent(world)
    world.must(eviction(high, low, reason=EvictionReason.RECLAIM))
    opened = world[low].checkpoints.open
    assert opened is not None
    assert (phases(world, high), opened.deadline_at - opened.asked_at) == ([V.WARNED], 60_000)
    write(world, low)
    assert (world[low].state, phases(world, high)) == (A.STOPPING, [V.STOPPING])
    stop(world, low)
    assert world[low].state is A.SUSPENDED


def test_a_borrower_whose_checkpoint_fails_keeps_the_rest_of_its_time() -> None:
    world = world_with_root()
    low, high = lent(world)
    world.must(eviction(high, low, reason=EvictionReason.RECLAIM))
    say(world, low, P.FAILED)
    assert (world[low].state, phases(world, high)) == (A.RUNNING, [V.WARNED])
    world.at += 60_000
    world.must(cmd.StopVictims(number=high))
    assert (world[low].state, phases(world, high)) == (A.STOPPING, [V.STOPPING])


def test_a_borrower_that_still_writes_when_its_time_is_over_is_stopped_and_what_it_completes_counts() -> None:
    world = world_with_root()
    low, high = lent(world)
    world.must(eviction(high, low, reason=EvictionReason.RECLAIM))
    world.at += 60_000
    world.must(cmd.StopVictims(number=high))
    assert world[low].state is A.STOPPING
    write(world, low)
    stop(world, low)
    assert world[low].state is A.SUSPENDED


# drains and requeues


def test_an_urgent_drain_asks_first_and_a_second_one_does_not_wait() -> None:
    world = world_with_root()
    first, second = victim(world, "n1"), victim(world, "n2")
    for node in ("n1", "n2"):
        world.must(cmd.DrainNode(node=node, reason="fan", urgent=True))
    assert (world[first].state, world.node("n1").state) == (A.CHECKPOINTING, NodeState.DRAINING)
    write(world, first)
    assert (world[first].state, world[first].intent, world[first].lost_node) == (A.STOPPING, StopIntent.DRAIN, "n1")
    stop(world, first)
    assert (world[first].state, world[first].preempted, world.node("n1").state) == (A.SUSPENDED, 0, NodeState.DRAINED)
    assert world[first].message == "requeued: node n1 was drained urgently: fan"
    world.must(cmd.DrainNode(node="n2", reason="fan", urgent=True))
    assert world[second].state is A.STOPPING
    stop(world, second, "n2")
    assert world[second].state is A.PENDING


def test_a_drain_takes_over_the_checkpoint_of_an_eviction() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    high = world.submit(preemption_class=9)
    world.must(eviction(high, low))
    world.must(cmd.DrainNode(node="n1", reason="fan", urgent=True))
    assert not world.state.evictions.records
    write(world, low)
    assert (world[low].state, world[low].intent) == (A.STOPPING, StopIntent.DRAIN)


def test_a_requeue_may_ask_for_a_checkpoint_as_a_preemption_does() -> None:
    world = world_with_root()
    number = victim(world, "n1")
    world.must(cmd.RequeueAllocation(number=number, checkpoint=True, hold=True))
    assert (world[number].state, world[number].hold) == (A.CHECKPOINTING, Hold.USER)
    write(world, number)
    assert world[number].intent is StopIntent.REQUEUE
    stop(world, number)
    assert (world[number].state, world[number].restart_count, world[number].preempted) == (A.SUSPENDED, 1, 0)
    world.must(cmd.ReleaseAllocation(number=number))
    world.place(number, "n1")
    world.started(number, "n1")
    world.must(cmd.RequeueAllocation(number=number))
    stop(world, number)
    assert world[number].state is A.PENDING


def test_a_requeue_joins_the_checkpoint_that_is_being_written() -> None:
    world = world_with_root()
    number = victim(world, "n1")
    world.must(cmd.RequestCheckpoint(number=number))
    world.must(cmd.RequeueAllocation(number=number, checkpoint=True))
    assert world[number].checkpoints.last_n == 1
    write(world, number)
    assert world[number].intent is StopIntent.REQUEUE


def test_a_requeue_with_a_checkpoint_of_work_that_writes_none_is_refused() -> None:
    world = world_with_root()
    number = victim(world, "n1", checkpoint=None)
    said = world.refused(cmd.RequeueAllocation(number=number, checkpoint=True))
    assert "without --checkpoint" in said.message
    group = world.submit(tasks=((0, 1, 1),))
    world.place(group + 1, "n2")
    assert "without --checkpoint" in world.refused(cmd.RequeueAllocation(number=group, checkpoint=True)).message


def test_tasks_write_their_checkpoints_before_they_are_requeued() -> None:
    world = world_with_root()
    group = world.submit(tasks=((0, 1, 1),), checkpoint=WAY)
    task = group + 1
    world.place(task, "n1")
    world.started(task, "n1")
    world.must(cmd.RequeueAllocation(number=group, positions=((0, 1),), checkpoint=True))
    write(world, task)
    stop(world, task)
    assert world[task].state is A.SUSPENDED
    world.must(cmd.CancelAllocation(number=task))
    assert world[task].state is A.CANCELLED


def test_what_follows_a_checkpoint_is_part_of_a_snapshot() -> None:
    world = world_with_root()
    low = victim(world, "n1")
    world.must(eviction(world.submit(preemption_class=9), low))
    copy = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert copy.digest() == world.state.digest()
    assert copy.allocations[low].checkpoints == world[low].checkpoints


def test_a_run_that_ends_while_it_writes_leaves_an_incomplete_checkpoint() -> None:
    world = world_with_root()
    number = victim(world, "n1", requeue=RequeuePolicy.ALWAYS, max_requeue=3)
    world.must(cmd.RequestCheckpoint(number=number))
    world.ended(number, "n1", cause=Cause.EXIT, exit_code=1)
    known = world[number].checkpoints
    assert (known.open, known.failures, known.newest) == (None, 1, None)
    assert known.failed is not None


def test_work_that_only_starts_is_stopped_at_once_by_an_urgent_drain() -> None:
    world = world_with_root()
    number = world.submit(checkpoint=WAY)
    world.place(number, "n1")
    world.must(cmd.DrainNode(node="n1", reason="fan", urgent=True))
    assert (world[number].state, world[number].checkpoints.open) == (A.STOPPING, None)


def test_the_end_of_a_run_leaves_no_checkpoint_open_whatever_came_before_it() -> None:
    world = world_with_root()
    number = victim(world, "n1")
    world.must(cmd.RequestCheckpoint(number=number))
    left = after_run(world[number], world.at)
    assert (left.open, left.failures, left.newest) == (None, 1, None)
    assert left.failed is not None
