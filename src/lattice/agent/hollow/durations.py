"""Spans of time as the options of hollow agents are written: `500ms`, `3s`, `2m`, `1h`, or seconds without a unit."""

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


class NotASpan(ValueError):
    """The text names no span of time; the message says what would."""


def span_s(text: str) -> float:
    """Seconds; raises NotASpan."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise NotASpan(f"{text!r} is no span of time: write 500ms, 3s, 2m or 1h")
    return float(found[1]) * _UNITS_S[found[2]]
