"""What a plan starts, where, and in which order."""

import pytest

from lattice.core.machine.commands import (
    CancelAllocation,
    DrainNode,
    HoldAllocation,
    ReleaseAllocation,
    SetVcluster,
    UpdateAllocation,
)
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.model.work.allocations import Hold, Request
from lattice.core.scheduler.plan import plan as make_plan
from lattice.core.scheduler.score.profiles import Profile
from tests.unit.core.scheduler.world import HOUR, FirstCome, nodes_of, reason


def test_an_empty_machine_has_an_empty_plan() -> None:
    plan = FirstCome().plan()
    assert plan.placements == ()
    assert dict(plan.explanations) == {}


def test_one_node_goes_to_the_first_submitted() -> None:
    world = FirstCome()
    world.add_node("n1")
    first, second = world.submit(), world.submit()
    plan = world.plan()
    assert nodes_of(plan) == {first: ("n1",)}
    assert plan.explain(first) is None
    assert plan.explain(second) is not None


def test_a_higher_class_goes_first() -> None:
    world = FirstCome()
    world.add_node("n1")
    world.submit()
    urgent = world.submit(preemption_class=9)
    assert nodes_of(world.plan()) == {urgent: ("n1",)}


def test_a_raised_class_moves_an_allocation_ahead() -> None:
    world = FirstCome()
    world.add_node("n1")
    world.submit()
    second = world.submit()
    world.plan()
    world.do(UpdateAllocation(number=second, preemption_class=8))
    assert nodes_of(world.plan()) == {second: ("n1",)}


def test_nodes_are_counted_as_people_count() -> None:
    world = FirstCome()
    world.add_nodes(["n10", "n2", "n1"])
    number = world.submit(Request(nodes=2))
    assert nodes_of(world.plan()) == {number: ("n1", "n2")}


def test_a_plan_is_accepted_as_it_was_made() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3"])
    numbers = [world.submit(Request(nodes=size)) for size in (1, 2, 1)]
    world.run_cycle()
    held = {number: world.state.allocations[number].nodes for number in numbers[:2]}
    assert held == {numbers[0]: ("n1",), numbers[1]: ("n2", "n3")}
    assert world.plan().placements == ()


def test_a_finished_allocation_makes_room_for_the_next() -> None:
    world = FirstCome()
    world.add_node("n1")
    first, second = world.submit(), world.submit()
    world.run_cycle()
    world.finish(first)
    assert nodes_of(world.run_cycle()) == {second: ("n1",)}


def test_a_cancelled_allocation_is_not_started() -> None:
    world = FirstCome()
    world.add_node("n1")
    first, second = world.submit(), world.submit()
    world.do(CancelAllocation(number=first))
    assert nodes_of(world.plan()) == {second: ("n1",)}


def test_a_requeued_allocation_starts_as_its_next_run() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    number = world.submit()
    world.run_cycle()
    world.lose(number)
    placement = world.plan().placements[0]
    assert (placement.number, placement.run) == (number, 2)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(gpus=2), "gpu"),
        (Request(gpu_type="H100"), "gpu"),
        (Request(features=("nvme",)), "fast"),
        (Request(min_memory_mb=9000), "big"),
        (Request(memory_mb=9000), "big"),
        (Request(cpus=16), "wide"),
        (Request(node_list=("fast",)), "fast"),
        (Request(exclude=("plain",)), "wide"),
    ],
)
def test_a_constraint_leads_to_the_node_that_satisfies_it(request_: Request, expected: str) -> None:
    world = FirstCome()
    world.add_node("plain")
    world.add_node("wide", cpus=16)
    world.add_node("big", memory_mb=10_000)
    world.add_node("fast", features=("nvme", "ib"))
    world.add_node("gpu", cpus=2, memory_mb=2000, gpus=2, gpu_type="H100")
    number = world.submit(request_)
    assert nodes_of(world.plan()) == {number: (expected,)}


def test_plain_work_leaves_gpus_alone() -> None:
    world = FirstCome()
    world.add_node("a", gpus=4, gpu_type="H100")
    world.add_node("b")
    number = world.submit()
    assert nodes_of(world.plan()) == {number: ("b",)}


def test_a_longer_node_list_is_a_choice() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3", "n4"])
    number = world.submit(Request(nodes=2, node_list=("n2", "n3", "n4"), exclude=("n3",)))
    assert nodes_of(world.plan()) == {number: ("n2", "n4")}


