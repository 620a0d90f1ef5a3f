"""Nodes that a vCluster lends: who gets them, who does not, and how they come back."""

import pytest

from lattice.core.machine.commands import CancelAllocation, RaiseLevel, SetSetting, SetTenant, StopVictims
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.tenants import Demands, Lending, Lends, NodeSharing, OnQuota, Tenant
from lattice.core.model.work.allocations import AllocationState, Request
from lattice.core.model.work.evictions import EvictionReason, VictimPhase
from tests.unit.core.scheduler.test_preemption import Busy, victims_of
from tests.unit.core.scheduler.world import HOUR, nodes_of

LENDS = Lending(lends=Lends.IDLE)
BORROWS = Lending(borrows=True)


class TwoHomes(Busy):
    """Home has n1 and n2 and lends them; guest has n3 and borrows."""

    def __init__(self, home: Lending = LENDS, guest: Lending = BORROWS, **fields: object) -> None:
        super().__init__(3)
        self.set_vcluster("home", nodes=("n1", "n2"), demands=Demands(lending=home), **fields)
        self.set_vcluster("guest", nodes=("n3",), demands=Demands(lending=guest), **fields)


def start(world: Busy, **fields: object) -> int:
    """Work of the guest that the next plan starts."""
    nodes = fields.pop("nodes", 1)
    number = world.submit(Request(nodes=nodes), seen=None, **{"vcluster": "guest", **fields})  # type: ignore[arg-type]
    world.run_cycle()
    return number


def test_own_nodes_come_first_and_as_few_foreign_ones_as_it_takes() -> None:
    world = TwoHomes()
    number = world.submit(Request(nodes=2), vcluster="guest")
    assert nodes_of(world.run_cycle()) == {number: ("n1", "n3")}
    assert world.state.nodes["n1"].vcluster == "guest"


@pytest.mark.parametrize(
    ("home", "guest", "fields"),
    [
        (Lending(), BORROWS, {}),
        (LENDS, Lending(), {}),
        (Lending(lends=Lends.IDLE, lend_to=("home2",)), BORROWS, {}),
        (LENDS, BORROWS, {"preemption_class": 7}),
        (LENDS, Lending(borrows=True, max_borrow_s=60), {}),
        (LENDS, Lending(borrows=True, max_borrowed=1), {"nodes": 2}),
        (Lending(lends=Lends.IDLE, max_lent=1), BORROWS, {"nodes": 2}),
        (Lending(lends=Lends.IDLE, lend_after_s=600), BORROWS, {}),
    ],
)
def test_what_is_not_lent_is_not_given(home: Lending, guest: Lending, fields: dict[str, object]) -> None:
    world = Busy(3)
    world.set_vcluster("home2", nodes=("n9",))
    world.set_vcluster("home", nodes=("n1", "n2"), demands=Demands(lending=home))
    world.set_vcluster("guest", nodes=("n3",), demands=Demands(lending=guest))
    start(world)  # on the guest's own node
    number = start(world, **fields)
    assert world.state.allocations[number].state is AllocationState.PENDING


def test_a_node_is_lent_when_it_was_idle_for_long_enough() -> None:
    world = TwoHomes(Lending(lends=Lends.IDLE, lend_after_s=600))
    number = start(world, nodes=2)
    world.later(600_000)
    assert nodes_of(world.run_cycle()) == {number: ("n1", "n3")}


def test_work_of_the_home_comes_first() -> None:
    world = TwoHomes()
    guest = world.submit(Request(nodes=2), vcluster="guest", preemption_class=6)
    home = world.submit(Request(nodes=2), vcluster="home", preemption_class=1)
    assert nodes_of(world.run_cycle()) == {home: ("n1", "n2")}
    assert world.state_of(guest) is AllocationState.PENDING


def test_of_those_that_borrow_the_one_of_the_highest_priority_comes_first() -> None:
    world = TwoHomes(Lending(lends=Lends.IDLE, max_lent=1))
    world.set_vcluster("eager", nodes=("n9",), demands=Demands(lending=Lending(borrows=True, borrow_priority=5)))
    world.submit(Request(nodes=2), vcluster="guest")
    eager = world.submit(Request(), vcluster="eager")
    assert nodes_of(world.run_cycle()) == {eager: ("n1",)}


def test_a_node_with_two_homes_is_lent_only_if_both_lend_it() -> None:
    world = TwoHomes()
    world.set_vcluster("also", nodes=("n1", "n2"))
    start(world)
    number = start(world)
    assert world.state_of(number) is AllocationState.PENDING


def test_shares_run_on_borrowed_nodes_too() -> None:
    world = TwoHomes(node_sharing=NodeSharing.SHARED)
    first = world.submit(Request(cpus=4), vcluster="guest")
    second = world.submit(Request(cpus=3), vcluster="guest")
    assert nodes_of(world.run_cycle()) == {first: ("n3",), second: ("n1",)}


