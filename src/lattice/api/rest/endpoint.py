"""One operation over HTTP: authenticate, decode, call, encode, count. Nothing wraps this and nothing is wrapped twice."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cached_property
from itertools import count

from starlette.types import Receive, Scope, Send

from lattice.api.access.admission import admit, token_in
from lattice.api.access.revalidation import StreamAuthorization
from lattice.api.answers import Drawn, EventAnswer, OtherStatus, Shared, TextAnswer, TextPiece, TunnelAnswer, is_long
from lattice.api.context import Context
from lattice.api.errors import ErrorAnswer, not_a_tunnel, translated
from lattice.api.limits import MAX_DECODED_HERE
from lattice.api.operations.operation import Operation
from lattice.api.pacing import in_thread
from lattice.api.protocol import check_client
from lattice.api.rest.encoding import encode, encode_long
from lattice.api.rest.events import send_events
from lattice.api.rest.lines import UPGRADE, carry
from lattice.api.rest.requests import ClientGone, Decode, Headers, decoder_for, header_value, read_body, source_of
from lattice.api.services import Services
from lattice.api.tracing import note_request, trace_of
from lattice.ports.site.identity import Identity
from lattice.wire.text.traces import TraceContext

_log = logging.getLogger(__name__)
_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_NO_STORE = (b"cache-control", b"no-store")
_CHALLENGE = (b"www-authenticate", b"Bearer")
RETRY = (b"retry-after", b"1")
_CLOSE = (b"connection", b"close")
# Set in the scope of a request that takes what this server has, however old.
STALE = "lattice.stale"
_numbers = count(1)


class Endpoint:
    """An ASGI application for one operation."""

    def __init__(self, operation: Operation, services: Services) -> None:
        self._operation = operation
        self._services = services
        self._has_body = operation.method != "GET"

    @cached_property
    def _decode(self) -> Decode:
        """Made by the first request: making all of them delays the start of a server."""
        return decoder_for(self._operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._services.clock.monotonic_s()
        headers = Headers(scope)
        request_id = headers.request_id or f"{self._services.boot}-{next(_numbers):x}"
        trace = trace_of(headers.traceparent)
        began_at = 0 if trace is None else self._services.wall_ms()
        seconds: float | None = None
        try:
            answer, user = await self._answer(scope, receive, headers, trace)
            if isinstance(answer, TextAnswer):
                status = await _send_text(send, answer.pieces, request_id)
            elif isinstance(answer, TunnelAnswer):
                standing = StreamAuthorization(self._services, self._operation, headers.authorization, user)
                await _send_tunnel(scope, answer, standing)
                status = 101
            elif isinstance(answer, EventAnswer):
                standing = StreamAuthorization(self._services, self._operation, headers.authorization, user)
                await send_events(receive, send, answer.events, request_id, standing)
                status = 200
            else:
                status = self._operation.status
                if isinstance(answer, OtherStatus):
                    status, answer = answer.status, answer.answer
                if isinstance(answer, Drawn):
                    await _send_drawn(send, answer, request_id)
                else:
                    await send_json(send, status, answer, request_id)
                seconds = self._services.clock.monotonic_s() - started
        except ClientGone:
            status = 499
        except Exception as error:  # noqa: BLE001 - the edge: everything becomes an answer
            status = await send_error(send, error, request_id, self._operation.name)
            seconds = self._services.clock.monotonic_s() - started
        self._services.metrics.request_done(self._operation.name, self._operation.method, status, seconds)
        note_request(self._services, trace, self._operation.name, began_at, status)
        if _log.isEnabledFor(logging.DEBUG):
            self._log_request(status, request_id, started)

    async def _answer(
        self, scope: Scope, receive: Receive, headers: Headers, trace: TraceContext | None
    ) -> tuple[object, Identity]:
        if headers.protocol:
            check_client(headers.protocol)
        identity = await admit(self._services, self._operation, headers.authorization, source_of(scope))
        body = await read_body(receive, headers) if self._has_body else b""
        is_large = len(body) > MAX_DECODED_HERE
        decoding = self._decode, scope, headers, body
        request = await in_thread(*decoding) if is_large else self._decode(scope, headers, body)
        before_read = self._services.before_read
        if before_read is not None and not self._has_body and not scope.get(STALE):
            await before_read()
        token = token_in(headers.authorization)
        context = Context(self._services, identity, headers.tenant, headers.request_id, token, trace)
        lease = self._services.limits.enter(identity, self._operation.name)
        return await lease.around(self._operation.handle(context, request)), identity

    def _log_request(self, status: int, request_id: str, started: float) -> None:
        _log.debug(
            "%s %s -> %d",
            self._operation.method,
            self._operation.path,
            status,
            extra={
                "operation": self._operation.name,
                "status": status,
                "request_id": request_id,
                "duration_ms": round((self._services.clock.monotonic_s() - started) * 1000, 3),
            },
        )


async def send_json(
    send: Send,
    status: int,
    answer: object,
    request_id: str,
    *more: tuple[bytes, bytes],
) -> None:
    pieces = await _encoded(answer)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                _JSON,
                _NO_STORE,
                (b"content-length", b"%d" % sum(map(len, pieces))),
                (b"x-request-id", header_value(request_id)),
                *more,
            ],
        }
    )
    for piece in pieces[:-1]:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": pieces[-1]})


async def _encoded(answer: object) -> list[bytes]:
    if isinstance(answer, Shared):
        answer.encoded = answer.encoded or await _encoded(answer.answer)
        return answer.encoded
    return await in_thread(encode_long, answer) if is_long(answer) else [encode(answer)]


async def _send_drawn(send: Send, drawn: Drawn[object], request_id: str) -> None:
    body = drawn.text.encode()
    headers = [
        (b"content-type", drawn.media_type.encode()),
        _NO_STORE,
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", header_value(request_id)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: Exception, request_id: str, operation: str) -> int:
    """Answers with the error; returns the status. Failures of ours are logged with what was asked, never with its content."""
    shown = translated(error)
    status = shown.status
    if status >= 500:
        _log.error(
            "%s failed: %s",
            operation,
            error,
            exc_info=error if shown.code == "internal" else None,
            extra={"operation": operation, "request_id": request_id, "status": status},
        )
    more = []
    if status == 401:
        more.append(_CHALLENGE)
    if status in (503, 507):
        more.append(RETRY)
    if shown.retry_after_s:
        more.append((b"retry-after", b"%d" % shown.retry_after_s))
    if status == 413:
        more.append(_CLOSE)
    await send_json(send, status, ErrorAnswer(shown.view), request_id, *more)
    return status


async def _send_tunnel(scope: Scope, answer: TunnelAnswer, standing: StreamAuthorization) -> None:
    """Joins the caller's connection to the tunnel, to the end of either."""
    try:
        if UPGRADE not in scope:
            raise not_a_tunnel()
        tunnel = await answer.connect()
        await carry(scope[UPGRADE](), tunnel, standing)
    finally:
        answer.release()


async def _send_text(send: Send, pieces: AsyncGenerator[TextPiece, None], request_id: str) -> int:
    """Sends the pieces as they come. The first is waited for, so that an error before it still has a status."""
    async with aclosing(pieces) as opened:
        first = await anext(opened, TextPiece(b""))
        headers = [_TEXT, _NO_STORE, (b"x-request-id", header_value(request_id))]
        if first.dropped:
            headers.append((b"x-lattice-dropped-bytes", b"%d" % first.dropped))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": first.data, "more_body": True})
        try:
            async for piece in opened:
                await send({"type": "http.response.body", "body": piece.data, "more_body": True})
        except Exception as error:  # noqa: BLE001 - too late for a status; the caller sees a cut-off answer
            _log.error("output broke off: %s", error, extra={"request_id": request_id})
            return 500
    await send({"type": "http.response.body", "body": b""})
    return 200
