"""Whom waiting work could preempt and what protects the others, in counts; until when running work is safe."""

from lattice.core.machine.commands import DrainNode, SetSetting
from lattice.core.model.capacity.standing import Candidates, Standing, standing
from lattice.core.model.site.tenants import Demands, Preemption
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.evictions import Protection, limits_of
from lattice.core.scheduler.proposals import Plan
from tests.unit.core.scheduler.test_lending import TwoHomes, start
from tests.unit.core.scheduler.test_preemption import MINUTE, Busy
from tests.unit.core.scheduler.world import HOUR


def candidates(plan: Plan, number: int) -> Candidates:
    found = plan.candidates(number)
    assert found is not None
    return found


def stands(world: Busy, number: int) -> Standing:
    state = world.state
    return standing(state.allocations[number], state.vclusters, state.nodes, limits_of(state.settings), world.now)


def test_each_protection_is_counted_once() -> None:
    world = Busy(6)
    world.set_vcluster("safe", demands=Demands(preemption=Preemption.NEVER))
    world.running("n1", preemption_class=8)
    world.running("n2", preemption_class=6)
    world.running("n3", vcluster="safe")
    world.running("n4", walltime_s=3600 + 60)
    world.later()
    world.running("n5")
    world.running("n6")
    world.later(MINUTE)
    number = world.submit(Request(nodes=1), preemption_class=6)
    found = candidates(world.plan(), number)
    assert (found.could_take, dict(found.protected)) == (0, {"class": 2, "vcluster": 1, "young": 2, "ending": 1})
    assert found.text == (
        "it may preempt none of 6 running on suitable nodes: 2 are of class 6 or higher, or never preempted, "
        "1 is in a vCluster whose work is not preempted, 2 have run for less than preemption.min_runtime_s, "
        "1 ends within preemption.near_completion_s; so it waits"
    )


def test_work_that_was_taken_often_enough_is_counted() -> None:
    world = Busy(1)
    world.running("n1")
    world.do(SetSetting(key="preemption.max_per_allocation", value="0"))
    world.later()
    number = world.submit(preemption_class=9)
    assert candidates(world.plan(), number).protected == {"taken_often": 1}


def test_work_that_waits_for_something_else_or_where_nothing_runs_has_none() -> None:
    world = Busy(2)
    world.running("n1")
    world.later()
    number = world.submit(Request(nodes=1, node_list=("n2",)), preemption_class=9)
    assert world.plan().candidates(number) is None, "it starts"
    world.do(DrainNode(node="n2"))
    assert world.plan().candidates(number) is None, "nothing runs on nodes that suit it"
    world.set_vcluster("default", is_up=False)
    assert world.plan().candidates(number) is None, "it does not wait for room"
    assert world.plan().candidates(number + 1) is None


def test_without_anything_lower_all_are_of_the_class_or_higher() -> None:
    world = Busy(1)
    world.running("n1", preemption_class=5)
    world.later()
    number = world.submit(preemption_class=5)
    found = candidates(world.plan(), number)
    assert (found.could_take, dict(found.protected)) == (0, {"class": 1})
    assert "1 is of class 5 or higher, or never preempted" in found.text


def test_it_says_who_leaves_for_it_in_this_plan_and_later() -> None:
    world = Busy(2)
    low = world.running("n1", "n2")
    world.later()
    number = world.submit(Request(nodes=2), preemption_class=9)
    plan = world.run_cycle()
    expected = "it may preempt none of 1 running on suitable nodes: 1 is being preempted already; 1 is preempted for it"
    assert candidates(plan, number).text == expected
    assert candidates(world.plan(), number).protected == {"class": 1}, "it is not Running any more"
    world.stopped(low)
    assert world.plan().candidates(number) is None


def test_several_leave_for_one() -> None:
    world = Busy(2)
    world.running("n1")
    world.running("n2")
    world.later()
    number = world.submit(Request(nodes=2), preemption_class=9)
    assert candidates(world.run_cycle(), number).text.endswith("; 2 are preempted for it")
    other = world.submit(preemption_class=8)
    assert candidates(world.plan(), other).text.endswith("; so it waits"), "who leaves for others is not counted for it"


def test_a_borrower_that_gives_back_is_told_apart() -> None:
    world = TwoHomes()
    guest = start(world, nodes=3)
    world.report_running(guest)
    home = world.submit(vcluster="home")
    assert candidates(world.run_cycle(), home).text.endswith("; 1 gives back what it borrowed for it")


def test_it_says_why_nobody_is_taken_although_somebody_could_be() -> None:
    world = Busy(4)
    for index in range(1, 5):
        world.running(f"n{index}")
    world.later()
    wide = world.submit(Request(nodes=4), preemption_class=9)
    found = candidates(world.plan(), wide)
    assert found.could_take == 4
    assert found.text.endswith("; no 3 of them or fewer make room for it sooner at a cost below its value")
    world.do(SetSetting(key="preemption.patience_s", value=str(24 * 3600)))
    assert candidates(world.plan(), wide).text.endswith("; it starts within preemption.patience_s without")
    world.do(SetSetting(key="preemption.max_victims", value="0"))
    assert candidates(world.plan(), wide).text.endswith("; preemption is off (preemption.max_victims is 0)")


def test_a_row_that_was_not_looked_at_says_so() -> None:
    world = Busy(4)
    for index in range(1, 5):
        world.running(f"n{index}")
    world.later()
    rows = [world.submit(Request(nodes=4), preemption_class=9, user=f"u{index}") for index in range(120)]
    plan = world.plan()
    said = {candidates(plan, row).text.rsplit("; ", 1)[1] for row in rows}
    assert "its turn has not come yet" in said


def test_running_work_is_safe_until_its_first_minutes_are_over() -> None:
    world = Busy(1)
    number = world.running("n1")
    begun = world.now
    found = stands(world, number)
    assert (found.protection, found.safe_until) == (Protection.YOUNG, begun + 5 * MINUTE)
    world.later()
    found = stands(world, number)
    assert (found.protection, found.safe_until, found.cost, found.notice_s) == (None, None, 3600.0, None)


def test_work_that_ends_soon_is_safe_to_its_end() -> None:
    world = Busy(1)
    number = world.running("n1", walltime_s=540)
    assert stands(world, number) == Standing(protection=Protection.YOUNG, safe_until=None, cost=0.0)
    endless = Busy(1)
    number = endless.running("n1", walltime_s=0)
    assert stands(endless, number).safe_until == endless.now + 5 * MINUTE


def test_work_on_borrowed_nodes_knows_its_notice() -> None:
    world = TwoHomes()
    guest = start(world, nodes=3)
    world.report_running(guest)
    world.later(HOUR)
    assert stands(world, guest).notice_s == 60
