"""Server-sent events over HTTP: framing, keep-alive, the caller's standing, and a caller who hangs up."""

import asyncio
import logging
from collections.abc import AsyncGenerator

from starlette.types import Receive, Send

from lattice.api.access.revalidation import StreamAuthorization
from lattice.api.answers import ServerEvent
from lattice.api.errors import ApiError, translated
from lattice.api.limits import KEEP_ALIVE_S
from lattice.api.rest.requests import header_value

_log = logging.getLogger(__name__)
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def send_events(
    receive: Receive,
    send: Send,
    events: AsyncGenerator[ServerEvent[object], None],
    request_id: str,
    standing: StreamAuthorization,
) -> None:
    """Sends events until they end, the caller may not have them any more, or is gone."""
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [*_HEADERS, (b"x-request-id", header_value(request_id))],
        }
    )
    gone = asyncio.create_task(_hung_up(receive))
    try:
        # A first comment tells the caller immediately that the stream is open.
        await _send(send, b": stream\n\n")
        await _pass_on(send, events, gone, standing)
        if not gone.done():
            await send({"type": "http.response.body", "body": b""})
    finally:
        await _cancelled(gone)
        await events.aclose()


async def _pass_on(
    send: Send,
    events: AsyncGenerator[ServerEvent[object], None],
    gone: "asyncio.Task[None]",
    standing: StreamAuthorization,
) -> None:
    """One task waits for events alone, so that each is on its way as soon as it is there; this one does all that is due at times."""
    sending = asyncio.create_task(_send_each(send, events, standing))
    try:
        while not gone.done() and not sending.done():
            await asyncio.wait(
                (sending, gone),
                timeout=min(KEEP_ALIVE_S, standing.left_s() + 0.01),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not gone.done() and not sending.done():
                await standing.confirm()
                await _send(send, b": keep-alive\n\n")
        if sending.done():
            await sending
    except Exception as error:  # noqa: BLE001 - the status is out already; the stream says what happened
        await _cancelled(sending)  # nothing comes after it
        shown = translated(error)
        if shown.code == "internal":
            _log.error("an event stream failed: %s", error, exc_info=error)
        await _send(send, _failure(shown))
    finally:
        await _cancelled(sending)


async def _send_each(
    send: Send, events: AsyncGenerator[ServerEvent[object], None], standing: StreamAuthorization
) -> None:
    async for event in events:
        await standing.confirm()
        await _send(send, event.encode())


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _failure(error: ApiError) -> bytes:
    return ServerEvent(error.view, event="error").encode()
