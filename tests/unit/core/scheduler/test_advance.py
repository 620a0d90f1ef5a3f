"""Advance and maintenance reservations: nothing runs into one that does not admit it."""

from lattice.core.machine.commands import DeleteReservation, SetReservation
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.work.allocations import Request
from tests.unit.core.scheduler.world import HOUR, FirstCome, nodes_of, reason


def reserved_world(*, nodes: tuple[str, ...] = (), **fields: object) -> FirstCome:
    """Two nodes and a reservation called upkeep from two to three hours ahead."""
    world = FirstCome()
    world.add_nodes(["n1", "n2"])
    start, end = world.now + 2 * HOUR, world.now + 3 * HOUR
    record = AdvanceReservation(name="upkeep", start_at=start, end_at=end, nodes=nodes, **fields)  # type: ignore[arg-type]
    world.do(SetReservation(reservation=record, create=True))
    return world


def starts(world: FirstCome) -> dict[int, float]:
    return {kept.number: (kept.start_at - world.now) / HOUR for kept in world.plan().reservations}


def test_work_that_ends_before_starts_and_longer_work_waits_until_after() -> None:
    world = reserved_world()
    short, long = world.submit(walltime_s=7200), world.submit(walltime_s=7201)
    assert list(nodes_of(world.plan())) == [short]
    assert starts(world) == {long: 3.0}


def test_the_reason_names_the_reservation() -> None:
    world = reserved_world()
    number = world.submit(walltime_s=4 * 3600)
    text = reason(world.plan(), number)
    assert text == (
        'reservation "upkeep" lasts from 14:00 UTC to 15:00 UTC: 0 of 2 nodes free, 2 kept for others; '
        "the 1st is free at 15:00 UTC"
    )


def test_other_nodes_stay_open() -> None:
    world = reserved_world(nodes=("n1",))
    number = world.submit(walltime_s=4 * 3600)
    assert nodes_of(world.plan()) == {number: ("n2",)}


def test_those_it_admits_may_start_before_and_inside() -> None:
    world = reserved_world(users=("bob",))
    stranger, guest = world.submit(Request(nodes=2), walltime_s=9000), world.submit(user="bob", walltime_s=9000)
    assert list(nodes_of(world.run_cycle())) == [guest]
    assert starts(world) == {stranger: 3.0}
    world.now += 2 * HOUR
    late = world.submit(user="bob", walltime_s=1800)
    assert list(nodes_of(world.plan())) == [late]


def test_nobody_starts_inside_a_window_that_admits_nobody() -> None:
    world = reserved_world()
    world.now += 2 * HOUR + 1000
    number = world.submit(walltime_s=60)
    plan = world.plan()
    assert plan.placements == ()
    assert plan.reservations[0].number == number
    assert plan.reservations[0].start_at == world.now - 1000 + HOUR


def test_each_repeat_counts() -> None:
    world = reserved_world(repeat_s=4 * 3600)
    long, longer = world.submit(walltime_s=3 * 3600), world.submit(walltime_s=3 * 3600 + 1)
    assert starts(world) == {long: 3.0}
    assert "is not known" in reason(world.plan(), longer)


def test_a_reservation_that_is_over_closes_nothing() -> None:
    world = reserved_world()
    world.now += 3 * HOUR
    number = world.submit(walltime_s=9000)
    assert list(nodes_of(world.plan())) == [number]


def test_one_that_was_deleted_keeps_nothing_from_starting() -> None:
    world = reserved_world()
    number = world.submit(walltime_s=4 * 3600)
    assert not world.plan().placements
    world.do(DeleteReservation(name="upkeep"))
    assert list(nodes_of(world.plan())) == [number]
