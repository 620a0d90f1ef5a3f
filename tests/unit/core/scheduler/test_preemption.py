"""Whom a plan takes for work of a higher class, whom it spares, and for whom the freed nodes are kept."""

from dataclasses import replace

import pytest

from lattice.core.machine.commands import (
    CancelAllocation,
    DisableNode,
    HoldAllocation,
    RaiseLevel,
    SetSetting,
    SetTenant,
)
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import Demands, NodeSharing, Preemption, Tenant
from lattice.core.model.work.allocations import AllocationState, Hold, Request
from lattice.core.model.work.evictions import Eviction, VictimPhase
from lattice.core.scheduler.plan import plan as make_plan
from lattice.core.scheduler.proposals import Plan
from tests.unit.core.scheduler.world import HOUR, NOON, FirstCome, nodes_of, reason

MINUTE = 60_000


class Busy(FirstCome):
    """A cluster at the newest level on which work can be made to run as it is needed."""

    def __init__(
        self, nodes: int = 4, sharing: NodeSharing = NodeSharing.EXCLUSIVE, cpus: int = 4, gpus: int = 0
    ) -> None:
        super().__init__(sharing)
        self.do(RaiseLevel(level=2))
        for index in range(1, nodes + 1):
            self.add_node(f"n{index}", cpus=cpus, gpus=gpus)

    def running(self, *nodes: str, **fields: object) -> int:
        """Work of class 3 on these nodes, for an hour of four."""
        given = {"preemption_class": 3, "walltime_s": 4 * 3600, **fields}
        number = self.submit(Request(nodes=len(nodes)), seen=None, **given)
        self.place(number, *nodes)
        self.report_running(number)
        return number

    def later(self, ms: int = HOUR) -> None:
        self.now += ms

    def state_of(self, number: int) -> AllocationState:
        return self.state.allocations[number].state


def victims_of(plan: Plan) -> dict[int, tuple[int, ...]]:
    return {each.number: tuple(number for number, _ in each.victims) for each in plan.takings}


def test_class_9_takes_class_3_and_starts_on_the_very_nodes() -> None:
    world = Busy(2)
    low = world.running("n1", "n2")
    world.later()
    high = world.submit(Request(nodes=1), preemption_class=9)
    plan = world.run_cycle()
    assert victims_of(plan) == {high: (low,)}
    assert world.state_of(low) is AllocationState.STOPPING
    kept = world.state.evictions.records[high].nodes
    world.stopped(low)
    assert world.state_of(low) is AllocationState.PENDING
    assert (world.state.allocations[low].preempted, world.state.allocations[low].requeue_count) == (1, 0)
    assert world.state.allocations[low].submitted_at == NOON
    plan = world.run_cycle()
    assert nodes_of(plan)[high] == kept
    assert not world.state.evictions.records, "what was kept is given"


def test_two_victims_that_end_apart_and_wait_again_are_taken_once_and_do_not_get_the_room_back() -> None:
    world = Busy(2)
    first, second = world.running("n1"), world.running("n2")
    world.later()
    high = world.submit(Request(nodes=2), preemption_class=9)
    assert victims_of(world.run_cycle()) == {high: (first, second)}
    world.stopped(first)
    other = world.submit(Request(nodes=1), preemption_class=9, walltime_s=5)
    world.later(10_000)
    plan = world.run_cycle()
    assert (plan.placements, plan.takings) == ((), ()), "neither the victim nor a third party gets the room"
    assert world.state.evictions.records[high].victims[0].phase is VictimPhase.GONE
    world.stopped(second)
    plan = world.run_cycle()
    assert nodes_of(plan) == {high: ("n1", "n2")}
    assert [world.state.allocations[each].preempted for each in (first, second)] == [1, 1]
    assert world.state_of(other) is AllocationState.PENDING


