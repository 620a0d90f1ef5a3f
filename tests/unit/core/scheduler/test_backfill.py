"""The first allocation that does not fit is waited for, and nothing that starts meanwhile delays it."""

from lattice.core.machine.commands import CancelAllocation, DrainNode, SetReservation, UpdateAllocation
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.proposals import Reservation
from lattice.core.scheduler.score.profiles import Profile
from tests.unit.core.scheduler.world import HOUR, FirstCome, World, nodes_of, reason


def busy_world(*hours: int, free: int = 0) -> World:
    """Nodes that have been running for no time at all and end after so many hours (0 = never), then free ones."""
    world = FirstCome()
    for index, length in enumerate(hours):
        world.add_node(f"b{index}")
        number = world.submit(walltime_s=length * 3600)
        world.place(number, f"b{index}")
        world.report_running(number)
    world.add_nodes([f"f{index}" for index in range(free)])
    return world


def test_the_reservation_starts_when_enough_nodes_are_free() -> None:
    world = busy_world(1, 5, 3)
    number = world.submit(Request(nodes=2))
    kept = Reservation(number=number, start_at=world.now + 3 * HOUR, nodes=("b0", "b2"))
    assert world.plan().reservations == (kept,)


def test_short_work_fills_the_gap_before_a_reservation() -> None:
    world = busy_world(2, free=1)
    wide = world.submit(Request(nodes=2))
    long, short = world.submit(walltime_s=3 * 3600), world.submit(walltime_s=2 * 3600)
    plan = world.plan()
    assert nodes_of(plan) == {short: ("f0",)}
    starts = {kept.number: kept.start_at - world.now for kept in plan.reservations}
    assert starts == {wide: 2 * HOUR, long: 3 * HOUR}


def test_work_without_a_walltime_does_not_fill_a_gap() -> None:
    world = busy_world(2, free=1)
    world.submit(Request(nodes=2))
    endless = world.submit(walltime_s=0)
    plan = world.plan()
    assert plan.placements == ()
    assert reason(plan, endless).startswith("all suitable nodes occupied: 0 of 2 nodes free, 1 kept for others, 1 busy")


def test_long_work_starts_on_nodes_that_the_reservation_does_not_need() -> None:
    world = busy_world(2, 2, free=2)
    wide = world.submit(Request(nodes=3))
    long = world.submit(walltime_s=50 * 3600)
    plan = world.plan()
    assert plan.reservations[0].nodes == ("b0", "b1", "f0")
    assert nodes_of(plan) == {long: ("f1",)}
    assert wide not in nodes_of(plan)


def test_what_the_plan_itself_starts_is_looked_at_too() -> None:
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    world.submit(walltime_s=4 * 3600)
    wide = world.submit(Request(nodes=2))
    plan = world.plan()
    assert plan.reservations == (Reservation(number=wide, start_at=world.now + 4 * HOUR, nodes=("n1", "n2")),)


def test_work_without_an_end_is_not_waited_for() -> None:
    world = busy_world(0, free=1)
    wide = world.submit(Request(nodes=2))
    small = world.submit(walltime_s=0)
    plan = world.plan()
    assert plan.reservations == ()
    assert nodes_of(plan) == {small: ("f0",)}
    text = reason(plan, wide)
    assert text == "all suitable nodes occupied: 0 of 2 nodes free, 2 busy; when the 2nd will be free is not known"


def test_the_next_blocked_allocation_is_waited_for_when_the_first_cannot_be() -> None:
    world = busy_world(0, 2)
    world.submit(Request(nodes=2))
    second = world.submit()
    assert [kept.number for kept in world.plan().reservations] == [second]


def test_a_stopping_allocation_is_expected_to_be_gone_soon() -> None:
    world = busy_world(0)
    world.do(CancelAllocation(number=1))
    number = world.submit()
    assert world.plan().reservations == (Reservation(number=number, start_at=world.now + 30_000, nodes=("b0",)),)


def test_work_past_its_end_is_expected_to_be_gone_at_any_moment() -> None:
    world = busy_world(1)
    number = world.submit()
    world.now += 2 * HOUR
    assert world.plan().reservations == (Reservation(number=number, start_at=world.now + 1000, nodes=("b0",)),)


def test_a_longer_walltime_moves_the_reservation() -> None:
    world = busy_world(1)
    world.submit()
    world.do(UpdateAllocation(number=1, walltime_s=7200))
    assert world.plan().reservations[0].start_at == world.now + 2 * HOUR


