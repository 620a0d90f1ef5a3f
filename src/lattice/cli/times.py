"""Times and durations between people and the API: elapsed clocks, `now+2h`, local times for people, RFC 3339 in UTC."""

import re
from datetime import UTC, datetime, timedelta

from lattice.cli.errors import UsageError

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def clock_text(seconds: float | None) -> str:
    """`HH:MM:SS`, hours beyond 24 included; `-` when there is nothing to show."""
    if not seconds:
        return "-" if seconds is None else "00:00:00"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{rest:02d}"


def parse_duration_s(text: str) -> float:
    """Seconds of `90`, `45s`, `30m`, `1h30m` or `2d`; UsageError for anything else."""
    try:
        return float(text)
    except ValueError:
        pass
    parts = _PARTS.findall(text)
    if not parts or _PARTS.sub("", text).strip():
        raise UsageError(f'cannot read "{text}" as a duration', hint="write 90s, 30m, 24h or 2d")
    return float(sum(float(value) * _UNIT_S[unit.lower()] for value, unit in parts))


def local_text(moment: str | None, now: float) -> str:
    """A moment of the API in local time, as short as can be: `today 22:00`, `tomorrow 08:30`, `2026-03-01 10:00`."""
    if not moment:
        return ""
    try:
        local = datetime.fromisoformat(moment).astimezone()
    except ValueError:
        return moment
    away = (local.date() - datetime.fromtimestamp(now).astimezone().date()).days
    day = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get(away) or local.strftime("%Y-%m-%d")
    return f"{day} {local:%H:%M}"


def stamp_text(moment: str | None) -> str:
    """A moment of the API in local time, to the second: `2026-03-01 10:00:00`."""
    if not moment:
        return ""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return moment


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_UTC_TIME = re.compile(r"(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d) UTC")


def with_local_times(text: str, now: float) -> str:
    """A sentence of the server with its times, which are in UTC, in local time."""
    if "UTC" not in text and "Z" not in text:
        return text

    def local_clock(match: re.Match[str]) -> str:
        day = match[1] or f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
        local = datetime.fromisoformat(f"{day}T{match[2]}:00+00:00").astimezone()
        is_today = local.date() == datetime.fromtimestamp(now).astimezone().date()
        return f"{local:%H:%M}" if is_today else f"{local:%Y-%m-%d %H:%M}"

    return _UTC_TIME.sub(local_clock, _STAMP.sub(lambda match: local_text(match[0], now), text))


def local_with_distance(moment: str | None, now: float) -> str:
    """The same with how far away it is: `today 22:00, in 2 h`, `yesterday 08:30, 26 h ago`."""
    text = local_text(moment, now)
    if not moment or text == moment:
        return text
    seconds = datetime.fromisoformat(moment).timestamp() - now
    distance = span_text(abs(seconds))
    return f"{text}, in {distance}" if seconds >= 0 else f"{text}, {distance} ago"


def span_text(seconds: float) -> str:
    """A duration by its largest unit: `45 s`, `5 min`, `26 h`, `3 d`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def _exact(seconds: float) -> str:
    """A duration as the API takes it, by the largest unit that says it whole: `90s`, `2h`, `0s`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


_INSTANT = re.compile(r"(?<![\w.])[1-9]\d{12}(?![\w.])", re.ASCII)
_LENGTH = re.compile(r"\b([a-z]\w*)_(m?s): (\w+) -> (\w+)", re.ASCII)


def readable_detail(text: str) -> str:
    """A detail of the audit log, `start: none -> 1731945600000`, with times and lengths that people can read.

    The log keeps times in milliseconds since 1970, which have 13 digits until the year 2286.
    """

    def lasting(value: str, unit: str) -> str:
        return _exact(int(value) / (1000 if unit == "ms" else 1)) if value.isdigit() else value

    def length(match: re.Match[str]) -> str:
        return f"{match[1]}: {lasting(match[3], match[2])} -> {lasting(match[4], match[2])}"

    def instant(match: re.Match[str]) -> str:
        return rfc3339(datetime.fromtimestamp(int(match[0]) / 1000, UTC))

    return _INSTANT.sub(instant, _LENGTH.sub(length, text))


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def parse_moment(text: str, now: float, *, past: bool = False) -> str:
    """A moment as RFC 3339 in UTC.

    Takes RFC 3339, `2026-03-01`, `2026-03-01T10:00`, `HH:MM` (the next one, or with `past` the last),
    `now`, `now+2h`, `+2h`, and with `past` also `2h` (ago). Without a zone the local one is meant.
    """
    try:
        return rfc3339(_moment(text, now, past=past))
    except (OverflowError, ValueError):
        raise UsageError(f'"{text}" is beyond the years 1 to 9999') from None


def _moment(text: str, now: float, *, past: bool) -> datetime:
    words = text.strip().lower()
    present = datetime.fromtimestamp(now).astimezone()
    if words == "now":
        return present
    relative = words.removeprefix("now")
    if relative.startswith("+"):
        return present + _delta(relative[1:])
    if relative.startswith("-") and past:
        return present - _delta(relative[1:])
    if past and _PARTS.match(words):
        return present - _delta(words)
    return _clock_moment(words, present, past=past) or _absolute(text, past=past)


def _delta(text: str) -> timedelta:
    return timedelta(seconds=parse_duration_s(text))


def _clock_moment(words: str, present: datetime, *, past: bool) -> datetime | None:
    match = _CLOCK.fullmatch(words)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise UsageError(f'"{words}" is not a time of day')
    moment = present.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if moment <= present and not past:
        moment += timedelta(days=1)
    if moment > present and past:
        moment -= timedelta(days=1)
    return moment


def _absolute(text: str, *, past: bool) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        hint = f"write 2026-03-01T10:00:00Z, 2026-03-01, 16:30 or {'2h (ago)' if past else 'now+2h'}"
        raise UsageError(f'cannot read "{text}" as a time', hint=hint) from None
    return moment if moment.tzinfo is not None else moment.astimezone()