def test_nothing_is_taken_when_the_row_would_start_within_its_patience() -> None:
    world = Busy(1)
    world.running("n1", walltime_s=3600)
    world.submit(preemption_class=9)
    world.do(SetSetting(key="preemption.near_completion_s", value="0"))
    world.later(HOUR - 29_000)
    assert not world.plan().takings
    world.do(SetSetting(key="preemption.patience_s", value="28"))
    assert world.plan().takings


@pytest.mark.parametrize(("ends_in_s", "takes"), [(29, False), (30, True)])
def test_nothing_is_taken_that_may_leave_later_than_the_row_would_start(ends_in_s: int, *, takes: bool) -> None:
    """Whoever is taken has 30 s to end; the row waits for those nodes alone."""
    world = Busy(2)
    world.do(SetSetting(key="preemption.patience_s", value="0"))
    world.running("n1", preemption_class=9, walltime_s=3600)
    low = world.running("n2")
    world.later(HOUR - ends_in_s * 1000)
    high = world.submit(preemption_class=9)
    plan = world.plan()
    assert victims_of(plan) == ({high: (low,)} if takes else {})
    assert {kept.number: kept.start_at - world.now for kept in plan.reservations} == {high: ends_in_s * 1000}


@pytest.mark.parametrize("klass", [3, 2])
def test_only_a_strictly_lower_class_is_taken(klass: int) -> None:
    world = Busy(1)
    world.running("n1")
    world.later()
    world.submit(preemption_class=klass)
    assert not world.plan().takings


@pytest.mark.parametrize(
    "fields",
    [
        {"preemption_class": 7, "no_preempt": True},
        {"preemption_class": 7},
        {"walltime_s": 3600 + 200},
    ],
)
def test_protected_work_is_not_taken(fields: dict[str, object]) -> None:
    world = Busy(1)
    world.running("n1", **fields)
    world.later()
    world.submit(preemption_class=10)
    assert not world.plan().takings


def test_young_work_is_taken_when_its_time_is_over() -> None:
    world = Busy(1)
    world.running("n1")
    world.submit(preemption_class=9)
    world.later(299_000)
    assert not world.plan().takings
    world.later(1_000)
    assert world.plan().takings


def test_work_that_was_taken_often_is_left_alone() -> None:
    world = Busy(1)
    low = world.running("n1")
    world.do(SetSetting(key="preemption.max_per_allocation", value="1"))
    for expected in (1, 0):
        world.later()
        high = world.submit(preemption_class=9, walltime_s=1200)
        assert len(world.run_cycle().takings) == expected
        if expected:
            world.stopped(low)
            world.run_cycle()
            world.report_running(high)
            world.finish(high)
            world.run_cycle()
            world.report_running(low)


def test_a_vcluster_may_keep_its_work_from_being_taken() -> None:
    world = Busy(1)
    world.running("n1")
    world.set_vcluster("default", demands=Demands(preemption=Preemption.NEVER))
    world.later()
    world.submit(preemption_class=9)
    assert not world.plan().takings
    world.set_vcluster("default", demands=Demands(preemption=Preemption.ALLOWED))
    assert world.plan().takings


@pytest.mark.parametrize(("scheduler", "taken"), [("ml-training", 1), ("service-bin-pack", 0), ("interactive-fifo", 1)])
def test_what_is_allowed_follows_from_the_kind_of_the_vcluster(scheduler: str, taken: int) -> None:
    world = Busy(1)
    world.set_vcluster("kind", scheduler=scheduler)
    world.running("n1", vcluster="kind")
    world.later()
    world.submit(preemption_class=9)
    assert len(world.plan().takings) == taken


def test_preemption_can_be_turned_off() -> None:
    world = Busy(1)
    world.running("n1")
    world.later()
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    world.submit(preemption_class=9)
    assert not world.plan().takings


def test_a_lower_class_is_taken_before_a_cheaper_one() -> None:
    world = Busy(2)
    low = world.running("n1", preemption_class=1)
    world.later()
    world.running("n2", preemption_class=2)
    world.later(10 * MINUTE)
    high = world.submit(preemption_class=9)
    assert victims_of(world.plan()) == {high: (low,)}


