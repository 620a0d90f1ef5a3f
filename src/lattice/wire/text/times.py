"""Moments on the wire: RFC 3339 in UTC outside, milliseconds since 1970 inside."""

import time
from datetime import UTC, datetime
from functools import lru_cache

from lattice.wire.text.problems import BadField


@lru_cache(maxsize=8192)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def rfc3339(ms: int) -> str | None:
    """`2026-03-05T10:00:00.123Z`; None for 0, which stands for "not yet"."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z" if ms else None


def parse_moment(text: str, field: str) -> int:
    """Milliseconds of an RFC 3339 time with its offset, or of a date (midnight UTC). Raises BadField."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadField(field, f'cannot read "{text[:60]}" as a time', hint=_HINT) from None
    if moment.tzinfo is None:
        if len(text.strip()) > len("2026-03-01"):
            raise BadField(field, f'"{text[:60]}" has no time zone', hint=_HINT)
        moment = moment.replace(tzinfo=UTC)
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds <= 0:
        raise BadField(field, f'"{text[:60]}" lies before 1970', hint=_HINT)
    return milliseconds


_HINT = "write 2026-03-01T10:00:00Z, 2026-03-01T11:00:00+01:00 or 2026-03-01"
