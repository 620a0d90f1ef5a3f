"""Health checks: what outcomes come to over time, and what a node's standing asks for."""

import pytest

from lattice.core.model.nodes.health import (
    MAX_TEXT,
    Action,
    CheckRule,
    CheckStanding,
    Consequence,
    Decision,
    Outcome,
    Verdict,
    clean_text,
    decide_action,
    first_standing,
    is_change,
    judge,
    unfit_because,
    unhealthy,
)
from lattice.core.model.nodes.nodes import NodeState

PASS = Outcome(verdict=Verdict.PASSED, text="fine")
WARN = Outcome(verdict=Verdict.WARNED, text="so so")
FAIL = Outcome(verdict=Verdict.FAILED, text="broken")


def standing_after(rule: CheckRule, *outcomes: Outcome) -> CheckStanding:
    standing = first_standing(rule)
    for outcome in outcomes:
        standing = judge(rule, standing, outcome)
    return standing


def failed(name: str, consequence: Consequence = Consequence.WARN, *, ready: bool = False) -> CheckStanding:
    return CheckStanding(
        name=name, verdict=Verdict.FAILED, text="broken", consequence=consequence, required_for_ready=ready
    )


def decide(state: NodeState, *checks: CheckStanding, by_check: bool = False) -> Decision:
    return decide_action(checks, state, is_degraded_by_check=by_check)


def test_one_failure_is_enough_and_one_pass_ends_it_unless_told_otherwise() -> None:
    rule = CheckRule(name="disk")
    assert standing_after(rule).verdict is Verdict.PENDING
    assert standing_after(rule, FAIL).is_failed
    assert standing_after(rule, FAIL, PASS).verdict is Verdict.PASSED
    assert standing_after(rule, PASS, WARN).verdict is Verdict.WARNED


def test_a_check_fails_after_as_many_failures_in_a_row_as_it_needs() -> None:
    rule = CheckRule(name="disk", failures_needed=3)
    twice = standing_after(rule, PASS, FAIL, FAIL)
    assert (twice.verdict, twice.text) == (Verdict.WARNED, "failed 2 of 3 times: broken")
    assert standing_after(rule, PASS, FAIL, FAIL, PASS, FAIL, FAIL).verdict is Verdict.WARNED
    third = standing_after(rule, PASS, FAIL, FAIL, FAIL)
    assert (third.verdict, third.text, third.failures) == (Verdict.FAILED, "broken", 3)


def test_a_check_that_never_passed_has_not_passed_because_it_failed_too_rarely() -> None:
    rule = CheckRule(name="disk", failures_needed=2, required_for_ready=True)
    once = standing_after(rule, FAIL)
    assert once.verdict is Verdict.PENDING
    assert unfit_because([once]) == "check disk: failed 1 of 2 times: broken"


def test_a_failed_check_recovers_after_as_many_passes_as_it_needs() -> None:
    rule = CheckRule(name="disk", passes_needed=2)
    assert standing_after(rule, FAIL, PASS).is_failed
    assert standing_after(rule, FAIL, PASS, FAIL, PASS).is_failed
    assert standing_after(rule, FAIL, PASS, WARN).verdict is Verdict.WARNED


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("all  well\n\n  here", "all well here"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\u202eb", "a\\x202eb"),
        ("x" * 500, "x" * (MAX_TEXT - 3) + "..."),
        ("\0" * 500, ("\\x00" * MAX_TEXT)[: MAX_TEXT - 3] + "..."),
    ],
)
def test_whatever_a_check_says_becomes_one_printable_line(said: str, shown: str) -> None:
    assert clean_text(said) == shown
    assert clean_text(said).isprintable()


def test_age_and_counts_are_no_change() -> None:
    before = [CheckStanding(name="a", verdict=Verdict.PASSED, text="fine")]
    assert not is_change(before, [CheckStanding(name="a", verdict=Verdict.PASSED, text="fine", age_s=9, passes=4)])
    assert is_change(before, [failed("a")])
    assert is_change(before, [])


def test_a_node_that_boots_waits_for_the_checks_that_guard_it_alone() -> None:
    pending = CheckStanding(name="late", required_for_ready=True)
    assert decide(NodeState.BOOTING, failed("a", Consequence.DRAIN)).action is Action.CONFIRM
    assert decide(NodeState.BOOTING, failed("a", ready=True)).action is Action.NONE
    assert decide(NodeState.BOOTING, pending).action is Action.NONE
    assert unfit_because([pending, failed("z", ready=True)]) == "check z: broken; check late: has not run yet"
    assert not unfit_because([failed("a", Consequence.DRAIN)])


def test_a_failed_check_does_to_a_ready_node_what_it_was_meant_to() -> None:
    assert decide(NodeState.READY, failed("a")).action is Action.NONE
    degraded = decide(NodeState.READY, failed("b", Consequence.DEGRADE), failed("a"))
    assert (degraded.action, degraded.check, degraded.reason) == (Action.DEGRADE, "b", "check b: broken")
    drained = decide(NodeState.READY, failed("b", Consequence.DEGRADE), failed("c", Consequence.DRAIN))
    assert (drained.action, drained.check) == (Action.DRAIN, "c")


def test_a_node_that_a_check_degraded_returns_when_it_passes() -> None:
    fine = CheckStanding(name="a", verdict=Verdict.PASSED)
    assert decide(NodeState.DEGRADED, fine, by_check=True).action is Action.RECOVER
    assert decide(NodeState.DEGRADED, fine).action is Action.NONE
    assert decide(NodeState.DEGRADED, failed("a", Consequence.DEGRADE), by_check=True).action is Action.NONE
    assert decide(NodeState.DEGRADED, failed("a", Consequence.DRAIN), by_check=True).action is Action.DRAIN


@pytest.mark.parametrize("state", [NodeState.DRAINED, NodeState.DRAINING, NodeState.DOWN, NodeState.FAILED])
def test_nodes_out_of_service_are_left_alone(state: NodeState) -> None:
    assert decide(state, failed("a", Consequence.DRAIN)).action is Action.NONE


def test_unfit_for_service_is_what_has_a_consequence_or_guards_ready() -> None:
    checks = [failed("a"), failed("b", ready=True), failed("c", Consequence.DEGRADE), CheckStanding(name="d")]
    assert [each.name for each in unhealthy(checks)] == ["b", "c"]