def test_of_one_class_the_one_that_loses_less_is_taken() -> None:
    world = Busy(2)
    world.running("n1")
    world.later()
    young = world.running("n2")
    world.later(10 * MINUTE)
    high = world.submit(preemption_class=9)
    assert victims_of(world.plan()) == {high: (young,)}


def test_a_tenant_beyond_its_share_is_taken_first_whatever_its_class() -> None:
    world = Busy(4)
    world.do(SetTenant(tenant=Tenant(name="greedy", fair_share_target=0.25, burst_allowance=1.0), create=True))
    over = world.running("n1", "n2", tenant="greedy", preemption_class=5)
    world.running("n3", "n4", preemption_class=0)
    world.later()
    high = world.submit(preemption_class=9)
    assert victims_of(world.plan()) == {high: (over,)}


def test_one_large_victim_is_preferred_to_several_small_ones() -> None:
    world = Busy(4)
    large = world.running("n1", "n2")
    world.running("n3")
    world.running("n4")
    world.later()
    high = world.submit(Request(nodes=2), preemption_class=9)
    assert victims_of(world.plan()) == {high: (large,)}


def test_whoever_need_not_go_is_let_go() -> None:
    world = Busy(4)
    small = world.running("n1")
    large = world.running("n2", "n3", "n4")
    world.later()
    high = world.submit(Request(nodes=4), preemption_class=9)
    assert victims_of(world.plan()) == {high: (small, large)}
    world.do(CancelAllocation(number=high))
    high = world.submit(Request(nodes=3), preemption_class=9)
    assert victims_of(world.plan()) == {high: (large,)}


def test_more_victims_than_allowed_are_not_taken() -> None:
    world = Busy(4)
    for index in range(1, 5):
        world.running(f"n{index}")
    world.later()
    world.submit(Request(nodes=4), preemption_class=9, walltime_s=100 * 3600)
    assert not world.plan().takings
    world.do(SetSetting(key="preemption.max_victims", value="4"))
    assert len(world.plan().takings[0].victims) == 4


def test_what_costs_more_than_it_is_worth_is_not_done() -> None:
    world = Busy(1)
    world.running("n1")
    world.later(2 * HOUR)
    # Two hours are lost for one minute, six classes higher.
    world.submit(preemption_class=9, walltime_s=60)
    assert not world.plan().takings
    world.submit(preemption_class=9, walltime_s=1300)
    assert world.plan().takings


def test_single_shares_are_taken_and_the_rest_of_the_node_goes_on() -> None:
    world = Busy(1, NodeSharing.SHARED, cpus=8, gpus=8)
    numbers = []
    for klass in (1, 2, 3):
        numbers.append(world.submit(Request(cpus=2, gpus=2, memory_mb=10), preemption_class=klass, walltime_s=36000))
    world.run_cycle()
    for number in numbers:
        world.report_running(number)
    world.later()
    high = world.submit(Request(cpus=1, gpus=5, memory_mb=10), preemption_class=9)
    assert victims_of(world.run_cycle()) == {high: (numbers[0], numbers[1])}
    # What is free already is kept as well: it takes part of it.
    other = world.submit(Request(cpus=1, gpus=2, memory_mb=10), preemption_class=8, walltime_s=5)
    assert not world.run_cycle().placements
    beside = world.submit(Request(cpus=1, gpus=1, memory_mb=10), preemption_class=8, walltime_s=50_000)
    world.stopped(numbers[0])
    assert not world.run_cycle().placements
    world.stopped(numbers[1])
    assert nodes_of(world.run_cycle()) == {high: ("n1",), beside: ("n1",)}, "what is left beside it is used"
    assert world.state_of(numbers[2]) is AllocationState.RUNNING
    assert world.state_of(other) is AllocationState.PENDING