@pytest.mark.parametrize(("free", "given"), [(2, 2), (3, 3), (5, 4)])
def test_a_range_takes_what_is_free_up_to_its_most(free: int, given: int) -> None:
    world = FirstCome()
    world.add_nodes([f"n{index}" for index in range(free)])
    number = world.submit(Request(nodes=2, max_nodes=4))
    assert len(nodes_of(world.plan())[number]) == given


def test_only_ready_nodes_are_used() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    world.do(DrainNode(node="n1", reason="disk"))
    number = world.submit()
    assert nodes_of(world.plan()) == {number: ("n2",)}


def test_a_ready_node_without_a_connection_is_passed_over() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    world.observations = Observations()
    world.observations.join("n2", 1.0)
    number = world.submit()
    assert nodes_of(world.plan()) == {number: ("n2",)}


def test_a_vcluster_uses_only_its_own_nodes() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3"])
    world.set_vcluster("small", nodes=("n3", "unknown"))
    number = world.submit(vcluster="small")
    assert nodes_of(world.plan()) == {number: ("n3",)}


def test_a_node_that_joins_a_vcluster_later_is_used() -> None:
    world = FirstCome()
    world.add_node("n1")
    world.set_vcluster("small", nodes=("n2",))
    number = world.submit(vcluster="small")
    assert world.plan().placements == ()
    world.add_node("n2")
    assert nodes_of(world.plan()) == {number: ("n2",)}


def test_held_work_waits_until_it_is_released() -> None:
    world = FirstCome()
    world.add_node("n1")
    number = world.submit(hold=Hold.USER)
    assert world.plan().placements == ()
    world.do(ReleaseAllocation(number=number))
    assert nodes_of(world.plan()) == {number: ("n1",)}


def test_work_that_is_not_eligible_yet_blocks_nobody() -> None:
    world = FirstCome()
    world.add_node("n1")
    later = world.submit(eligible_at=world.now + HOUR)
    number = world.submit()
    plan = world.plan()
    assert nodes_of(plan) == {number: ("n1",)}
    assert plan.wake_at == world.now + HOUR
    world.do(HoldAllocation(number=number))
    world.now += HOUR
    assert nodes_of(world.plan()) == {later: ("n1",)}


def test_a_vcluster_that_is_down_starts_nothing() -> None:
    world = FirstCome()
    world.add_node("n1")
    number = world.submit()
    world.do(SetVcluster(vcluster=Vcluster(name="default", is_up=False)))
    plan = world.plan()
    assert plan.placements == ()
    assert reason(plan, number) == "vCluster default is down"


def test_what_is_over_the_limits_of_its_vcluster_waits_until_they_change() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2", "n3"])
    long, wide, fine = world.submit(walltime_s=7200), world.submit(request=Request(nodes=2)), world.submit()
    world.do(SetVcluster(vcluster=Vcluster(name="default", max_walltime_s=3600, max_nodes=1)))
    plan = world.plan()
    assert set(nodes_of(plan)) == {fine}
    assert reason(plan, long) == "vCluster default allows a walltime of at most 01:00:00, 02:00:00 is asked for"
    assert reason(plan, wide) == "vCluster default allows at most 1 nodes, 2 are asked for"
    world.do(SetVcluster(vcluster=Vcluster(name="default")))
    assert {long, wide} <= set(nodes_of(world.plan()))


def test_the_window_bounds_what_one_cycle_tries() -> None:
    world = FirstCome()
    world.add_nodes([f"n{index}" for index in range(5)])
    numbers = [world.submit() for _ in range(5)]
    plan = make_plan(world.snapshot(), {"default": Profile(window=3)}, world.now)
    assert list(nodes_of(plan)) == numbers[:3]
    assert reason(plan, numbers[3]) == "waiting for the next cycle"
    assert reason(plan, numbers[4]) == "waiting behind 1 other"


def test_a_long_queue_starts_in_its_order() -> None:
    world = FirstCome()
    world.add_nodes([f"n{index}" for index in range(90)])
    numbers = [world.submit(preemption_class=5 + index % 2) for index in range(150)]
    started = list(nodes_of(world.run_cycle()))
    assert started == [*numbers[1::2], *numbers[0:30:2]]


