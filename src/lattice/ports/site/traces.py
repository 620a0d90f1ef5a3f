"""Where finished spans go: a system that collects traces, outside the cluster."""

from typing import Protocol

from msgspec import Struct


class Span(Struct, frozen=True, kw_only=True, gc=False):
    """Something that took time. Times are milliseconds since 1970; `attributes` name no tenant, project or user."""

    trace: str
    span: str
    parent: str = ""
    name: str
    began_at: int
    ended_at: int
    attributes: dict[str, str] = {}
    is_error: bool = False


class SpanSink(Protocol):
    def add(self, span: Span) -> None:
        """Takes the span, or drops and counts it when too many wait. Never waits, never raises."""
        ...
