"""Judges the figures of the leader during an upgrade against those before it. Pure. See docs/architecture/upgrades.md."""

from typing import NamedTuple

from lattice.core.model.site.upgrades import FiguresBefore

CYCLE_S = 30.0
HEARTBEAT_S = 5.0
COMMIT_S = 5.0
REJECTED_PPM = 100_000  # the share may grow by so much
ERRORS_PPM = 50_000
_FEWEST = 20  # fewer events say nothing about a share or a p99

# Upper bound in seconds and how many were at most that long; the last bound is infinite.
Buckets = tuple[tuple[float, float], ...]


class Readings(NamedTuple):
    """Counted since the start of the process, so that two of them say what happened in between."""

    cycles: Buckets = ()
    commits: Buckets = ()
    heartbeats: Buckets = ()  # how late those of the upgraded nodes were
    accepted: float = 0  # placements
    rejected: float = 0
    requests: float = 0
    errors: float = 0  # requests answered with 5xx
    ended: float = 0  # runs, on single nodes
    failed: float = 0  # runs that could not be started, or whose node failed


class Finding(NamedTuple):
    """A criterion that is not met. A critical one rolls canaries back; any other pauses the upgrade."""

    is_critical: bool
    text: str


def shares(now: Readings, since: Readings) -> FiguresBefore:
    """The shares between two readings."""
    return FiguresBefore(
        rejected_ppm=_ppm(now.rejected - since.rejected, now.accepted + now.rejected - since.accepted - since.rejected),
        errors_ppm=_ppm(now.errors - since.errors, now.requests - since.requests),
        failures_ppm=_ppm(now.failed - since.failed, now.ended - since.ended),
    )


def judge(now: Readings, since: Readings, before: FiguresBefore) -> Finding | None:
    """The gravest criterion that is not met between two readings; None if all are."""
    found = shares(now, since)
    commit_s, cycle_s = p99(now.commits, since.commits), p99(now.cycles, since.cycles)
    heartbeat_s = p99(now.heartbeats, since.heartbeats)
    proposed = now.accepted + now.rejected - since.accepted - since.rejected
    if commit_s >= COMMIT_S:
        return Finding(True, f"p99 of the commit latency is above {commit_s:g} s; the limit is {COMMIT_S:g} s")
    if now.failed > since.failed and found.failures_ppm > before.failures_ppm:
        told = f"{now.failed - since.failed:g} of {now.ended - since.ended:g} runs there failed by their node"
        return Finding(True, f"{told} ({_percent(found.failures_ppm)}, before {_percent(before.failures_ppm)})")
    if cycle_s >= CYCLE_S:
        return Finding(False, f"p99 of the scheduling cycle is above {cycle_s:g} s; the limit is {CYCLE_S:g} s")
    if heartbeat_s >= HEARTBEAT_S:
        return Finding(False, f"heartbeats of upgraded nodes are {heartbeat_s:g} s late (p99); limit {HEARTBEAT_S:g} s")
    if proposed >= _FEWEST and found.rejected_ppm > before.rejected_ppm + REJECTED_PPM:
        told = f"{_percent(found.rejected_ppm)} of the placements were rejected, before {_percent(before.rejected_ppm)}"
        return Finding(False, f"{told}; it may grow by {_percent(REJECTED_PPM)}")
    if now.requests - since.requests >= _FEWEST and found.errors_ppm > before.errors_ppm + ERRORS_PPM:
        told = f"{_percent(found.errors_ppm)} of the API requests failed with 5xx, before {_percent(before.errors_ppm)}"
        return Finding(False, f"{told}; it may grow by {_percent(ERRORS_PPM)}")
    return None


def p99(now: Buckets, since: Buckets) -> float:
    """The lower bound of the bucket with the 99th percentile of what came in between: a lower bound of the time."""
    earlier = dict(since)
    counts = [(bound, count - earlier.get(bound, 0)) for bound, count in now]
    total = counts[-1][1] if counts else 0
    if total < _FEWEST:
        return 0.0
    lower = 0.0
    for bound, count in counts:
        if count >= total * 0.99:
            break
        lower = bound
    return lower


def _ppm(part: float, whole: float) -> int:
    return round(1_000_000 * part / whole) if whole > 0 else 0


def _percent(ppm: int) -> str:
    return f"{ppm / 10_000:.3g} %"
