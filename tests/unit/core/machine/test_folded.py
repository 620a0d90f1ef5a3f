"""Rows of ended tasks: in snapshots, in copies, and in the order in which lists show them."""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.parts.folded_tasks import FoldedTasks, base_of, ended_tasks
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import AllocationState, Cause, RequeuePolicy
from lattice.core.model.work.efficiency import held_amounts, used_percent
from lattice.core.model.work.usage import Usage
from tests.unit.core.machine.world import World

USAGE = Usage(throttled_s=0.5, read_bytes=1, written_bytes=2, peak_pids=3)


def folded_world() -> tuple[World, int]:
    """A group of ten: 0 and 1 ran and are rows, 2 runs, 5 to 6 are given up, the rest waits."""
    world = World()
    group = world.submit(tasks=((0, 9, 1),), requeue=RequeuePolicy.NEVER)
    for position, report in (
        (0, {"cpu_s": 2.0, "elapsed_s": 4.0, "peak_memory_mb": 64, "usage": USAGE}),
        (1, {"exit_code": 3}),
    ):
        number = group + 1 + position
        world.place(number, "n1")
        world.started(number, "n1")
        world.ended(number, "n1", **report)
    world.place(group + 3, "n2")
    world.must(cmd.CancelAllocation(number=group, positions=((5, 7),)))
    world.must(cmd.FoldTasks(numbers=(group + 1, group + 2)))
    return world, group


def test_a_snapshot_keeps_the_rows_and_the_digest() -> None:
    world, group = folded_world()
    view = world.state.frozen_view()
    restored = decode_state_chunks(encode_state_chunks(view))
    assert restored.digest() == world.state.digest()
    assert check(restored) == []
    for number in range(group, group + 11):
        assert restored.find(number) == world.state.find(number)


def test_a_view_does_not_see_rows_that_came_later() -> None:
    world, group = folded_world()
    view = world.state.frozen_view()
    world.started(group + 3, "n2")
    world.ended(group + 3, "n2")
    world.must(cmd.FoldTasks(numbers=(group + 3,)))
    assert (view.folded[group].count, world.state.folded[group].count) == (2, 3)
    assert not view.folded[group].has(2)
    assert decode_state_chunks(encode_state_chunks(view)).find(group + 3) == view.allocations[group + 3]


def test_ended_tasks_come_highest_first_and_only_below_a_position() -> None:
    world, group = folded_world()
    record, rows = world.state.groups[group], world.state.folded[group]
    assert [task.task_index for task in ended_tasks(record, rows, 10)] == [6, 5, 1, 0]
    assert [task.task_index for task in ended_tasks(record, rows, 6)] == [5, 1, 0]
    assert [task.task_index for task in ended_tasks(record, None, 10)] == [6, 5]
    assert [(task.state, task.cause) for task in ended_tasks(record, rows, 6)] == [
        (AllocationState.CANCELLED, Cause.CANCELLED),
        (AllocationState.FAILED, Cause.EXIT),
        (AllocationState.COMPLETED, Cause.EXIT),
    ]


def test_rows_of_the_archive_are_read_without_summing_hashes() -> None:
    world, group = folded_world()
    rows = world.state.folded[group]
    shown = FoldedTasks(group, rows.size, rows.base)
    for chunk in rows.chunks():
        shown.show(chunk)
    record = world.state.groups[group]
    assert [shown.record(record, position) for position in (0, 1)] == [
        rows.record(record, position) for position in (0, 1)
    ]
    empty = FoldedTasks(group, 3, base_of(record))
    assert [chunk.rows for chunk in empty.chunks()] == [()]


def test_a_group_sums_up_what_its_tasks_used() -> None:
    world, group = folded_world()
    record = world.state.groups[group]
    assert (record.cpu_s, record.peak_memory_mb, record.held_memory_mb) == (2.0, 64, 4096)
    task = world.state.find(group + 1)
    assert task is not None
    assert (task.held_cpus, task.held_memory_mb) == (4, 4096)
    assert task.usage == record.usage == USAGE
    assert record.held_cpu_s > 0


def test_what_is_held_is_that_of_whole_nodes_or_of_shares() -> None:
    world, _ = folded_world()
    nodes = world.state.nodes
    assert held_amounts((Share(node="n1"), Share(node="n2")), nodes) == (8, 4096)
    assert held_amounts((Share(node="n1", whole=False, cpus=2, memory_mb=512),), nodes) == (2, 512)
    assert held_amounts((), nodes) == (0, 0)
    assert (used_percent(1.0, 4.0), used_percent(1.0, 0.0)) == (25.0, None)


def test_new_states_and_causes_come_last_for_rows_keep_their_places() -> None:
    states = "Pending Staging Starting Running Checkpointing Suspended Stopping Completed Failed Cancelled"
    causes = "exit signal oom walltime node launch preempted deadline cancelled dependency"
    assert " ".join(AllocationState).startswith(states)
    assert " ".join(Cause).startswith(causes)


def test_very_many_rows_lie_in_several_pieces() -> None:
    world, group = folded_world()
    rows = world.state.folded[group]
    (whole,) = rows.chunks()
    pieces = [replace(whole, rows=whole.rows[place : place + 1]) for place in range(2)]
    at_once, in_pieces = State.empty(), State.empty()
    at_once.load_rows(whole)
    for piece in pieces:
        in_pieces.load_rows(piece)
    assert in_pieces.digest() == at_once.digest()
    assert in_pieces.folded[group].count == 2
