"""What users ask of their allocations, tasks and groups."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.allocations import AllocationState, Cause, Hold, RequeuePolicy, StopIntent
from tests.unit.core.machine.world import World


def test_cancel_of_a_pending_allocation_ends_it_at_once() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.CancelAllocation(number=number))
    assert (world[number].state, world[number].cause) == (AllocationState.CANCELLED, Cause.CANCELLED)
    assert world.refused(cmd.CancelAllocation(number=number)).message == f"a{number} is already Cancelled"
    assert world.refused(cmd.CancelAllocation(number=77)).code == "not_found"


def test_cancel_of_a_running_allocation_keeps_its_nodes_until_it_has_stopped() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.CancelAllocation(number=number))
    assert world[number].state is AllocationState.STOPPING
    assert world.node("n1").holder == number
    world.ended(number, "n1", stopped=True, signal=15)
    record = world[number]
    assert (record.state, record.cause, record.signal, record.exit_code) == (
        AllocationState.CANCELLED,
        Cause.CANCELLED,
        15,
        None,
    )
    assert world.node("n1").is_free


def test_cancel_wins_over_a_requeue_that_is_under_way() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.RequeueAllocation(number=number))
    world.must(cmd.CancelAllocation(number=number))
    assert world[number].intent is StopIntent.CANCEL
    world.ended(number, "n1", stopped=True)
    assert world[number].state is AllocationState.CANCELLED


def test_requeue_runs_the_same_id_again_and_is_not_counted_as_a_failure() -> None:
    world = World()
    number = world.running("n1")
    world.must(cmd.RequeueAllocation(number=number, hold=True))
    world.ended(number, "n1", stopped=True)
    record = world[number]
    assert (record.state, record.restart_count, record.requeue_count) == (AllocationState.PENDING, 1, 0)
    assert record.hold is Hold.USER
    assert world.refused(cmd.RequeueAllocation(number=number)).code == "conflict"
    assert world.refused(cmd.RequeueAllocation(number=50)).code == "not_found"


def test_hold_and_release_belong_to_who_set_them() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.HoldAllocation(number=number))
    assert world.must(cmd.HoldAllocation(number=number)) == ()
    world.must(cmd.HoldAllocation(number=number, hold=Hold.OPERATOR))
    assert world.must(cmd.HoldAllocation(number=number)) == ()
    assert world.refused(cmd.ReleaseAllocation(number=number)).code == "forbidden"
    world.must(cmd.ReleaseAllocation(number=number, as_operator=True))
    assert world[number].hold is Hold.NONE
    assert world.must(cmd.ReleaseAllocation(number=number)) == ()
    for command in (cmd.HoldAllocation, cmd.ReleaseAllocation, cmd.UpdateAllocation):
        assert world.refused(command(number=70)).code == "not_found"
    world.place(number, "n1")
    assert world.refused(cmd.HoldAllocation(number=number)).code == "conflict"
    world.ended(number, "n1", seq=1)
    assert world.refused(cmd.ReleaseAllocation(number=number)).code == "conflict"


def test_update_changes_within_policy() -> None:
    world = World(max_walltime_s=7200)
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_class=6)))
    number = world.running("n1")
    world.must(cmd.UpdateAllocation(number=number, walltime_s=60, preemption_class=6, name="better"))
    record = world[number]
    assert (record.walltime_s, record.preemption_class, record.name) == (60, 6, "better")
    assert world.refused(cmd.UpdateAllocation(number=number, preemption_class=7)).limit == "class 6"
    assert world.refused(cmd.UpdateAllocation(number=number, walltime_s=7201)).limit == "02:00:00"
    assert world.refused(cmd.UpdateAllocation(number=number, walltime_s=0)).code == "invalid"
    world.ended(number, "n1")
    assert world.refused(cmd.UpdateAllocation(number=number, name="late")).code == "conflict"


def group_of(world: World, **changes: object) -> int:
    return world.submit(tasks=((0, 8, 2), (20, 20, 1)), **changes)


def test_a_group_is_one_record_and_its_tasks_have_numbers_in_a_row() -> None:
    world = World()
    number = group_of(world)
    group = world.state.groups[number]
    assert (group.size, world.state.next_number, len(world.state.allocations)) == (6, number + 7, 0)
    assert [group.index_at(position) for position in range(6)] == [0, 2, 4, 6, 8, 20]
    assert (group.position_of(20), group.position_of(6), group.position_of(5)) == (5, 3, None)
    with pytest.raises(IndexError):
        group.index_at(6)
    task = world.state.find(number + 2)
    assert task is not None
    assert (task.group, task.task_index, task.state) == (number, 2, AllocationState.PENDING)
    assert world.state.payload_of(task) == b"run me"
    assert world.state.find(number + 7) is None


def test_a_task_becomes_a_record_when_it_is_placed_and_the_limit_of_the_group_holds() -> None:
    world = World()
    number = group_of(world, concurrency=2)
    world.place(number + 3, "n1")
    assert world.state.groups[number].pending == ((0, 2), (3, 6))
    world.place(number + 1, "n2")
    proposal = cmd.PlaceAllocation(number=number + 2, run=1, shares=(Share(node="n3"),))
    assert "concurrency" in world.refused(proposal).message
    world.ended(number + 1, "n2", seq=1)
    world.must(proposal)
    group = world.state.groups[number]
    assert (group.live, group.holding, group.completed) == (2, 2, 1)


def test_a_group_remembers_its_first_start_and_its_worst_failure() -> None:
    world = World(nodes=4)
    number = group_of(world, requeue=RequeuePolicy.NEVER)
    for position, node in enumerate(("n1", "n2", "n3", "n4"), start=1):
        world.place(number + position, node)
        world.started(number + position, node)
    world.ended(number + 1, "n1", exit_code=3)
    started_at = world[number + 1].started_at
    world.ended(number + 2, "n2", cause=Cause.WALLTIME, signal=15)
    world.ended(number + 3, "n3", exit_code=7)
    world.ended(number + 4, "n4", cause=Cause.NODE)
    group = world.state.groups[number]
    assert (group.cause, group.exit_code, group.signal) == (Cause.WALLTIME, None, 15)
    assert group.started_at == started_at


def test_cancel_of_a_group_takes_all_and_of_a_task_only_that_one() -> None:
    world = World()
    number = group_of(world)
    world.must(cmd.CancelAllocation(number=number + 6))
    assert world[number + 6].state is AllocationState.CANCELLED
    world.place(number + 1, "n1")
    world.must(cmd.CancelAllocation(number=number))
    group = world.state.groups[number]
    assert (group.pending, group.cancelled, group.is_done) == ((), 5, False)
    world.ended(number + 1, "n1", seq=1, stopped=True)
    assert world.state.groups[number].is_done
    for command in (cmd.CancelAllocation, cmd.HoldAllocation, cmd.RequeueAllocation, cmd.UpdateAllocation):
        assert world.refused(command(number=number)).code == "conflict"


def test_hold_release_requeue_and_update_of_a_group_reach_its_tasks() -> None:
    world = World()
    number = group_of(world)
    world.must(cmd.HoldAllocation(number=number + 1))
    world.must(cmd.HoldAllocation(number=number, hold=Hold.OPERATOR))
    assert world.must(cmd.HoldAllocation(number=number)) == ()
    assert world.state.groups[number].template.hold is Hold.OPERATOR
    assert world[number + 1].hold is Hold.OPERATOR
    assert world.refused(cmd.ReleaseAllocation(number=number)).code == "forbidden"
    world.must(cmd.ReleaseAllocation(number=number, as_operator=True))
    assert world[number + 1].hold is Hold.NONE
    assert world.refused(cmd.RequeueAllocation(number=number)).code == "conflict"
    world.must(cmd.UpdateAllocation(number=number, walltime_s=120))
    world.place(number + 2, "n1")
    assert world[number + 2].walltime_s == 120
    world.must(cmd.RequeueAllocation(number=number))
    assert world[number + 2].intent is StopIntent.REQUEUE


def test_finished_work_leaves_the_state_and_a_group_goes_after_its_tasks() -> None:
    world = World()
    number = world.submit(tasks=((0, 1, 1),))
    single = world.submit()
    world.must(cmd.CancelAllocation(number=number + 1))
    world.must(cmd.CancelAllocation(number=number))
    assert world.must(cmd.ArchiveAllocations(numbers=(single, number, 99))) == ()
    world.must(cmd.CancelAllocation(number=single))
    world.must(cmd.ArchiveAllocations(numbers=(single, number + 1, single)))
    world.must(cmd.FoldTasks(numbers=(number + 1,)))
    world.must(cmd.ArchiveAllocations(numbers=(number,)))
    assert not world.state.allocations
    assert not world.state.groups
    assert not world.state.payloads
    assert world.state.finished == {AllocationState.CANCELLED: 3}
    assert isinstance(world.state, State)


def test_hold_and_release_of_a_group_leave_an_operators_hold_of_one_task_alone() -> None:
    world = World()
    number = world.submit(tasks=((0, 2, 1),))
    world.must(cmd.HoldAllocation(number=number + 1, hold=Hold.OPERATOR))
    world.must(cmd.HoldAllocation(number=number))
    world.must(cmd.ReleaseAllocation(number=number))
    assert world[number + 1].hold is Hold.OPERATOR
    assert world.state.groups[number].template.hold is Hold.NONE
