"""Which vCluster a submission goes to that names none."""

import pytest

from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Lifecycle
from lattice.core.model.work.intent import Intent, IntentRule, choose_rule, unknown_targets

VCLUSTERS = {
    name: Vcluster(name=name, tenants=("ml",) if name == "ml" else (), is_up=name != "down")
    for name in ("gpu", "big", "ml", "down", "short")
}


def rule(vcluster: str, **conditions: object) -> IntentRule:
    return IntentRule(vcluster=vcluster, name=vcluster, **conditions)  # type: ignore[arg-type]


def intent(**fields: object) -> Intent:
    return Intent(**{"tenant": "physics", "user": "ada", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conditions", "fields", "holds"),
    [
        ({}, {}, True),
        ({"tenants": ("physics", "ml")}, {}, True),
        ({"tenants": ("ml",)}, {}, False),
        ({"users": ("ada",)}, {}, True),
        ({"users": ("bob",)}, {}, False),
        ({"projects": ("lhc",)}, {"project": "lhc"}, True),
        ({"projects": ("lhc",)}, {}, False),
        ({"tags": (("stage", "train"),)}, {"tags": (("a", "b"), ("stage", "train"))}, True),
        ({"tags": (("stage", "train"),)}, {"tags": (("stage", "test"),)}, False),
        ({"lifecycle": Lifecycle.UNBOUNDED}, {"lifecycle": Lifecycle.UNBOUNDED}, True),
        ({"lifecycle": Lifecycle.UNBOUNDED}, {}, False),
        ({"nodes": (2, None)}, {"nodes": 2}, True),
        ({"nodes": (2, None)}, {"nodes": 1}, False),
        ({"nodes": (None, 4)}, {"nodes": 5}, False),
        ({"gpus": (1, None)}, {"gpus": 4}, True),
        ({"gpus": (1, None)}, {}, False),
        ({"walltime_s": (None, 3600)}, {"walltime_s": 3600}, True),
        ({"walltime_s": (None, 3600)}, {"walltime_s": 3601}, False),
        ({"walltime_s": (None, 3600)}, {}, False),
        ({"nodes": (2, 4), "gpus": (1, 8)}, {"nodes": 3, "gpus": 2}, True),
        ({"nodes": (2, 4), "gpus": (1, 8)}, {"nodes": 3}, False),
    ],
)
def test_a_rule_holds_when_every_condition_does(
    conditions: dict[str, object], fields: dict[str, object], holds: bool
) -> None:
    assert rule("gpu", **conditions).holds(intent(**fields)) is holds


def test_the_first_rule_that_holds_counts() -> None:
    rules = (rule("gpu", gpus=(1, None)), rule("big", nodes=(8, None)), rule("short"))
    assert choose_rule(rules, intent(gpus=1, nodes=9), VCLUSTERS) == rules[0]
    assert choose_rule(rules, intent(nodes=9), VCLUSTERS) == rules[1]
    assert choose_rule(rules, intent(), VCLUSTERS) == rules[2]
    assert choose_rule(rules[:2], intent(), VCLUSTERS) is None


def test_what_cannot_be_used_is_passed_over() -> None:
    rules = (rule("gone"), rule("down"), rule("ml"), rule("short"))
    assert choose_rule(rules, intent(), VCLUSTERS) == rules[3]
    assert choose_rule(rules, intent(tenant="ml"), VCLUSTERS) == rules[2]


def test_rules_without_a_vcluster_are_named() -> None:
    rules = (rule("gone"), rule("gpu"))
    assert unknown_targets(rules, VCLUSTERS) == ['gone names the vCluster "gone", which does not exist']
