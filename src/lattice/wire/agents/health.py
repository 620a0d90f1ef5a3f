"""Reports of checks on the agents' stream, both ways, and as the API shows them."""

import math
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from lattice.core.model.nodes.health import CheckStanding, Consequence, HealthReport, Verdict, clean_text
from lattice.core.model.nodes.observations import Beat
from lattice.wire.agents.messages import CHECK_STANDING, HEALTH_REPORT
from lattice.wire.pb import agent_pb2 as pb

MAX_CHECKS = 64
MAX_SECONDS = 1e10  # three centuries
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


def health_report(standings: Iterable[CheckStanding], *, seq: int, tickets: Sequence[int] = ()) -> pb.AgentMessage:
    report = HealthReport(checks=tuple(standings), seq=seq, tickets=tuple(tickets))
    return pb.AgentMessage(health_report=HEALTH_REPORT.write(report))


def _seconds(value: float) -> float:
    return min(max(value, 0.0), MAX_SECONDS) if math.isfinite(value) else 0.0


_standing_of = CHECK_STANDING.reader(seconds=_seconds, text=clean_text)


def checks_of(message: pb.HealthReport) -> HealthReport:
    """The report, cut to what a report may hold; names that make no sense are left out."""
    named = [each for each in message.checks[:MAX_CHECKS] if NAME.fullmatch(each.name)]
    checks = {each.name: _standing_of(each) for each in named}
    return HealthReport(checks=tuple(checks.values()), seq=message.seq, tickets=tuple(message.tickets[:MAX_CHECKS]))


class VitalsView(Struct, frozen=True, kw_only=True, gc=False):
    """The node's health at its last heartbeat; `temperature_c` is None without a sensor."""

    gpus: int
    temperature_c: float | None
    memory_errors: int
    failing_checks: int


def vitals_view(beat: Beat) -> VitalsView:
    return VitalsView(
        gpus=beat.gpus,
        temperature_c=round(beat.temperature_c, 1) or None,
        memory_errors=beat.memory_errors,
        failing_checks=beat.failing_checks,
    )


class CheckView(Struct, frozen=True, kw_only=True):
    """One health check of a node; `since_s` is its age in seconds."""

    name: str
    verdict: Verdict
    text: str
    consequence: Consequence
    required_for_ready: bool
    failures: int
    since_s: float
    duration_s: float


def check_view(standing: CheckStanding) -> CheckView:
    return CheckView(
        name=standing.name,
        verdict=standing.verdict,
        text=standing.text,
        consequence=standing.consequence,
        required_for_ready=standing.required_for_ready,
        failures=standing.failures,
        since_s=round(standing.age_s, 1),
        duration_s=round(standing.duration_s, 3),
    )