def test_the_tasks_of_a_group_take_victims_one_after_the_other() -> None:
    world = Busy(2)
    first, second = world.running("n1"), world.running("n2")
    world.later()
    group = world.submit(preemption_class=9, tasks=((0, 4, 1),))
    assert victims_of(world.run_cycle()) == {group + 1: (first,)}
    assert victims_of(world.run_cycle()) == {group + 2: (second,)}
    world.stopped(first)
    assert nodes_of(world.run_cycle()) == {group + 1: ("n1",)}


def test_a_preemptor_that_is_gone_leaves_the_nodes_to_others() -> None:
    world = Busy(1)
    low = world.running("n1")
    world.later()
    high = world.submit(preemption_class=9)
    world.run_cycle()
    world.do(CancelAllocation(number=high))
    assert not world.state.evictions.records
    world.stopped(low)
    assert nodes_of(world.run_cycle()) == {low: ("n1",)}


@pytest.mark.parametrize("what", ["hold", "node"])
def test_nodes_are_no_longer_kept_for_work_that_cannot_start(what: str) -> None:
    world = Busy(2)
    low = world.running("n1", "n2")
    world.later()
    high = world.submit(Request(nodes=2), preemption_class=9)
    world.run_cycle()
    if what == "hold":
        world.do(HoldAllocation(number=high, hold=Hold.USER))
    else:
        world.do(DisableNode(node="n2"))
    assert not world.state.evictions.records
    world.stopped(low)


def test_a_promise_to_work_of_a_higher_rank_is_not_delayed() -> None:
    world = Busy(1)
    world.running("n1", walltime_s=2 * 3600)
    first = world.submit(preemption_class=10, walltime_s=3600)
    world.do(SetSetting(key="preemption.min_runtime_s", value=str(2 * 3600)))
    plan = world.run_cycle()
    assert [kept.number for kept in plan.reservations] == [first]
    world.later()
    world.do(SetSetting(key="preemption.min_runtime_s", value="0"))
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    world.submit(preemption_class=9, walltime_s=2 * 3600)
    assert not world.plan().takings


def test_what_is_kept_is_not_promised_to_others_either() -> None:
    world = Busy(2)
    world.running("n1")
    world.later()
    high = world.submit(Request(node_list=("n1",)), preemption_class=9)
    world.run_cycle()
    short = world.submit(Request(node_list=("n1",)), preemption_class=9, walltime_s=1)
    plan = world.run_cycle()
    kept = {each.number: each for each in plan.reservations}
    assert kept[short].start_at >= kept[high].start_at + HOUR
    assert Share(node="n1") in world.state.evictions.records[high].shares


def test_a_second_of_the_same_shape_takes_nobody_when_the_first_uses_up_what_its_tenant_may_have() -> None:
    world = Busy(8)
    for index in range(1, 9):
        world.running(f"n{index}")
    world.set_tenant("small", max_nodes=1)
    world.later()
    first, second = (world.submit(tenant="small", preemption_class=9) for _ in range(2))
    assert list(victims_of(world.run_cycle())) == [first]
    assert not world.run_cycle().takings
    assert world.state_of(second) is AllocationState.PENDING


def test_nodes_stay_kept_for_work_whose_tenant_comes_to_its_limit_meanwhile() -> None:
    world = Busy(1)
    world.set_tenant("other")
    low = world.running("n1", tenant="other")
    world.later()
    high = world.submit(preemption_class=9)
    world.run_cycle()
    world.set_tenant(max_concurrent_allocations=0)
    world.stopped(low)
    plan = world.run_cycle()
    assert not plan.placements
    assert reason(plan, high) == "waiting for quota headroom: tenant default runs 0 of 0 allocations"
    world.set_tenant(max_concurrent_allocations=1)
    assert nodes_of(world.run_cycle()) == {high: ("n1",)}


def test_what_is_kept_for_work_that_is_not_in_the_queue_keeps_nothing() -> None:
    world = Busy(1)
    number = world.submit()
    gone = Eviction(number=number + 1, run=1, victims=(), shares=(Share(node="n1"),), at=world.now)
    made = make_plan(replace(world.snapshot(), evictions=(gone,)), {}, world.now)
    assert nodes_of(made) == {number: ("n1",)}