def test_a_drained_node_is_not_waited_for() -> None:
    world = busy_world(1, 5)
    world.do(DrainNode(node="b0"))
    world.submit()
    assert world.plan().reservations[0].nodes == ("b1",)


def test_each_vcluster_has_a_reservation_of_its_own() -> None:
    world = busy_world(1, 2)
    world.set_vcluster("other")
    here, there = world.submit(walltime_s=600), world.submit(vcluster="other")
    kept = {r.number: (r.start_at - world.now, r.nodes) for r in world.plan().reservations}
    assert kept == {here: (HOUR, ("b0",)), there: (HOUR + 600_000, ("b0",))}


def test_one_reservation_waits_for_the_end_of_another_on_the_same_node() -> None:
    world = busy_world(1)
    world.set_vcluster("other")
    world.submit()
    there = world.submit(vcluster="other")
    kept = {r.number: r.start_at - world.now for r in world.plan().reservations}
    assert kept[there] == 2 * HOUR


def test_a_share_is_waited_for_until_enough_was_given_back() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.add_node("n1", cpus=4, memory_mb=4000)
    for hours in (3, 1, 2, 4):
        world.submit(walltime_s=hours * 3600)
    world.run_cycle()
    number = world.submit(Request(cpus=2))
    kept = Reservation(number=number, start_at=world.now + 2 * HOUR, nodes=("n1",))
    assert world.plan().reservations == (kept,)


def test_a_whole_node_is_waited_for_until_its_last_share_ends() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.add_node("n1")
    for hours in (3, 1):
        world.submit(walltime_s=hours * 3600)
    world.run_cycle()
    world.submit(Request(exclusive=True))
    assert world.plan().reservations[0].start_at == world.now + 3 * HOUR


def test_a_node_shared_by_another_vcluster_is_waited_for_until_it_is_empty() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.set_vcluster("other", node_sharing=NodeSharing.SHARED)
    world.add_node("n1")
    for hours in (3, 1):
        world.submit(walltime_s=hours * 3600)
    world.run_cycle()
    world.submit(vcluster="other")
    assert world.plan().reservations[0].start_at == world.now + 3 * HOUR


def test_short_shares_fill_up_a_node_that_is_kept() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.add_node("n1")
    world.submit(Request(cpus=2), walltime_s=2 * 3600)
    world.run_cycle()
    wide = world.submit(Request(cpus=4))
    long, short = world.submit(walltime_s=5 * 3600), world.submit(walltime_s=3600)
    plan = world.plan()
    assert list(nodes_of(plan)) == [short]
    assert [kept.number for kept in plan.reservations] == [wide, long]
    assert reason(plan, long).startswith("all suitable nodes occupied: 0 of 1 node with room, 1 kept for others")


def test_a_long_share_fits_beside_what_is_kept_on_the_same_node() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.add_node("n1", cpus=8)
    world.submit(Request(cpus=4), walltime_s=2 * 3600)
    world.run_cycle()
    wide = world.submit(Request(cpus=6))
    beside, too_wide = world.submit(Request(cpus=2), walltime_s=50 * 3600), world.submit(walltime_s=50 * 3600)
    plan = world.plan()
    assert list(nodes_of(plan)) == [beside]
    starts = {kept.number: kept.start_at - world.now for kept in plan.reservations}
    assert starts == {wide: 2 * HOUR, too_wide: 3 * HOUR}


