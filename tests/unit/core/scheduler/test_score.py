"""Weights, profiles, the total and the order."""

import numpy as np
import pytest

from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import SCHEDULERS, Vcluster
from lattice.core.model.site.weights import FACTORS
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.score.profiles import (
    WEIGHTS,
    Profile,
    built_in,
    profile_from_weights,
    profile_of,
    validate_weights,
)
from lattice.core.scheduler.score.score import patience_s, score
from tests.unit.core.scheduler.world import HOUR, World


def order(world: World, profiles: dict[str, Profile] | None = None) -> list[int]:
    snapshot = world.snapshot()
    numbers: list[int] = snapshot.queue.number[score(snapshot, profiles or {}, world.now).order()].tolist()
    return numbers


def only(**weights: float) -> dict[str, Profile]:
    return {"default": profile_from_weights("hpc", weights)}


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_the_weights_of_a_profile_sum_to_one(name: str) -> None:
    assert sum(built_in(name).weights) == pytest.approx(1.0)


def test_normalising_keeps_the_proportions() -> None:
    ml = dict(zip(FACTORS, built_in("ml").weights, strict=True))
    assert ml["topology"] == pytest.approx(0.25 / 1.15)
    assert ml["priority"] / ml["conformance"] == pytest.approx(0.10 / 0.25)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"priority": -0.1}, "priority must be a number of at least 0"),
        ({"wait_time": float("nan")}, "wait_time must be a number"),
        ({"wait_time": float("inf")}, "wait_time must be a number"),
        ({"speed": 1.0}, 'unknown factor "speed"; known: priority'),
        ({"priority": 0.0, "energy": 0.0}, "at least one weight must be above 0"),
        ({}, "at least one weight must be above 0"),
        ({"priority": "much"}, "priority must be a number, not 'much'"),
        ({"priority": True}, "priority must be a number, not True"),
    ],
)
def test_bad_weights_are_refused_with_a_reason(weights: dict[str, float], problem: str) -> None:
    said = validate_weights(weights)
    assert isinstance(said, str)
    assert problem in said
    with pytest.raises(ValueError, match=r"weight|factor"):
        profile_from_weights("hpc", weights)


def test_weights_that_are_not_named_count_nothing() -> None:
    weights = validate_weights({"priority": 3, "energy": 1})
    assert not isinstance(weights, str)
    assert dict(zip(FACTORS, weights, strict=True)) == {**dict.fromkeys(FACTORS, 0.0), "priority": 0.75, "energy": 0.25}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_implies_a_profile(scheduler: str) -> None:
    profile = profile_of({}, Vcluster(name="v", scheduler=scheduler))
    assert profile.name in WEIGHTS
    assert profile.order == ("fifo" if scheduler == "interactive-fifo" else "score")
    assert profile.claims_only == (scheduler == "sensitive-reservation")


def test_the_record_of_a_vcluster_chooses_its_profile_and_weights() -> None:
    chosen = profile_of({}, Vcluster(name="v", profile="responsive"))
    assert (chosen.name, chosen.patience_s) == ("responsive", 4 * 86_400)
    own = profile_of({}, Vcluster(name="v", profile="ml", weights=(("priority", 2.0),)))
    assert dict(zip(FACTORS, own.weights, strict=True))["priority"] == 1.0
    assert profile_of({"v": Profile(window=7)}, Vcluster(name="v")).window == 7


def test_weights_take_effect_with_the_next_cycle() -> None:
    world = World()
    patient = world.submit(preemption_class=1)
    world.now += 10 * HOUR
    urgent = world.submit(preemption_class=9)
    for weights, expected in (
        ((("priority", 1.0),), [urgent, patient]),
        ((("wait_time", 1.0),), [patient, urgent]),
    ):
        world.do(SetVcluster(vcluster=Vcluster(name="default", weights=weights)))
        assert order(world) == expected


def test_the_total_is_the_weighted_sum_of_what_is_explained() -> None:
    world = World()
    world.add_nodes(["n1", "n2"])
    world.submit(Request(nodes=2))
    world.now += 2 * HOUR
    scores = score(world.snapshot(), {}, world.now)
    said = scores.of(0)
    weights = dict(zip(FACTORS, built_in("hpc").weights, strict=True))
    assert set(said) == {*FACTORS, "total"}
    assert said["total"] == pytest.approx(sum(weights[name] * said[name] for name in FACTORS))


def test_rows_wanted_alike_go_by_submission_and_number() -> None:
    world = World()
    numbers = [world.submit(walltime_s=600 + index % 7) for index in range(50)]
    assert order(world, only(priority=1.0)) == numbers


def test_vclusters_are_scored_by_their_own_weights() -> None:
    world = World()
    world.set_vcluster("other", weights=(("wait_time", 1.0),))
    world.set_vcluster("default", weights=(("priority", 1.0),))
    world.submit(preemption_class=4)
    world.submit(preemption_class=9, vcluster="other")
    totals = sorted(score(world.snapshot(), {}, world.now).total.tolist())
    assert totals == [0.0, pytest.approx(0.4)]


def test_an_interactive_vcluster_goes_by_class_and_submission_alone() -> None:
    world = World()
    world.set_vcluster("default", scheduler="interactive-fifo", weights=(("topology", 1.0),))
    early = world.submit(Request(nodes=5))
    world.now += 1
    late = world.submit()
    world.now += 1
    high = world.submit(preemption_class=7)
    world.now += 100 * HOUR
    assert order(world) == [high, early, late]


def test_who_has_waited_beyond_the_patience_goes_first() -> None:
    world = World()
    first = world.submit(preemption_class=0)
    world.now += HOUR
    second = world.submit(preemption_class=1)
    world.now += HOUR
    high = [world.submit(preemption_class=10) for _ in range(20)]
    assert order(world, {"default": Profile(patience_s=0)})[0] == high[0]
    assert order(world, {"default": Profile(patience_s=5400)})[:2] == [first, high[0]]
    assert order(world, {"default": Profile(patience_s=1800)})[:2] == [first, second]


def test_where_everybody_waits_for_long_that_alone_makes_nobody_late() -> None:
    waits = np.array([10.0, 10.0, 10.0, 10.0])
    assert patience_s(Profile(patience_s=6 * 3600), waits * 3600) == pytest.approx(20 * 3600)
    assert patience_s(Profile(patience_s=4 * 3600), waits * 3600) == pytest.approx(16 * 3600)
    assert patience_s(Profile(patience_s=50 * 3600), waits * 3600) == 50 * 3600
    assert patience_s(Profile(patience_s=7), waits[:0]) == 7


def test_responsive_prefers_short_work_that_waits() -> None:
    world = World()
    world.set_vcluster("default", profile="responsive")
    long = world.submit(walltime_s=48 * 3600)
    world.now += HOUR
    short = world.submit(walltime_s=600)
    assert order(world) == [long, short]
    world.now += HOUR
    assert order(world) == [short, long]
    world.now += 95 * HOUR
    for _ in range(10):
        world.submit(walltime_s=600)
    assert order(world)[:2] == [long, short]


def test_an_empty_queue_has_no_scores() -> None:
    world = World()
    scores = score(world.snapshot(), {}, world.now)
    assert scores.total.tolist() == []
    assert scores.order().tolist() == []
