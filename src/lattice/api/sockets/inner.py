"""Requests that a server makes to its own REST side, in memory: so a terminal is served the same by the leader and by a follower,
and each request is judged as any other."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Message

from lattice.api.errors import ErrorAnswer

AHEAD = 4  # pieces of a stream that wait for their reader
_EVENT_END = b"\n\n"
_NAME = re.compile(rb"^event: (.*)$", re.MULTILINE)
_error = msgspec.json.Decoder(ErrorAnswer)


class Event(NamedTuple):
    name: str
    data: bytes


class Failed(Exception):
    """The request was refused, or no server could answer it."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.hint = status, code, hint

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered a moment later."""
        return self.status in (500, 503)


class InnerCalls:
    """Calls of one caller, who shows `authorization` and comes from `client`."""

    def __init__(self, app: ASGIApp, authorization: str, client: tuple[str, int] | None, tenant: str = "") -> None:
        self._app = app
        self._client = client
        headers = {b"authorization": authorization, b"x-lattice-tenant": tenant}
        self._headers = [(name, value.encode("latin-1", "replace")) for name, value in headers.items() if value]

    async def ask(self, method: str, path: str, fields: object = None, request_id: str = "") -> Any:  # noqa: ANN401 - JSON
        """The decoded answer. Raises Failed."""
        body = b"" if fields is None else msgspec.json.encode(fields)
        status, pieces = 0, []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            pieces.append(message.get("body", b""))

        await self._app(self._scope(method, path, body, request_id), receive, send)
        answer = b"".join(pieces)
        if status >= 400 or not status:
            raise failure(status or 500, answer)
        return msgspec.json.decode(answer)

    async def events(self, path: str, last_event_id: str) -> AsyncGenerator[Event, None]:
        """The events of a stream until it breaks off. Raises Failed when it does not begin."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(AHEAD)
        hung_up = asyncio.Event()
        status = 0

        async def receive() -> Message:
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            if message.get("body"):
                await queue.put(message["body"])

        async def run() -> None:
            try:
                await self._app(self._scope("GET", path, b"", "", last_event_id), receive, send)
            finally:
                await queue.put(None)

        running = asyncio.create_task(run(), name="stream of a terminal")
        held = b""
        try:
            while (piece := await queue.get()) is not None:
                held += piece
                if status >= 400:
                    continue
                *whole, held = held.split(_EVENT_END)
                for text in whole:
                    event = _event(text)
                    if event is not None:
                        yield event
            if status >= 400:
                raise failure(status, held)
        finally:
            hung_up.set()
            running.cancel()
            while not queue.empty():
                queue.get_nowait()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(running, return_exceptions=True)

    def _scope(self, method: str, path: str, body: bytes, request_id: str, last_event_id: str = "") -> dict[str, Any]:
        address, _, query = path.partition("?")
        more = {b"x-request-id": request_id, b"last-event-id": last_event_id}
        headers = [*self._headers, *((name, value.encode()) for name, value in more.items() if value)]
        if body:
            headers += [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        return {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": f"/v1{address}",
            "raw_path": f"/v1{address}".encode(),
            "query_string": query.encode(),
            "headers": headers,
            "client": self._client,
            "scheme": "http",
            "server": None,
            "root_path": "",
        }


def failure(status: int, body: bytes) -> Failed:
    try:
        view = _error.decode(body).error
    except msgspec.MsgspecError:
        return Failed(status, "unavailable", "the server could not answer", "try again")
    return Failed(status, view.code, view.message, view.hint)


def _event(text: bytes) -> Event | None:
    head, has_data, data = text.rpartition(b"data: ")
    if not has_data:
        return None  # a comment
    name = _NAME.search(head)
    return Event(name[1].decode() if name else "message", data)
