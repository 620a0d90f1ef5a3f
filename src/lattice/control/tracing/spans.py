"""Spans of allocations that were submitted inside a trace: waiting, starting, running. The leader emits them when they end."""

import hashlib
import logging

from lattice.core.machine.commands import Envelope
from lattice.core.machine.events import AllocationEnded, AllocationPlaced, AllocationStarted, AnyEvent
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.traces import Span, SpanSink
from lattice.wire.text.traces import VARIABLE, TraceContext, parse_traceparent
from lattice.wire.work.payloads import decode_work

MAX_OPEN = 20_000

_log = logging.getLogger(__name__)


class WorkSpans:
    """Remembers when work was placed; the rest is in the records."""

    def __init__(self, replica: Replica, sink: SpanSink) -> None:
        self._replica = replica
        self._sink = sink
        self._placed: dict[int, int] = {}  # number to the moment
        replica.subscribe(self._note, of=(AllocationPlaced, AllocationStarted, AllocationEnded))

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, (AllocationPlaced, AllocationStarted, AllocationEnded)):
                record = self._replica.state.allocations.get(event.number)
                context = None if record is None else self._context_of(record)
                if record is not None and context is not None and context.is_sampled:
                    self._take(event, record, context, envelope.at)

    def _take(
        self,
        event: AllocationPlaced | AllocationStarted | AllocationEnded,
        record: Allocation,
        context: TraceContext,
        at: int,
    ) -> None:
        match event:
            case AllocationPlaced():
                self._emit("lattice.queued", record, context, record.submitted_at, at)
                self._placed[record.number] = at
                if len(self._placed) > MAX_OPEN:
                    del self._placed[next(iter(self._placed))]
            case AllocationStarted():
                self._emit("lattice.start", record, context, self._placed.pop(record.number, at), at)
            case AllocationEnded():
                self._placed.pop(record.number, None)
                failed = event.state not in (AllocationState.COMPLETED, AllocationState.CANCELLED)
                self._emit("lattice.run", record, context, record.started_at or at, at, is_error=failed)

    def _emit(
        self,
        name: str,
        record: Allocation,
        context: TraceContext,
        began_at: int,
        ended_at: int,
        *,
        is_error: bool = False,
    ) -> None:
        about = f"{record.number}/{record.run}/{name}"
        self._sink.add(
            Span(
                trace=context.trace,
                # The same on every server that might emit it.
                span=hashlib.sha256(f"{context.trace}/{about}".encode()).hexdigest()[:16],
                parent=context.span,
                name=name,
                began_at=began_at,
                ended_at=ended_at,
                attributes={
                    "lattice.allocation": allocation_id(record.number),
                    "lattice.run": str(record.run),
                    "lattice.vcluster": record.vcluster,
                    "lattice.nodes": str(len(record.shares)),
                },
                is_error=is_error,
            )
        )

    def _context_of(self, record: Allocation) -> TraceContext | None:
        payload = self._replica.state.payload_of(record)
        if VARIABLE.encode() not in payload and not payload.startswith(b"\x28\xb5\x2f\xfd"):  # compressed: look inside
            return None
        try:
            said = decode_work(payload).env.get(VARIABLE, "")
        except ValueError:
            _log.debug("the work of allocation %d cannot be read", record.number)
            return None
        return parse_traceparent(said)
