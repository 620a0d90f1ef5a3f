"""Which snapshots of the object store are kept: all for 7 days, one a day up to 30, one a week up to 90."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from lattice.quorum.backup.retention import choose_expired

NOW = datetime(2026, 3, 31, 12, 30, tzinfo=UTC)


def hourly(days: int) -> list[datetime]:
    return [NOW - timedelta(hours=hours) for hours in range(days * 24)]


def kept(taken: list[datetime]) -> list[datetime]:
    return sorted(set(taken) - set(choose_expired(taken, NOW)))


def test_everything_of_the_last_week_is_kept() -> None:
    assert choose_expired(hourly(7), NOW) == []


def test_after_a_week_one_a_day_is_kept_and_after_a_month_one_a_week() -> None:
    left = kept(hourly(120))
    ages = [NOW - when for when in left]
    assert sum(age <= timedelta(days=7) for age in ages) == 7 * 24 + 1
    daily = [when for when in left if timedelta(days=7) < NOW - when <= timedelta(days=30)]
    assert len({when.date() for when in daily}) == len(daily) in (23, 24)
    weekly = [when for when in left if timedelta(days=30) < NOW - when <= timedelta(days=90)]
    assert len({when.isocalendar()[:2] for when in weekly}) == len(weekly) in (9, 10)
    assert max(ages) <= timedelta(days=90)


def test_what_is_kept_is_kept_again_when_nothing_new_comes() -> None:
    left = kept(hourly(120))
    assert kept(left) == left


def test_pruning_every_hour_leaves_what_pruning_once_would() -> None:
    have: list[datetime] = []
    begin = NOW - timedelta(days=100)
    for hour in range(0, 100 * 24 + 1, 3):
        now = begin + timedelta(hours=hour)
        have.append(now)
        gone = set(choose_expired(have, now))
        have = [when for when in have if when not in gone]
    assert 56 + 22 + 8 <= len(have) <= 57 + 25 + 11
    assert max(later - earlier for earlier, later in pairwise(have)) <= timedelta(days=8)


def test_the_newest_is_never_deleted() -> None:
    ancient = [NOW - timedelta(days=400), NOW - timedelta(days=300)]
    assert choose_expired(ancient, NOW) == [ancient[0]]
    assert choose_expired([], NOW) == []