def test_one_shape_that_cannot_start_is_tried_once() -> None:
    world = FirstCome()
    world.add_node("n1", gpus=1)
    world.add_nodes(["n2", "n3"])
    for _ in range(50):
        world.submit(Request(nodes=3, gpus=0, cpus=4))
    small = [world.submit() for _ in range(3)]
    world.do(DrainNode(node="n3"))
    plan = world.plan()
    assert list(nodes_of(plan)) == small[:2]
    assert plan.considered == 4


class TestGroups:
    def test_nodes_come_from_one_group_when_one_suffices(self) -> None:
        world = FirstCome()
        for name, group in [("n1", "a"), ("n2", "b"), ("n3", "a"), ("n4", "b"), ("n5", "b")]:
            world.add_node(name, group=group)
        number = world.submit(Request(nodes=3))
        assert nodes_of(world.plan()) == {number: ("n2", "n4", "n5")}

    def test_small_work_goes_where_least_is_left_over(self) -> None:
        world = FirstCome()
        for name, group in [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "b"), ("n5", "b")]:
            world.add_node(name, group=group)
        number = world.submit(Request(nodes=2))
        assert nodes_of(world.plan()) == {number: ("n4", "n5")}

    def test_work_larger_than_a_group_takes_neighbours(self) -> None:
        world = FirstCome()
        for group, size in {"a": 2, "b": 4, "c": 3, "d": 1}.items():
            for index in range(size):
                world.add_node(f"{group}{index}", group=group)
        number = world.submit(Request(nodes=5))
        assert nodes_of(world.plan()) == {number: ("a0", "b0", "b1", "b2", "b3")}

    def test_without_neighbours_the_largest_groups_are_used_up_and_the_rest_fits(self) -> None:
        world = FirstCome()
        for group, size in {"a": 4, "b": 1, "c": 4, "d": 1, "e": 2}.items():
            for index in range(size):
                world.add_node(f"{group}{index}", group=group)
        number = world.submit(Request(nodes=6))
        assert nodes_of(world.plan()) == {number: ("a0", "a1", "a2", "a3", "e0", "e1")}

    def test_groups_are_counted_as_people_count(self) -> None:
        world = FirstCome()
        for group in ("g1", "g2", "g3", "g10", "g11"):
            for index in range(1 if group == "g3" else 2):
                world.add_node(f"{group}n{index}", group=group)
        world.place(world.submit(Request(nodes=2)), "g1n0", "g2n0")
        number = world.submit(Request(nodes=4))
        assert nodes_of(world.plan()) == {number: ("g10n0", "g10n1", "g11n0", "g11n1")}

    def test_topology_any_ignores_groups(self) -> None:
        world = FirstCome()
        for name, group in [("n1", "a"), ("n2", "b"), ("n3", "b")]:
            world.add_node(name, group=group)
        number = world.submit(Request(nodes=2, topology="any"))
        assert nodes_of(world.plan()) == {number: ("n1", "n2")}


