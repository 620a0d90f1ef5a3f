"""Trace context as W3C writes it: `00-TRACE-SPAN-FLAGS`. What is written otherwise is ignored, as that specification says."""

import re
import secrets
from typing import NamedTuple

HEADER = "traceparent"
VARIABLE = "TRACEPARENT"
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
MAX_LENGTH = 256


class TraceContext(NamedTuple):
    """A span and the trace to which it belongs; `parent` is the span that caused it."""

    trace: str
    span: str
    parent: str = ""
    flags: str = "01"

    @property
    def is_sampled(self) -> bool:
        return bool(int(self.flags, 16) & 1)

    @property
    def text(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"

    def child(self) -> "TraceContext":
        return TraceContext(self.trace, secrets.token_hex(8), self.span, self.flags)


def parse_traceparent(text: str) -> TraceContext | None:
    """None for what is no trace context."""
    found = _FORM.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
    return None if found is None else TraceContext(found[1], found[2], "", found[3])
