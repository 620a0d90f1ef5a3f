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
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await events.aclose()


async def _pass_on(
    send: Send,
    events: AsyncGenerator[ServerEvent[object], None],
    gone: "asyncio.Task[None]",
    standing: StreamAuthorization,
) -> None:
    upcoming: asyncio.Task[ServerEvent[object]] | None = None
    try:
        while not gone.done():
            await standing.confirm()
            upcoming = upcoming or asyncio.create_task(_next(events))
            await asyncio.wait(
                (upcoming, gone),
                timeout=min(KEEP_ALIVE_S, standing.left_s() + 0.01),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if upcoming.done():
                event, upcoming = upcoming.result(), None
                await _send(send, event.encode())
            elif not gone.done():
                await _send(send, b": keep-alive\n\n")
    except StopAsyncIterationInTask:
        return
    except Exception as error:  # noqa: BLE001 - the status is out already; the stream says what happened
        shown = translated(error)
        if shown.code == "internal":
            _log.error("an event stream failed: %s", error, exc_info=error)
        await _send(send, _failure(shown))
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)


class StopAsyncIterationInTask(Exception):
    """The events have ended; a task cannot raise StopAsyncIteration itself."""


async def _next(events: AsyncGenerator[ServerEvent[object], None]) -> ServerEvent[object]:
    try:
        return await anext(events)
    except StopAsyncIteration:
        raise StopAsyncIterationInTask from None


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _failure(error: ApiError) -> bytes:
    return ServerEvent(error.view, event="error").encode()