def test_tasks_of_a_group_borrow_as_many_nodes_as_there_are() -> None:
    world = TwoHomes()
    group = world.submit(Request(), vcluster="guest", tasks=((0, 9, 1),))
    assert nodes_of(world.run_cycle()) == {group + 1: ("n3",), group + 2: ("n1",), group + 3: ("n2",)}


def test_a_vcluster_that_never_had_work_borrows_nothing() -> None:
    world = TwoHomes()
    number = world.submit(Request(), vcluster="home")
    assert nodes_of(world.run_cycle()) == {number: ("n1",)}


def test_lent_nodes_on_which_work_only_starts_cannot_be_asked_back_yet() -> None:
    world = TwoHomes()
    start(world, nodes=3)
    world.submit(Request(), vcluster="home")
    assert not world.run_cycle().takings


def test_what_is_kept_for_one_task_is_not_given_up_when_the_next_could_borrow() -> None:
    world = Busy(3)
    both = Lending(lends=Lends.IDLE, borrows=True)
    world.set_vcluster("home", nodes=("n1",), demands=Demands(lending=both))
    world.set_vcluster("guest", nodes=("n2",), demands=Demands(lending=BORROWS))
    for each in (start(world), start(world)):
        world.report_running(each)
    world.set_vcluster("third", nodes=("n3",), demands=Demands(lending=LENDS))
    group = world.submit(Request(), vcluster="home", tasks=((0, 3, 1),))
    plan = world.run_cycle()
    [taking] = plan.takings
    assert (taking.number, taking.shares[0].node, nodes_of(plan)) == (group + 1, "n1", {})


def test_idle_nodes_of_others_are_preferred_to_work_that_runs() -> None:
    world = TwoHomes()
    low = start(world, preemption_class=0)
    world.report_running(low)
    world.later()
    high = world.submit(Request(), vcluster="guest", preemption_class=6)
    plan = world.run_cycle()
    assert (plan.takings, nodes_of(plan)) == ((), {high: ("n1",)})


def test_a_reclaim_does_not_turn_preemption_on() -> None:
    world = TwoHomes()
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    for each in [start(world, preemption_class=0, walltime_s=4 * 3600) for _ in range(2)]:
        world.report_running(each)
    world.later()
    world.submit(Request(nodes=2), vcluster="home", preemption_class=9)
    world.submit(Request(), vcluster="guest", preemption_class=8)
    assert [taking.reason for taking in world.run_cycle().takings] == [EvictionReason.RECLAIM]


def test_work_of_the_home_reclaims_just_enough_whatever_the_class_and_the_run_time() -> None:
    world = TwoHomes()
    first, second = start(world, preemption_class=6), start(world, preemption_class=6)
    third = start(world, preemption_class=6)
    for each in (first, second, third):
        world.report_running(each)
    home = world.submit(Request(), vcluster="home", preemption_class=0)
    plan = world.run_cycle()
    [taking] = plan.takings
    assert taking.reason is EvictionReason.RECLAIM
    assert len(taking.victims) == 1
    victim = taking.victims[0][0]
    [kept] = [each for each in plan.reservations if each.number == home]
    assert kept.start_at == world.now + 60_000 + 30_000, "what is lent counts as free after its grace"
    assert world.state_of(victim) is AllocationState.RUNNING, "it is warned first"
    assert not world.run_cycle().takings
    assert isinstance(world.try_to(StopVictims(number=home)), Rejected)
    world.later(60_000)
    world.do(StopVictims(number=home))
    assert world.state_of(victim) is AllocationState.STOPPING
    assert isinstance(world.try_to(StopVictims(number=home)), Rejected)
    world.stopped(victim)
    record = world.state.allocations[victim]
    assert record.message == "preempted: the nodes were borrowed and are needed at home"
    assert nodes_of(world.run_cycle())[home] in {("n1",), ("n2",)}


def test_a_warned_borrower_goes_on_when_the_home_needs_nothing_any_more() -> None:
    world = TwoHomes()
    guest = start(world, nodes=3)
    world.report_running(guest)
    home = world.submit(Request(), vcluster="home")
    world.run_cycle()
    assert world.state.evictions.records[home].victims[0].phase is VictimPhase.WARNED
    world.do(CancelAllocation(number=home))
    assert not world.state.evictions.records
    assert world.state_of(guest) is AllocationState.RUNNING


def test_without_a_grace_the_borrower_is_stopped_at_once() -> None:
    world = TwoHomes(Lending(lends=Lends.IDLE, return_grace_s=0))
    guest = start(world, nodes=3)
    world.report_running(guest)
    world.submit(Request(), vcluster="home")
    world.run_cycle()
    assert world.state_of(guest) is AllocationState.STOPPING


