"""Slurm's times: limits (`d-h:m:s` and its shorter forms), moments (`now+2hours`, `16:00`, ISO), and how both are printed.

Moments are wall-clock seconds; the time zone is that of the caller (`slurm/text/zones.py`).
"""

import re
from datetime import datetime, timedelta
from time import time

from lattice.slurm.text.zones import in_zone, local

UNLIMITED = -1
LONGEST_S = 10**10
LAST_MOMENT = 253_402_300_799.0  # of the year 9999
NOT_SET = "N/A"

_WORDS = {"unlimited", "infinite"}
_LIMIT = re.compile(r"(?:(\d{1,12})-)?(\d{1,12})(?::(\d{1,12}))?(?::(\d{1,12}))?$", re.ASCII)
_OFFSET = re.compile(r"now\s*(?:([+-])\s*(\d+)\s*([a-z]*))?$", re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?$", re.IGNORECASE | re.ASCII)
_UNITS = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400), ("week", 604800))
_NAMED = {"midnight": (0, 0, 0), "noon": (12, 0, 0), "fika": (15, 0, 0), "elevenses": (11, 0, 0), "teatime": (16, 0, 0)}
_SECONDS = re.compile(r"(?<!%)((?:%%)*)%s")
_DATES = ("%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y", "%m/%d", "%m%d%y", "%m.%d.%y")


def parse_limit(text: str) -> int | None:
    """Seconds of a time limit, UNLIMITED, or None for an invalid limit."""
    wanted = text.strip().lower()
    if wanted in _WORDS or wanted == "-1":
        return UNLIMITED
    found = _LIMIT.match(wanted)
    if found is None:
        return None
    days, *fields = found.groups()
    numbers = [int(field) for field in fields if field is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        total = int(days) * 86400 + hours * 3600 + minutes * 60 + seconds
    elif len(numbers) == 3:
        total = numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    else:
        total = numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)
    if total > LONGEST_S:
        return None
    return total or UNLIMITED


def parse_moment(text: str, now: float) -> float | None:
    """Seconds since 1970 of a moment such as `now+1hour`, `16:00`, `tomorrow`, `2026-01-31T12:00`; None for anything else."""
    try:
        moment = _moment(text, now)
    except (ValueError, OverflowError):
        return None  # a date that the local clock does not have, such as one of the year 1
    return moment if moment is not None and abs(moment) <= LAST_MOMENT else None


def _moment(text: str, now: float) -> float | None:
    wanted = text.strip()
    offset = _OFFSET.match(wanted)
    if offset is not None:
        return _offset(offset, now)
    if wanted.isascii() and wanted.isdigit() and 8 < len(wanted) < 16:
        return float(wanted)
    # Wall-clock times: their zone is that of the caller.
    today = local(now).replace(tzinfo=None)
    day, clock = _split(wanted)
    base = _day(day, today)
    at = (0, 0, 0) if clock is None else _clock(clock)
    if base is None or at is None:
        return None
    moment = base.replace(hour=at[0], minute=at[1], second=at[2], microsecond=0)
    # A time of day without a date means the next such time.
    if day is None and in_zone(moment) <= now:
        moment += timedelta(days=1)
    return in_zone(moment)


def _offset(found: re.Match[str], now: float) -> float | None:
    sign, count, unit = found.groups()
    if count is None:
        return now
    scale = next(
        (factor for name, factor in _UNITS if unit and f"{name}s".startswith(unit.lower())), 1 if not unit else 0
    )
    if not scale:
        return None
    if len(count) > 12:
        return None
    return now + int(count) * scale * (-1 if sign == "-" else 1)


def _split(text: str) -> tuple[str | None, str | None]:
    """Date and time of day; `1970-01-01-00:00:01` is accepted, too."""
    for separator in ("T", "-", " "):
        day, found, clock = text.rpartition(separator)
        if found and ":" in clock:
            return day, clock
    if ":" in text or text.lower() in _NAMED:
        return None, text
    return text, None


def _day(text: str | None, today: datetime) -> datetime | None:
    if text is None or text.lower() == "today":
        return today
    if text.lower() == "tomorrow":
        return today + timedelta(days=1)
    for form in _DATES:
        try:
            day = datetime.strptime(text, form)  # noqa: DTZ007
        except ValueError:
            continue
        return day if "y" in form.lower() else day.replace(year=today.year)
    return None


def _clock(text: str) -> tuple[int, int, int] | None:
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    found = _CLOCK.match(text)
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    half = (found[4] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def format_span(seconds: int, *, short: bool = True) -> str:
    """`m:ss`, `h:mm:ss` or `d-hh:mm:ss` as squeue prints; without `short` always `[d-]hh:mm:ss`, as sacct and scontrol do."""
    minutes, second = divmod(max(0, seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    if hour or not short:
        return f"{hour:02}:{minute:02}:{second:02}" if not short else f"{hour}:{minute:02}:{second:02}"
    return f"{minute}:{second:02}"


def format_limit(seconds: int, *, short: bool = True) -> str:
    """A limit in whole minutes, rounded up, as Slurm stores it. 0 or less = none."""
    if seconds <= 0:
        return "UNLIMITED"
    return format_span(-(-seconds // 60) * 60, short=short)


def format_moment(seconds: float | None, form: str = "", missing: str = NOT_SET) -> str:
    """Local time in ISO form; `form` is the value of SLURM_TIME_FORMAT."""
    if seconds is None:
        return missing
    moment = local(seconds)
    if form == "relative":
        return _relative(moment, local(time()))
    if form and form != "standard" and "%" in form:
        return _written(form, moment)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _written(form: str, moment: datetime) -> str:
    # The C library counts %s in the zone of this process.
    return moment.strftime(_SECONDS.sub(lambda found: found[1] + str(int(moment.timestamp())), form))


def _relative(moment: datetime, today: datetime) -> str:
    """Omits the parts that equal today's date."""
    if moment.date() == today.date():
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%-d %b %H:%M" if moment.year == today.year else "%-d %b %Y")


def format_date(seconds: float) -> str:
    """As the long listings and `sdiag` begin: `Sun Nov 15 13:24:27 2026`."""
    return local(seconds).strftime("%a %b %d %H:%M:%S %Y")