class TestShares:
    def test_two_allocations_share_a_node_before_a_second_is_opened(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.add_nodes(["n1", "n2"])
        numbers = [world.submit(Request(cpus=2)) for _ in range(3)]
        world.run_cycle()
        held = [world.state.allocations[number].nodes for number in numbers]
        assert held == [("n1",), ("n1",), ("n2",)]

    def test_memory_that_was_not_asked_for_follows_the_cpus(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.add_node("n1", cpus=4, memory_mb=4001)
        world.submit()
        share = world.run_cycle().placements[0].shares[0]
        assert (share.whole, share.cpus, share.memory_mb, share.gpus) == (False, 1, 1000, 0)

    def test_memory_runs_out_before_cpus(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.add_node("n1", cpus=4, memory_mb=4000)
        numbers = [world.submit(Request(cpus=1, memory_mb=1500)) for _ in range(3)]
        assert list(nodes_of(world.run_cycle())) == numbers[:2]

    def test_gpus_are_shared_out(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.add_node("n1", cpus=8, memory_mb=8000, gpus=2, gpu_type="H100")
        numbers = [world.submit(Request(gpus=1)) for _ in range(3)]
        assert list(nodes_of(world.run_cycle())) == numbers[:2]

    def test_an_exclusive_request_gets_an_empty_node(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.add_nodes(["n1", "n2"])
        small = world.submit()
        alone = world.submit(Request(exclusive=True))
        assert nodes_of(world.run_cycle()) == {small: ("n1",), alone: ("n2",)}
        third = world.submit()
        assert nodes_of(world.run_cycle()) == {third: ("n1",)}

    def test_two_vclusters_never_share_a_node(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.set_vcluster("other", node_sharing=NodeSharing.SHARED)
        world.add_nodes(["n1", "n2"])
        here, there = world.submit(), world.submit(vcluster="other")
        assert nodes_of(world.run_cycle()) == {here: ("n1",), there: ("n2",)}

    def test_several_nodes_with_a_share_each(self) -> None:
        world = FirstCome(NodeSharing.SHARED)
        world.add_nodes(["n1", "n2", "n3"])
        first = world.submit(Request(cpus=3))
        wide = world.submit(Request(nodes=2, cpus=2))
        assert nodes_of(world.run_cycle()) == {first: ("n1",), wide: ("n2", "n3")}


class TestTasks:
    def test_tasks_start_in_their_order(self) -> None:
        world = FirstCome()
        world.add_nodes(["n1", "n2"])
        group = world.submit(tasks=((0, 9, 1),))
        assert nodes_of(world.run_cycle()) == {group + 1: ("n1",), group + 2: ("n2",)}
        world.finish(group + 1)
        assert nodes_of(world.run_cycle()) == {group + 3: ("n1",)}

    def test_a_group_leaves_the_queue_with_its_last_pending_task(self) -> None:
        world = FirstCome()
        world.add_nodes(["n1", "n2"])
        group = world.submit(tasks=((0, 1, 1),))
        plan = world.run_cycle()
        assert list(nodes_of(plan)) == [group + 1, group + 2]
        assert dict(plan.explanations) == {}
        world.finish(group + 1)
        world.lose(group + 2)
        assert [(p.number, p.run) for p in world.run_cycle().placements] == [(group + 2, 2)]
        world.finish(group + 2)
        assert dict(world.plan().explanations) == {}

    def test_the_window_counts_tasks_one_by_one(self) -> None:
        world = FirstCome()
        world.add_nodes(["n1", "n2", "n3"])
        group = world.submit(tasks=((0, 8, 1),))
        plan = make_plan(world.snapshot(), {"default": Profile(window=2)}, world.now)
        assert list(nodes_of(plan)) == [group + 1, group + 2]
        assert reason(plan, group) == "waiting for the next cycle"

    def test_a_requeued_task_goes_before_later_tasks_of_its_group(self) -> None:
        world = FirstCome()
        world.add_node("n1")
        group = world.submit(tasks=((0, 8, 1),))
        world.run_cycle()
        world.lose(group + 1)
        assert list(nodes_of(world.plan())) == [group + 1]

    def test_no_more_tasks_run_than_the_group_allows(self) -> None:
        world = FirstCome()
        world.add_nodes(["n1", "n2", "n3"])
        group = world.submit(tasks=((0, 9, 1),), concurrency=2)
        plan = world.run_cycle()
        assert list(nodes_of(plan)) == [group + 1, group + 2]
        assert reason(plan, group) == "waiting for tasks of its group: 2 of 2 at a time run"
        assert world.plan().placements == ()

    def test_a_requeued_task_counts_towards_the_limit_of_its_group(self) -> None:
        world = FirstCome()
        world.add_nodes(["n1", "n2", "n3"])
        group = world.submit(tasks=((0, 9, 1),), concurrency=1)
        world.run_cycle()
        world.lose(group + 1)
        assert len(world.run_cycle().placements) == 1
        assert world.plan().placements == ()

    def test_a_cancelled_task_is_passed_over(self) -> None:
        world = FirstCome()
        world.add_node("n1")
        group = world.submit(tasks=((0, 2, 1),))
        world.do(CancelAllocation(number=group + 1))
        assert list(nodes_of(world.plan())) == [group + 2]

    def test_a_held_group_waits(self) -> None:
        world = FirstCome()
        world.add_node("n1")
        group = world.submit(tasks=((0, 2, 1),))
        world.do(HoldAllocation(number=group))
        plan = world.plan()
        assert plan.placements == ()
        assert reason(plan, group) == reason(plan, group + 2) == "held by user"