def test_what_ends_sooner_than_the_grace_is_waited_for() -> None:
    world = TwoHomes()
    guest = start(world, nodes=3, walltime_s=3600)
    world.report_running(guest)
    world.later(HOUR - 50_000)
    world.submit(Request(), vcluster="home")
    assert not world.run_cycle().takings


def test_a_reclaim_works_while_preemption_is_off() -> None:
    world = TwoHomes()
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    guest = start(world, nodes=3)
    world.report_running(guest)
    home = world.submit(Request(), vcluster="home")
    assert victims_of(world.run_cycle()) == {home: (guest,)}


def test_services_are_taken_by_higher_classes_only_on_borrowed_nodes() -> None:
    world = Busy(3)
    world.set_vcluster("home", nodes=("n1", "n2"), demands=Demands(lending=LENDS))
    world.set_vcluster("web", scheduler="service-bin-pack", nodes=("n3",), demands=Demands(lending=BORROWS))
    at_home = world.submit(Request(), vcluster="web", walltime_s=36_000, preemption_class=1)
    abroad = world.submit(Request(), vcluster="web", walltime_s=36_000, preemption_class=1)
    world.run_cycle()
    for each in (at_home, abroad):
        world.report_running(each)
    world.later()
    assert world.state.allocations[abroad].nodes == ("n1",)
    high = world.submit(Request(nodes=2, node_list=("n1", "n2")), preemption_class=9)
    world.submit(Request(node_list=("n3",)), preemption_class=9)
    assert victims_of(world.plan()) == {high: (abroad,)}


def test_below_the_level_nothing_is_lent_because_nothing_can_be_set() -> None:
    world = TwoHomes()
    assert isinstance(world.try_to(RaiseLevel(level=9)), Rejected)


def test_borrowing_stops_at_the_limits_of_the_tenant() -> None:
    world = TwoHomes()
    world.do(SetTenant(tenant=Tenant(name="default", on_quota=OnQuota.QUEUE, max_concurrent_allocations=2)))
    group = world.submit(Request(), vcluster="guest", tasks=((0, 3, 1),))
    assert nodes_of(world.run_cycle()) == {group + 1: ("n3",), group + 2: ("n1",)}
    other = TwoHomes()
    other.do(SetTenant(tenant=Tenant(name="default", on_quota=OnQuota.QUEUE, max_nodes=2)))
    group = other.submit(Request(nodes=2), vcluster="guest", tasks=((0, 3, 1),))
    assert nodes_of(other.run_cycle()) == {group + 1: ("n1", "n3")}


def test_borrowed_shares_count_as_nodes_of_the_tenant() -> None:
    world = TwoHomes(node_sharing=NodeSharing.SHARED)
    world.do(SetTenant(tenant=Tenant(name="default", on_quota=OnQuota.QUEUE, max_nodes=1)))
    first = world.submit(Request(cpus=4), vcluster="guest")
    second = world.submit(Request(cpus=3), vcluster="guest")
    assert nodes_of(world.run_cycle()) == {first: ("n3",)}
    assert world.state_of(second) is AllocationState.PENDING


@pytest.mark.parametrize(("prints", "nodes"), [("xxy", ("n1", "n2")), ("xyx", None)])
def test_borrowed_nodes_are_alike_where_the_work_wants_that(prints: str, nodes: tuple[str, ...] | None) -> None:
    world = TwoHomes()
    world.cycle.signals = Signals(fingerprints=dict(zip(("n1", "n2", "n3"), prints, strict=True)))
    number = world.submit(Request(nodes=2, require_conformance=True), vcluster="guest")
    assert nodes_of(world.run_cycle()).get(number) == nodes


def test_borrowing_keeps_the_power_budget() -> None:
    world = Busy(0)
    for name in ("n1", "n2"):
        world.add_node(name, power_w=300)
    world.set_vcluster("home", nodes=("n1",), demands=Demands(lending=LENDS))
    world.set_vcluster("guest", nodes=("n2",), demands=Demands(lending=BORROWS))
    world.do(SetSetting(key="scheduler.power_budget_w", value="400"))
    first, second = (world.submit(Request(), vcluster="guest") for _ in range(2))
    assert nodes_of(world.run_cycle()) == {first: ("n2",)}
    assert world.state_of(second) is AllocationState.PENDING


def test_a_plan_asks_for_loans_only_so_often() -> None:
    world = TwoHomes()
    start(world, nodes=3)
    rows = [world.submit(Request(nodes=2), vcluster="guest", user=f"u{index}") for index in range(80)]
    assert not world.run_cycle().placements
    assert world.state_of(rows[-1]) is AllocationState.PENDING
