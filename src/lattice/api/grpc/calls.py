"""One operation over gRPC: admit, decode, call, encode, count; the counterpart of `rest/endpoint.py`.

Requests are read here and not by the library, so that bytes which are no message get an answer like any other mistake.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import grpc
from google.protobuf.message import Message
from msgspec import Struct

from lattice.api.access.admission import TWICE, admit, token_in
from lattice.api.access.revalidation import StreamAuthorization
from lattice.api.answers import (
    Drawn,
    EventAnswer,
    OtherStatus,
    ServerEvent,
    Shared,
    TextAnswer,
    TextPiece,
    TunnelAnswer,
    is_long,
)
from lattice.api.context import Context
from lattice.api.errors import ApiError, not_a_tunnel, translated
from lattice.api.grpc.contract import PACKAGE, Rpc, message_class
from lattice.api.grpc.convert import answer_writer, event_writer, request_reader
from lattice.api.grpc.elements import Elements, Malformed, TooMany
from lattice.api.grpc.statuses import REQUEST_ID, status_of, trailers
from lattice.api.limits import MAX_BODY_BYTES, MAX_DECODED_HERE
from lattice.api.pacing import in_thread
from lattice.api.protocol import HEADER, check_client
from lattice.api.services import Services
from lattice.api.tracing import note_request, trace_of
from lattice.ports.site.identity import Identity
from lattice.wire.text.traces import HEADER as TRACEPARENT
from lattice.wire.text.traces import TraceContext

_log = logging.getLogger(__name__)
_numbers = count(1)

CallContext = grpc.aio.ServicerContext[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Caller:
    """What the metadata of a call says."""

    authorization: str
    tenant: str
    request_id: str
    is_stale_enough: bool
    protocol: str
    trace: TraceContext | None

    @classmethod
    def of(cls, context: CallContext) -> "Caller":
        metadata = context.invocation_metadata() or ()
        said = {str(key): value for key, value in metadata}
        is_twice = sum(key == "authorization" for key, _ in metadata) > 1
        return cls(
            authorization=TWICE if is_twice else _text(said.get("authorization")),
            tenant=_text(said.get("x-lattice-tenant")),
            request_id=_text(said.get(REQUEST_ID)),
            is_stale_enough=_text(said.get("x-lattice-consistency")) == "stale",
            protocol=_text(said.get(HEADER)),
            trace=trace_of(_text(said.get(TRACEPARENT))),
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class Call:
    """One operation; `answer` for one message, `pieces` for a stream of them.

    What converts its messages is made by the first call: for all operations that is a seventh of the start of a server.
    """

    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc
        self._operation = rpc.operation

    @cached_property
    def _decode(self) -> Callable[[bytes], Struct]:
        return request_reader(self.rpc.request, self.rpc.request_message)

    @cached_property
    def _elements(self) -> Elements:
        return Elements(message_class(self.rpc.request_message))

    @cached_property
    def _encode(self) -> Callable[[object], bytes]:
        return answer_writer(self.rpc.response)

    @cached_property
    def _encode_event(self) -> Callable[[object, str, str], bytes]:
        return event_writer(self.rpc.response)

    @cached_property
    def _piece(self) -> Callable[..., Message]:
        return message_class(self.rpc.response.message)

    async def answer(self, services: Services, request: bytes | None, context: CallContext) -> bytes:
        """Reads the request itself where it has not been read yet, once the caller has been let in."""
        started = services.clock.monotonic_s()
        caller = Caller.of(context)
        try:
            answer, _ = await self._run(services, request, caller, context)
            status = self._operation.status
            if isinstance(answer, OtherStatus):
                status, answer = answer.status, answer.answer
            if isinstance(answer, Drawn | Shared):
                answer = answer.answer
            encoded = await in_thread(self._encode, answer) if is_long(answer) else self._encode(answer)
        except Exception as error:
            seconds = services.clock.monotonic_s() - started
            self._count(services, translated(error).status, seconds)
            await refuse(context, error, self._operation.name, caller.request_id or self._given_id(services))
            raise
        seconds = services.clock.monotonic_s() - started
        self._count(services, status, seconds)
        note_request(services, caller.trace, self._operation.name, services.wall_ms() - int(seconds * 1000), status)
        return encoded

    async def pieces(
        self, services: Services, request: bytes | None, context: CallContext
    ) -> AsyncGenerator[bytes, None]:
        caller = Caller.of(context)
        status = 200
        try:
            answer, identity = await self._run(services, request, caller, context)
            if isinstance(answer, TextAnswer):
                async with aclosing(answer.pieces) as text:
                    async for piece in text:
                        yield self._encoded_piece(piece)
            elif isinstance(answer, TunnelAnswer):
                answer.release()
                raise not_a_tunnel()
            elif isinstance(answer, EventAnswer):
                standing = StreamAuthorization(services, self._operation, caller.authorization, identity)
                events = _while_allowed(answer, standing)
                async with aclosing(events) as opened:
                    async for event in opened:
                        yield self._encode_event(event.data, event.id, event.event)
        except Exception as error:  # noqa: BLE001 - the edge: everything becomes an answer
            status = translated(error).status
            await refuse(context, error, self._operation.name, caller.request_id or self._given_id(services))
        finally:
            self._count(services, status, None)

    async def _run(
        self, services: Services, given: bytes | None, caller: Caller, call: CallContext
    ) -> tuple[object, Identity]:
        if caller.protocol:
            check_client(caller.protocol)
        identity = await admit(services, self._operation, caller.authorization, source_of(call))
        request = await read_request(call) if given is None else given
        if len(request) > MAX_BODY_BYTES:
            raise ApiError(
                "too_large",
                "the request is too large",
                current=f"{len(request):,} bytes",
                limit=f"{MAX_BODY_BYTES:,} bytes",
                hint="put large data into files that the script reads",
            )
        await self._check_elements(request)
        is_large = len(request) > MAX_DECODED_HERE
        record = await in_thread(self._decode, request) if is_large else self._decode(request)
        if services.before_read is not None and self._operation.method == "GET" and not caller.is_stale_enough:
            await services.before_read()
        token = token_in(caller.authorization)
        context = Context(services, identity, caller.tenant, caller.request_id, token, caller.trace)
        lease = services.limits.enter(identity, self._operation.name)
        return await lease.around(self._operation.handle(context, record)), identity

    async def _check_elements(self, request: bytes) -> None:
        if not self._elements.is_suspect(request):
            return
        try:
            await in_thread(self._elements.check, request)
        except TooMany as error:
            raise ApiError(
                "invalid",
                f"the request has too many {error.what}",
                limit=f"{error.most:,}",
                hint="send it in several requests",
            ) from None
        except Malformed:
            raise ApiError("invalid", f"the request is not a {PACKAGE}.{self.rpc.request_message}") from None

    def _encoded_piece(self, piece: TextPiece) -> bytes:
        return self._piece(data=piece.data, dropped=piece.dropped or None).SerializeToString()

    def _count(self, services: Services, status: int, seconds: float | None) -> None:
        services.metrics.request_done(self._operation.name, "GRPC", status, seconds)

    def _given_id(self, services: Services) -> str:
        return f"{services.boot}-g{next(_numbers):x}"


def source_of(context: CallContext) -> str:
    """The address that the call came from: `ipv4:10.0.0.1:4321` without its port."""
    kind, _, address = context.peer().partition(":")
    return address.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


async def read_request(context: CallContext) -> bytes:
    """The one message of a call. Raises ApiError."""
    request = await context.read()
    if not isinstance(request, bytes):
        raise ApiError("invalid", "the call has no request")
    return request


async def refuse(context: CallContext, error: Exception, operation: str, request_id: str) -> None:
    """Ends the call with the error; failures of ours are logged with what was asked, never with its content."""
    shown = translated(error)
    if shown.status >= 500:
        _log.error(
            "%s failed: %s",
            operation,
            error,
            exc_info=error if shown.code == "internal" else None,
            extra={"operation": operation, "request_id": request_id, "status": shown.status},
        )
    sent = trailers(shown, request_id if request_id.isascii() and request_id.isprintable() else "")
    await context.abort(status_of(shown), shown.view.message, sent)


async def _while_allowed(
    answer: EventAnswer[object], standing: StreamAuthorization
) -> AsyncGenerator[ServerEvent[object], None]:
    """The events, as long as the caller may have them."""
    upcoming: asyncio.Future[ServerEvent[object] | None] | None = None
    try:
        while True:
            await standing.confirm()
            upcoming = upcoming or asyncio.ensure_future(_next(answer.events))
            await asyncio.wait((upcoming,), timeout=standing.left_s() + 0.01)
            if upcoming.done():
                event, upcoming = upcoming.result(), None
                if event is None:
                    return
                yield event
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await answer.events.aclose()


async def _next(events: AsyncIterator[ServerEvent[object]]) -> ServerEvent[object] | None:
    return await anext(events, None)
