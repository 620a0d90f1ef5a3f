"""Where a monitoring system reads the agent's figures: GET /metrics, and nothing else. Answers one request per connection."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

MAX_HEAD = 8192
MAX_CLIENTS = 16
WITHIN_S = 5.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_log = logging.getLogger(__name__)


class FigureListener:
    """`page` is called for each request. Holds at most MAX_CLIENTS connections; more are closed unanswered."""

    def __init__(self, page: Callable[[], str]) -> None:
        self._page = page
        self._clients = 0
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens, and returns the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD, backlog=MAX_CLIENTS)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients > MAX_CLIENTS:
                return
            async with asyncio.timeout(WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a reader of the metrics went away: %s", error)
        finally:
            self._clients -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _message("404 Not Found", "metrics are at /metrics\n")
        if method not in (b"GET", b"HEAD"):
            return _message("405 Method Not Allowed", "only GET\n")
        return _message("200 OK", self._page(), with_body=method == b"GET")


def _message(status: str, text: str, *, with_body: bool = True) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