def test_several_reservations_share_a_node_as_far_as_it_goes() -> None:
    world = FirstCome(NodeSharing.SHARED)
    world.add_node("n1", cpus=8)
    world.submit(Request(cpus=8))
    world.run_cycle()
    numbers = [world.submit(Request(cpus=cpus), walltime_s=3600) for cpus in (5, 4, 3, 4)]
    starts = {kept.number: (kept.start_at - world.now) // HOUR for kept in world.plan().reservations}
    assert starts == dict(zip(numbers, (1, 2, 1, 2), strict=True))


class TestPromises:
    def test_later_work_with_a_higher_score_does_not_move_a_promise(self) -> None:
        world = World()
        world.add_nodes(["n1", "n2"])
        first = world.submit(walltime_s=7200)
        world.run_cycle()
        world.report_running(first)
        wide = world.submit(Request(nodes=2))
        promised = world.run_cycle().reservations[0]
        assert promised.number == wide
        world.now += 600_000
        for _ in range(3):
            world.submit(walltime_s=7200)
        plan = world.plan()
        assert plan.placements == ()
        assert promised in plan.reservations

    def test_work_of_a_higher_class_may_move_it(self) -> None:
        world = FirstCome()
        world.add_node("n1")
        first = world.submit()
        world.run_cycle()
        world.report_running(first)
        low = world.submit()
        assert [kept.number for kept in world.run_cycle().reservations] == [low]
        high = world.submit(preemption_class=8)
        starts = {kept.number: kept.start_at - world.now for kept in world.plan().reservations}
        assert starts == {high: HOUR, low: 2 * HOUR}

    def test_a_promise_becomes_earlier_when_work_ends_early(self) -> None:
        world = busy_world(4, 6)
        wide = world.submit(Request(nodes=2))
        assert world.run_cycle().reservations[0].start_at == world.now + 6 * HOUR
        world.finish(2)
        assert world.run_cycle().reservations == (
            Reservation(number=wide, start_at=world.now + 4 * HOUR, nodes=("b0", "b1")),
        )

    def test_the_nodes_stay_the_same_while_the_time_does(self) -> None:
        world = busy_world(1, 2, 3)
        number = world.submit(Request(nodes=2))
        assert world.run_cycle().reservations[0].nodes == ("b0", "b1")
        world.add_node("a0")
        world.place(world.submit(walltime_s=7200), "a0")
        kept = Reservation(number=number, start_at=world.now + 2 * HOUR, nodes=("b0", "b1"))
        assert world.plan().reservations == (kept,)

    def test_a_promise_that_cannot_be_kept_is_made_anew(self) -> None:
        world = busy_world(1, 5)
        number = world.submit()
        world.run_cycle()
        world.do(DrainNode(node="b0"))
        kept = Reservation(number=number, start_at=world.now + 5 * HOUR, nodes=("b1",))
        assert world.plan().reservations == (kept,)

    def test_promises_are_kept_to_the_letter_when_those_before_move(self) -> None:
        """The younger of two promised allocations now ranks higher, and could take the nodes of the older one."""
        world = FirstCome()
        start = world.now + 8 * HOUR
        far = AdvanceReservation(name="far", start_at=start + 90 * HOUR, end_at=start + 91 * HOUR)
        world.do(SetReservation(reservation=far, create=True))
        world.add_nodes(["n1", "n2", "n3"])
        for hours in (1, 2, 3):
            world.report_running(self.started(world, hours))
        older, younger = world.submit(Request(nodes=2)), world.submit(Request(nodes=2), walltime_s=7200)
        before = {kept.number: kept.start_at for kept in world.run_cycle().reservations}
        world.do(UpdateAllocation(number=younger, preemption_class=9))
        after = {kept.number: kept.start_at for kept in world.plan().reservations}
        assert after[older] <= before[older]
        assert after[younger] <= before[younger]

    def started(self, world: FirstCome, hours: int) -> int:
        number = world.submit(walltime_s=hours * 3600)
        world.run_cycle()
        return number

    def test_a_profile_may_choose_not_to_keep_them(self) -> None:
        world = FirstCome()
        world.cycle.profiles["default"] = Profile(order="fifo", keeps_promises=False)
        world.add_nodes(["n1", "n2"])
        first = world.submit(walltime_s=7200)
        world.run_cycle()
        world.report_running(first)
        wide = world.submit(Request(nodes=2))
        assert [kept.number for kept in world.run_cycle().reservations] == [wide]
        urgent = world.submit(Request(nodes=2), preemption_class=9)
        starts = {kept.number: kept.start_at - world.now for kept in world.plan().reservations}
        assert starts == {urgent: 2 * HOUR, wide: 3 * HOUR}

    def test_claims_are_not_waited_for(self) -> None:
        world = FirstCome()
        world.cycle.profiles["default"] = Profile(order="fifo", claims_only=True)
        world.add_node("n1")
        world.submit()
        world.run_cycle()
        number = world.submit()
        plan = world.plan()
        assert plan.reservations == ()
        assert plan.explain(number) is not None


def test_a_share_waits_for_a_single_node_that_does_not_suit_it() -> None:
    world = FirstCome(NodeSharing.SHARED)
    number = world.submit(Request(features=("nvme",)))
    world.add_node("n1")
    world.submit()
    world.run_cycle()
    assert reason(world.plan(), number).startswith("no nodes matching constraints: 0 of 1")


def test_work_that_starts_ahead_of_a_reservation_is_marked_as_backfill() -> None:
    world = busy_world(2, free=2)
    first = world.submit(walltime_s=3600)
    world.submit(Request(nodes=2))
    short = world.submit(walltime_s=3600)
    placed = {each.number: (each.vcluster, each.is_backfill) for each in world.plan().placements}
    assert placed == {first: ("default", False), short: ("default", True)}
