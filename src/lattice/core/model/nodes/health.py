"""Health checks: what one is, what its outcomes come to over time, and what a node's standing asks of the cluster.

A check fails when it has failed `failures_needed` times in a row, and passes again after `passes_needed` passes in a row: a single
bad moment need not take a node out of service. A warning is shown and has no consequence. Checks that are required for Ready
keep a node that boots from becoming Ready until they pass; one that has not run has not passed.

Before: outcomes in the order in which they were found. After: the reported standing, and `decide_action`, which depends on the
standing and the node's record alone, so that asking it again, or on another server, does no harm. See docs/architecture/nodes.md.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.nodes.nodes import NodeState

MAX_TEXT = 200


class Consequence(StrEnum):
    """What a failed check does to its node."""

    WARN = "warn"  # it is shown
    DEGRADE = "degrade"  # no new work until it passes
    DRAIN = "drain"  # no new work until an operator undrains the node


class Verdict(StrEnum):
    PENDING = "pending"  # has not run yet
    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"


class CheckRule(Struct, frozen=True, kw_only=True):
    """One check: how often, how long, what follows from it."""

    name: str
    period_s: float = 60.0
    timeout_s: float = 10.0
    consequence: Consequence = Consequence.WARN
    required_for_ready: bool = False
    failures_needed: int = 1
    passes_needed: int = 1


class Outcome(Struct, frozen=True, kw_only=True):
    """What one run of a check found."""

    verdict: Verdict
    text: str = ""


class CheckStanding(Struct, frozen=True, kw_only=True):
    """A check as it stands; `failures` and `passes` are counted in a row."""

    name: str
    verdict: Verdict = Verdict.PENDING
    text: str = ""
    consequence: Consequence = Consequence.WARN
    required_for_ready: bool = False
    failures: int = 0
    passes: int = 0
    age_s: float = 0.0  # since it ran last
    duration_s: float = 0.0

    @property
    def is_failed(self) -> bool:
        return self.verdict is Verdict.FAILED

    @property
    def guards(self) -> bool:
        """Whether it keeps its node from becoming Ready now."""
        return self.required_for_ready and self.verdict in (Verdict.FAILED, Verdict.PENDING)

    @property
    def sentence(self) -> str:
        text = self.text or ("has not run yet" if self.verdict is Verdict.PENDING else "failed")
        return f"check {self.name}: {text}"


class HealthReport(Struct, frozen=True, kw_only=True):
    """All checks of a node; `tickets` are the requests that it answers."""

    checks: tuple[CheckStanding, ...] = ()
    seq: int = 0
    tickets: tuple[int, ...] = ()


class Action(StrEnum):
    """What a node's standing asks for."""

    NONE = "none"
    CONFIRM = "confirm"
    DEGRADE = "degrade"
    RECOVER = "recover"
    DRAIN = "drain"


class Decision(Struct, frozen=True, kw_only=True):
    action: Action = Action.NONE
    check: str = ""  # that asks for it
    reason: str = ""


def first_standing(rule: CheckRule) -> CheckStanding:
    """Of a check that has not run."""
    return CheckStanding(name=rule.name, consequence=rule.consequence, required_for_ready=rule.required_for_ready)


def judge(rule: CheckRule, before: CheckStanding, outcome: Outcome) -> CheckStanding:
    """The standing after one more outcome."""
    text = clean_text(outcome.text)
    if outcome.verdict is Verdict.FAILED:
        failures = before.failures + 1
        if failures >= rule.failures_needed or before.is_failed:
            return replace(before, verdict=Verdict.FAILED, text=text, failures=failures, passes=0)
        told = clean_text(f"failed {failures} of {rule.failures_needed} times: {text}")
        # One that guards Ready has not passed because it did not fail often enough.
        verdict = Verdict.PENDING if before.verdict is Verdict.PENDING else Verdict.WARNED
        return replace(before, verdict=verdict, text=told, failures=failures, passes=0)
    passes = before.passes + 1
    if before.is_failed and passes < rule.passes_needed:
        return replace(before, failures=0, passes=passes)
    return replace(before, verdict=outcome.verdict, text=text, failures=0, passes=passes)


def clean_text(text: str) -> str:
    """One printable line, not long, whatever was said."""
    words = " ".join(text.split())
    shown = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in words[: 2 * MAX_TEXT])
    return shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 3]}..."


def is_change(before: Iterable[CheckStanding], after: Iterable[CheckStanding]) -> bool:
    """Whether a reader would see something else; how long ago and how often do not count."""
    return [(each.name, each.verdict, each.text) for each in before] != [
        (each.name, each.verdict, each.text) for each in after
    ]


def unfit_because(checks: Iterable[CheckStanding]) -> str:
    """Why a node that boots may not become Ready yet; empty when it may."""
    guarding = sorted((each for each in checks if each.guards), key=lambda each: (not each.is_failed, each.name))
    return "; ".join(each.sentence for each in guarding[:3])


def unhealthy(checks: Iterable[CheckStanding]) -> list[CheckStanding]:
    """Failed checks with a consequence beyond being shown, and those without which a node does not become Ready."""
    return [
        each for each in checks if each.is_failed and (each.required_for_ready or each.consequence != Consequence.WARN)
    ]


def decide_action(checks: Iterable[CheckStanding], state: NodeState, *, is_degraded_by_check: bool) -> Decision:
    """What is to be done with a node in this state, of which this is known."""
    checks = sorted(checks, key=lambda each: each.name)
    if state is NodeState.BOOTING:
        return Decision() if unfit_because(checks) else Decision(action=Action.CONFIRM)
    if state not in (NodeState.READY, NodeState.DEGRADED):
        return Decision()
    failed = [each for each in checks if each.is_failed]
    for each in failed:
        if each.consequence is Consequence.DRAIN:
            return Decision(action=Action.DRAIN, check=each.name, reason=each.sentence)
    degrading = [each for each in failed if each.consequence is Consequence.DEGRADE]
    if degrading and state is NodeState.READY:
        return Decision(action=Action.DEGRADE, check=degrading[0].name, reason=degrading[0].sentence)
    if not degrading and is_degraded_by_check:
        return Decision(action=Action.RECOVER)
    return Decision()
