"""How many heartbeats of a node are heard."""

from lattice.control.heartbeats import BURST, Allowance, beats_per_s


def test_a_node_may_beat_four_times_in_an_interval_and_at_least_once_a_second() -> None:
    assert beats_per_s(10) == 1.0
    assert beats_per_s(0.5) == 8.0
    assert beats_per_s(0) == 1.0


def test_what_was_saved_is_bounded() -> None:
    allowance = Allowance(2.0)
    assert sum(allowance.take(1000.0) for _ in range(100)) == BURST
    assert sum(allowance.take(1003.0) for _ in range(100)) == 6


def test_a_heartbeat_that_was_under_way_for_long_costs_no_more_than_another() -> None:
    allowance = Allowance(80.0, filled_at=100.0)
    assert [allowance.take(at) for at in (90.0, 95.0, 91.0)] == [True] * 3
    assert allowance.left == BURST - 3
