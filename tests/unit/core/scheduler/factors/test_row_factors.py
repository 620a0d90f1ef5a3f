"""Factors that look at one row alone: class, wait, data, energy, checkpoint, expansion."""

from math import log

import numpy as np
import pytest

from lattice.core.machine.commands import SetSetting
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.work.allocations import RequeuePolicy
from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.score.factors.registry import REGISTRY
from lattice.core.scheduler.tables.snapshot import Snapshot
from tests.unit.core.scheduler.world import HOUR, NOON, World


def values(snapshot: Snapshot, name: str, now: int = NOON) -> list[float]:
    """The factor by rising number."""
    column = REGISTRY[name](Moment(snapshot, now))
    return [float(value) for value in column[np.argsort(snapshot.queue.number)]]


def test_priority_is_the_class_in_tenths() -> None:
    world = World()
    for preemption_class in (0, 5, 10):
        world.submit(preemption_class=preemption_class)
    assert values(world.snapshot(), "priority") == [0.0, 0.5, 1.0]


def test_wait_grows_with_the_logarithm_and_stays_below_one() -> None:
    world = World()
    world.submit()
    snapshot = world.snapshot()
    waits = [values(snapshot, "wait_time", NOON + hours * HOUR)[0] for hours in (0, 1, 3, 10_000)]
    assert waits[0] == 0.0
    assert waits[1] == pytest.approx(log(2) / (1 + log(2)))
    assert waits[2] == pytest.approx(log(4) / (1 + log(4)))
    assert waits[2] < waits[3] < 1.0


def test_the_reference_of_the_wait_is_a_setting() -> None:
    world = World()
    world.submit()
    world.do(SetSetting(key="scheduler.reference_wait_s", value="60"))
    assert values(world.snapshot(), "wait_time", NOON + 60_000) == [pytest.approx(log(2) / (1 + log(2)))]


def test_a_wait_counts_from_the_earliest_start_that_was_asked_for() -> None:
    world = World()
    world.submit(eligible_at=NOON + 5 * HOUR)
    snapshot = world.snapshot()
    assert values(snapshot, "wait_time", NOON + 4 * HOUR) == [0.0]
    assert values(snapshot, "wait_time", NOON + 6 * HOUR) == [pytest.approx(log(2) / (1 + log(2)))]


def test_another_run_keeps_the_wait_since_submission() -> None:
    world = World()
    world.add_node("n1")
    number = world.submit(requeue=RequeuePolicy.ALWAYS)
    world.place(number, "n1")
    world.now += HOUR
    world.report_running(number)
    world.finish(number, exit_code=1)
    record = world.state.find(number)
    assert record is not None
    assert record.eligible_at > world.now
    assert values(world.snapshot(), "wait_time", world.now) == [pytest.approx(log(2) / (1 + log(2)))]


def test_what_is_not_known_is_neither_good_nor_bad() -> None:
    world = World()
    world.submit()
    snapshot = world.snapshot()
    for name in ("data_readiness", "energy", "checkpoint"):
        assert values(snapshot, name) == [0.5], name


def test_signals_reach_the_rows_they_are_about() -> None:
    world = World()
    numbers = [world.submit() for _ in range(3)]
    world.cycle.signals = Signals(
        energy_price=0.25,
        data_readiness={numbers[1]: 0.9, 777: 0.1},
        checkpoint_minutes={numbers[2]: 4.0, numbers[0]: 0.0},
    )
    snapshot = world.snapshot()
    assert values(snapshot, "energy") == [0.75] * 3
    assert values(snapshot, "data_readiness") == [0.5, 0.9, 0.5]
    assert values(snapshot, "checkpoint") == [1.0, 0.5, pytest.approx(0.2)]


@pytest.mark.parametrize("price", [float("nan"), float("inf")])
def test_a_price_that_is_no_number_is_not_known(price: float) -> None:
    world = World()
    world.submit()
    world.cycle.signals = Signals(energy_price=price)
    assert values(world.snapshot(), "energy") == [0.5]


def test_signals_out_of_range_are_cut_off() -> None:
    world = World()
    number = world.submit()
    world.cycle.signals = Signals(energy_price=7.0, data_readiness={number: 3.0}, checkpoint_minutes={number: -5.0})
    snapshot = world.snapshot()
    assert values(snapshot, "energy") == [0.0]
    assert values(snapshot, "data_readiness") == [1.0]
    assert values(snapshot, "checkpoint") == [1.0]


def test_expansion_sets_the_wait_against_the_walltime() -> None:
    world = World()
    for walltime_s in (3600, 6 * 3600, 0):
        world.submit(walltime_s=walltime_s)
    two_hours_later = values(world.snapshot(), "expansion", NOON + 2 * HOUR)
    assert two_hours_later == [pytest.approx(2 / 3), pytest.approx(0.25), 0.0]


def test_expansion_counts_with_what_earlier_runs_took_where_the_profile_learns() -> None:
    world = World()
    world.add_node("n1")
    first = world.submit(walltime_s=10 * 3600)
    world.place(first, "n1")
    world.report_running(first)
    world.now += HOUR
    world.finish(first)
    world.submit(walltime_s=10 * 3600)
    world.submit(walltime_s=10 * 3600, name="other")
    snapshot, later = world.snapshot(), world.now + HOUR
    assert snapshot.queue.expected_s.tolist() == [3600, 0]
    assert REGISTRY["expansion"](Moment(snapshot, later, (1.0,))).tolist() == pytest.approx([1 / 2, 1 / 11])
    assert REGISTRY["expansion"](Moment(snapshot, later, (0.5,))).tolist() == pytest.approx([13 / 44, 1 / 11])
    assert REGISTRY["expansion"](Moment(snapshot, later, (0.0,))).tolist() == pytest.approx([1 / 11, 1 / 11])
