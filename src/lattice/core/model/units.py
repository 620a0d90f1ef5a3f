"""Durations and sizes as people write them, turned into whole seconds and megabytes. See docs/architecture/core.md."""

import re
from functools import lru_cache

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhdw])", re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(r"(?:([0-9]+)-)?([0-9]+):([0-9]{1,2})(?::([0-9]{1,2}))?")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
# Longer values are refused without being parsed.
MAX_TEXT = 64
_SIZE_MB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
MAX_DURATION_S = 10 * 365 * 86400


class BadUnit(ValueError):
    """A duration or size that cannot be read; the text says what would be."""


def parse_duration_s(text: str) -> int:
    """Whole seconds of `90`, `45s`, `30m`, `1h30m`, `2d`, `HH:MM:SS`, `HH:MM` or `D-HH:MM:SS`.

    Raises BadUnit for anything else, for zero and for more than ten years.
    """
    seconds = _duration(text.strip()) if len(text) <= MAX_TEXT else None
    if seconds is None:
        raise BadUnit(f'cannot read "{text[:60]}" as a duration; write 90s, 30m, 24h, 1h30m, 2d or HH:MM:SS')
    if not 0 < seconds <= MAX_DURATION_S:
        raise BadUnit(f'a duration of "{text[:60]}" is not possible; it must lie between 1 s and 10 years')
    return seconds


@lru_cache(maxsize=256)  # nearly all work says one of a few
def _duration(text: str) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text)
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        if minutes > 59 or rest > 59:
            return None
        return days * 86400 + hours * 3600 + minutes * 60 + rest
    if not text or _PARTS.sub("", text).strip():
        return None
    total = sum(float(value) * _UNIT_S[unit.lower()] for value, unit in _PARTS.findall(text))
    return int(-(-total // 1))


def parse_size_mb(text: str) -> int:
    """Whole megabytes (2^20) of `512`, `512M`, `4G`, `4GB` or `1.5T`; a bare number is megabytes."""
    match = _SIZE.fullmatch(text.strip()) if len(text) <= MAX_TEXT else None
    if not match:
        raise BadUnit(f'cannot read "{text[:60]}" as a size; write 512M, 4G or 1.5T')
    megabytes = float(match[1]) * _SIZE_MB[match[2].lower()]
    if not 0 < megabytes < 2**40:
        raise BadUnit(f'a size of "{text[:60]}" is not possible')
    return int(-(-megabytes // 1))


def format_duration(seconds: int) -> str:
    """`HH:MM:SS`, with days in front when there are any."""
    days, rest = divmod(max(0, seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    clock = f"{hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{days}-{clock}" if days else clock
