"""Which snapshots in the object store are kept: all for a week, then one a day for a month, then one a week for three months."""

from collections.abc import Iterable
from datetime import datetime, timedelta

ALL_FOR = timedelta(days=7)
DAILY_FOR = timedelta(days=30)
WEEKLY_FOR = timedelta(days=90)
_MONDAY = datetime(1970, 1, 5)  # noqa: DTZ001 - only its distance in days counts


def choose_expired(taken: Iterable[datetime], now: datetime) -> list[datetime]:
    """Snapshots to delete, oldest first. The first of a day or week is kept, and always the newest of all."""
    ordered = sorted(taken)
    kept_periods: set[tuple[str, int]] = set()
    expired = []
    for when in ordered[:-1]:
        period = _period(when, now)
        if period is None:
            continue
        if period in kept_periods or period[0] == "over":
            expired.append(when)
        kept_periods.add(period)
    return expired


def _period(when: datetime, now: datetime) -> tuple[str, int] | None:
    """The period of which one snapshot is kept; None while all are kept."""
    age = now - when
    days = (when.replace(tzinfo=None) - _MONDAY).days
    if age <= ALL_FOR:
        return None
    if age <= DAILY_FOR:
        return "day", days
    if age <= WEEKLY_FOR:
        return "week", days // 7
    return "over", 0
