"""Requests that belong to a trace: their spans, and the work that they submit."""

from msgspec.structs import replace

from lattice.api.services import Services
from lattice.ports.site.traces import Span
from lattice.wire.text.traces import VARIABLE, TraceContext, parse_traceparent
from lattice.wire.work.submissions import Submission


def trace_of(traceparent: str) -> TraceContext | None:
    """A span of ours inside the caller's trace; None where the caller named none."""
    parent = parse_traceparent(traceparent) if traceparent else None
    return None if parent is None else parent.child()


def with_trace(trace: TraceContext | None, request: Submission) -> Submission:
    """The work gets the variable TRACEPARENT, unless its submitter chose one."""
    if trace is None or VARIABLE in request.environment:
        return request
    return replace(request, environment={**request.environment, VARIABLE: trace.text})


def note_request(services: Services, trace: TraceContext | None, operation: str, began_at: int, status: int) -> None:
    """Sends the span of a request that was answered, where traces are sent and the caller wants this one."""
    if services.spans is None or trace is None or not trace.is_sampled:
        return
    services.spans.add(
        Span(
            trace=trace.trace,
            span=trace.span,
            parent=trace.parent,
            name=f"lattice.api {operation}",
            began_at=began_at,
            ended_at=services.wall_ms(),
            attributes={"lattice.operation": operation, "lattice.status": str(status)},
            is_error=status >= 500,
        )
    )
