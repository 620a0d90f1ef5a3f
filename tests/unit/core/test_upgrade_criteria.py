"""Which figures stop an upgrade, and which are as they were before."""

import pytest

from lattice.core.model.site.upgrades import FiguresBefore, is_skipping
from lattice.core.upgrade_criteria import Buckets, Readings, judge, shares

INF = float("inf")


def slow(at_least_s: float, count: int = 100) -> Buckets:
    return tuple((bound, float(count if bound > at_least_s else 0)) for bound in (1.0, 5.0, 30.0, INF))


@pytest.mark.parametrize(
    ("now", "is_critical", "said"),
    [
        (Readings(commits=slow(5.0)), True, "p99 of the commit latency is above 5 s"),
        (Readings(ended=4, failed=1), True, "1 of 4 runs there failed by their node (25 %, before 0.1 %)"),
        (Readings(cycles=slow(30.0)), False, "p99 of the scheduling cycle is above 30 s"),
        (Readings(heartbeats=slow(5.0)), False, "heartbeats of upgraded nodes are 5 s late"),
        (Readings(accepted=80, rejected=20), False, "20 % of the placements were rejected, before 5 %"),
        (Readings(requests=90, errors=9), False, "10 % of the API requests failed with 5xx, before 1 %"),
    ],
)
def test_each_criterion_says_its_figure(now: Readings, is_critical: bool, said: str) -> None:
    before = FiguresBefore(rejected_ppm=50_000, errors_ppm=10_000, failures_ppm=1_000)
    finding = judge(now, Readings(), before)
    assert finding is not None
    assert finding.is_critical is is_critical
    assert said in finding.text


@pytest.mark.parametrize(
    "now",
    [
        Readings(),
        Readings(commits=slow(1.0), cycles=slow(5.0), heartbeats=slow(1.0)),
        Readings(accepted=86, rejected=14),
        Readings(requests=100, errors=6),
        Readings(accepted=2, rejected=3, requests=10, errors=5),  # too few to say anything
        Readings(ended=100, failed=0),
    ],
)
def test_what_is_as_before_stops_nothing(now: Readings) -> None:
    assert judge(now, Readings(), FiguresBefore(rejected_ppm=50_000, errors_ppm=10_000)) is None


def test_only_what_came_since_counts() -> None:
    assert judge(Readings(commits=slow(5.0)), Readings(commits=slow(5.0)), FiguresBefore()) is None
    assert shares(Readings(requests=30, errors=3), Readings(requests=20, errors=3)).errors_ppm == 0


@pytest.mark.parametrize(
    ("former", "target", "skips"),
    [
        ("0.1.0", "0.2.0", False),
        ("0.2.0", "0.2.1", False),
        ("0.3.0", "0.2.0", False),
        ("0.1.0", "0.3.0", True),
        ("0.9.0", "1.0.0", False),
        ("0.9.0", "1.1.0", True),
        ("0.2.0", "2.0.0", True),
        ("unknown", "0.9.0", False),
    ],
)
def test_a_release_in_between_is_seen(former: str, target: str, skips: bool) -> None:
    assert is_skipping(former, target) is skips
