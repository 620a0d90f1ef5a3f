"""What people write of scaling, and what is made of it."""

from typing import Any

import pytest

from lattice.core.model.work.allocations import Lifecycle
from lattice.ports.site.metric_store import Matcher
from lattice.wire.services.scaling import ScaleFields, needs_store, policy_of, selector_of
from lattice.wire.text.problems import BadField

WANTED: dict[str, Any] = {"min": 1, "max": 4, "metric": "gpu_utilization", "target": "0.8"}


def policy(**changes: Any) -> Any:  # noqa: ANN401 - whatever a user writes
    return policy_of(Lifecycle.REACTIVE, ScaleFields(**{**WANTED, **changes}))


@pytest.mark.parametrize(
    ("metric", "target", "number"),
    [
        ("gpu_utilization", "80%", 0.8),
        ("cpu_utilization", 0.5, 0.5),
        ("request_latency_p99", "100ms", 0.1),
        ("request_latency_p99", "2s", 2.0),
        ("request_latency_p99", "0.25", 0.25),
        ("memory", "8G", 8 * (1 << 30)),
        ("memory_used", "1000", 1000.0),
        ("request_rate", 20, 20.0),
        ("queue{job='a'}", "100", 100.0),
    ],
)
def test_targets_are_read_as_their_metric_means_them(metric: str, target: Any, number: float) -> None:  # noqa: ANN401 - as above
    assert policy(metric=metric, target=target).target == pytest.approx(number)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metric": ""}, "needs metric"),
        ({"min": None, "target": None}, "needs min_nodes, target"),
        ({"min": 5}, "at most 4 nodes, but at least 5"),
        ({"min": 0}, "0 is not possible"),
        ({"metric": "luck"}, "is no metric"),
        ({"metric": "a{b='c'} or vector(1)"}, "is no metric"),
        ({"metric": "a{b='c\\\\'}"}, "is no metric"),
        ({"metric": "a{b='c' d='e'}"}, "is no metric"),
        ({"metric": "a{" + ",".join(f"l{n}='x'" for n in range(11)) + "}"}, "is no metric"),
        ({"target": "-1"}, "is no target"),
        ({"target": "nan"}, "is no target"),
        ({"target": "soon"}, "is no target"),
        ({"target": "150%"}, "more than everything"),
        ({"scale_down_threshold": 1.0}, "1 is not possible"),
        ({"cooldown_period": "soon"}, "soon"),
        ({"scale_up_window": "2000h"}, "is not possible"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadField) as refusal:
        policy(**changes)
    assert said in str(refusal.value)


def test_only_reactive_work_has_a_policy_and_always_one() -> None:
    assert policy_of(Lifecycle.UNBOUNDED, None) is None
    with pytest.raises(BadField, match="for reactive work alone"):
        policy_of(Lifecycle.UNBOUNDED, ScaleFields(**WANTED))
    with pytest.raises(BadField, match="needs min_nodes, max_nodes, metric, target"):
        policy_of(Lifecycle.REACTIVE, None)


def test_defaults_are_those_of_the_specification() -> None:
    made = policy()
    assert (made.up_window_s, made.down_window_s, made.down_threshold) == (120, 300, 0.5)
    assert (made.interval_s, made.cooldown_s) == (60, 180)


def test_metrics_of_a_store_are_taken_apart() -> None:
    found = selector_of("jobs{queue=\"a\", state!~'done|failed'}")
    assert found is not None
    assert (found.name, found.matchers) == (
        "jobs",
        (
            Matcher(label="queue", operator="=", value="a"),
            Matcher(label="state", operator="!~", value="done|failed"),
        ),
    )
    assert needs_store("jobs{queue='a'}")
    assert needs_store("queue_depth")
    assert not needs_store("in_flight")
