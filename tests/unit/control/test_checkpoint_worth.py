"""When a checkpoint is worth it: the four scenarios of the specification, and how requests are spread."""

import math

import pytest
from msgspec.structs import replace

from lattice.control.checkpoints.worth import (
    BANDWIDTH,
    RETRY_S,
    Climate,
    Estimate,
    Standing,
    chosen,
    cost,
    estimate_of,
    failure_probability,
    is_worth_it,
    value,
)

HOUR = 3600.0
QUIET = Climate()
WORK = Standing(
    number=1,
    run=1,
    units=8,
    nodes=1,
    since_s=HOUR,
    left_s=48 * HOUR,
    estimate=Estimate(bytes=60e9, seconds=60.0),
)


def first_moment(standing: Standing, climate: Climate) -> float:
    """Seconds after the last checkpoint at which the next one is worth it, looked at each half minute."""
    return next(s for s in map(float, range(0, 200_000, 30)) if is_worth_it(replace(standing, since_s=s), climate))


# The four scenarios of the specification.


def test_a_quiet_system_with_healthy_nodes_checkpoints_about_every_six_hours() -> None:
    assert 5 * HOUR < first_moment(WORK, QUIET) < 7 * HOUR


def test_a_deep_queue_with_work_that_may_take_the_nodes_checkpoints_now() -> None:
    pressed = replace(WORK, demand=1.0, since_s=300.0)
    assert is_worth_it(pressed, Climate(backlog=1.0))
    assert not is_worth_it(replace(pressed, demand=0.0), QUIET)


def test_a_node_whose_memory_errors_increase_is_left_with_a_checkpoint_soon() -> None:
    assert first_moment(replace(WORK, sick_nodes=1), QUIET) < HOUR / 4


def test_large_work_that_nears_its_walltime_writes_one_checkpoint_from_which_it_starts_again() -> None:
    near = replace(WORK, left_s=200.0)
    assert is_worth_it(near, QUIET)
    assert not is_worth_it(replace(near, left_s=1000.0), QUIET)
    assert not is_worth_it(replace(near, left_s=30.0), QUIET), "it could not be complete before the end"
    assert not is_worth_it(replace(near, since_s=61.0), QUIET), "it was written already"
    assert not is_worth_it(replace(near, left_s=None), QUIET)


# Figures.


def test_failures_alone_give_the_rule_of_young() -> None:
    bare = replace(WORK, estimate=Estimate(bytes=0.0, seconds=60.0))
    expected = math.sqrt(2 * 60.0 * QUIET.node_mtbf_s)
    assert first_moment(bare, QUIET) == pytest.approx(expected, abs=31)


def test_more_nodes_fail_sooner_and_certainty_is_the_most() -> None:
    assert first_moment(replace(WORK, nodes=100), QUIET) < first_moment(WORK, QUIET) / 5
    assert failure_probability(replace(WORK, nodes=10_000, sick_nodes=10_000), QUIET) == 1.0
    assert failure_probability(WORK, Climate(node_mtbf_s=0.0)) == 0.0


def test_a_backlog_alone_brings_it_forward() -> None:
    assert first_moment(WORK, Climate(backlog=1.0)) < first_moment(WORK, QUIET) / 3


def test_a_slow_store_puts_it_off_and_one_that_is_away_for_ever() -> None:
    assert first_moment(replace(WORK, estimate=estimate_of(0, 0, 60e9, BANDWIDTH / 10)), QUIET) > 10 * HOUR
    away = replace(WORK, estimate=estimate_of(0, 0, 60e9, 0.0), demand=1.0)
    assert cost(away) == math.inf
    assert not is_worth_it(away, QUIET)


def test_the_true_size_and_time_count_once_there_is_a_checkpoint() -> None:
    assert estimate_of(5e9, 10.0, 60e9, BANDWIDTH) == Estimate(bytes=5e9, seconds=10.0)
    assert estimate_of(0, 0, 60e9, BANDWIDTH) == Estimate(bytes=60e9, seconds=60.0)
    assert estimate_of(0, 0, None, BANDWIDTH) == Estimate(bytes=0.0, seconds=60.0)
    assert estimate_of(5e9, 0.1, None, BANDWIDTH).seconds == 1.0


def test_never_twice_within_a_minute_and_rarely_after_failures() -> None:
    eager = replace(WORK, demand=1.0, estimate=Estimate(bytes=1.0, seconds=0.1))
    assert not is_worth_it(replace(eager, since_s=QUIET.least_s - 1), QUIET)
    assert not is_worth_it(replace(eager, failures=3, failed_s=RETRY_S * 3), QUIET)
    assert is_worth_it(replace(eager, failures=3, failed_s=RETRY_S * 4), QUIET)
    assert is_worth_it(replace(eager, failures=999, failed_s=RETRY_S * 64), QUIET)


# Many at once.


def many(count: int) -> list[Standing]:
    return [replace(WORK, number=number, demand=1.0, since_s=HOUR + number) for number in range(1, count + 1)]


def test_all_are_asked_where_no_bandwidth_is_set() -> None:
    assert len(chosen(many(20), QUIET)) == 20


def test_within_a_bandwidth_those_that_save_most_come_first() -> None:
    assert [each.number for each in chosen(many(20), QUIET, most=3e9)] == [20, 19, 18]
    assert chosen(many(20), QUIET, busy=3e9, most=3e9) == []


def test_one_that_takes_more_than_there_is_is_asked_alone() -> None:
    assert [each.number for each in chosen(many(2), QUIET, most=1e6)] == [2]


def test_value_grows_with_time_and_units() -> None:
    assert value(replace(WORK, since_s=2 * HOUR), QUIET) > 2 * value(WORK, QUIET)
    assert value(replace(WORK, units=16), QUIET) == pytest.approx(2 * value(WORK, QUIET))
