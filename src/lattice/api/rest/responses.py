"""HTTP connections whose responses leave in one write, and which need no timer per request.

uvicorn writes the head of a response and then its body: two calls into the kernel, two packets, and a client that wakes up twice.
A head that names the length of its body is kept here until the body is there. All others, those of streams, leave at once.
"""

import asyncio
import re
import urllib.parse
from typing import TYPE_CHECKING, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from lattice.api.rest import lines

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPResponseBodyEvent, HTTPResponseStartEvent

# What does not consist of such lines, one per header, is left to uvicorn, which names what is wrong with it.
_LINES = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9a-z]+: [\t\x20-\x7e\x80-\xff]*\r\n)*")
_NOT_KEPT = (b"connection", b"transfer-encoding")


class Exchange(RequestResponseCycle):
    """One request and its response."""

    _head = b""  # kept for the first part of the body
    _length = 0  # of the body that belongs to it

    async def send(self, message: "ASGISendEvent") -> None:
        if not self.response_started:
            if message["type"] == "http.response.start" and self._keep(message):
                return
        elif self._head and message["type"] == "http.response.body":
            head, self._head = self._head, b""
            body = message.get("body", b"")
            is_whole = len(body) == self._length and not message.get("more_body")
            if is_whole and not self.disconnected and not self.flow.write_paused:
                self._answer(head + body)
                return
            first: HTTPResponseBodyEvent = {**message, "body": head + body}
            message = first
        await super().send(message)

    def _answer(self, response: bytes) -> None:
        """What uvicorn does with the last part of a body."""
        self.transport.write(response)
        self.expected_content_length = 0
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _keep(self, message: "HTTPResponseStartEvent") -> bool:
        if self.disconnected or not self.keep_alive or self.access_log or self.scope["method"] == "HEAD":
            return False
        length = -1
        lines: list[bytes] = []
        headers = (*self.default_headers, *message.get("headers", ()))
        for name, value in headers:
            if name == b"content-length":
                length = int(value)
            elif name in _NOT_KEPT:
                return False
            lines += (name, b": ", value, b"\r\n")
        text = b"".join(lines)
        if length < 0 or text.count(b"\n") != len(headers) or _LINES.fullmatch(text) is None:
            return False
        self._head = head = b"%b%b\r\n" % (STATUS_LINE[message["status"]], text)
        self._length = length
        self.response_started, self.waiting_for_100_continue = True, False
        self.chunked_encoding = False
        self.expected_content_length = len(head) + length  # uvicorn subtracts what is written with the body
        return True


class HttpConnection(HttpToolsProtocol):
    """uvicorn's, with `Exchange` for its requests. A timer looks how long the connection has been idle, instead of one after every response."""

    _idle_from = 0.0  # 0 while something is asked or answered
    _early: bytearray | None = None  # what came behind the head of a request to upgrade
    _line: lines.Line | None = None  # the connection is no longer HTTP

    def data_received(self, data: bytes) -> None:
        if self._line is not None:
            self._line.feed(data)
            return
        if self._early is not None:
            self._wait_with(data)
            return
        self._idle_from = 0.0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            message = "Invalid HTTP request received."
            self.logger.warning(message)
            self.send_400_response(message)
        except httptools.HttpParserUpgrade as upgrade:
            if lines.UPGRADE in self.scope:
                self._early = bytearray()
                self._wait_with(data[upgrade.args[0] :])
            elif self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._unsupported_upgrade_warning()

    def _wait_with(self, data: bytes) -> None:
        """Keeps what came before it is known whether the connection is upgraded."""
        if self._early is not None:
            self._early += data
            if len(self._early) > lines.HIGH_WATER:
                self.transport.pause_reading()

    def _upgrade(self) -> lines.Line:
        """From now on the connection carries frames; its holder closes the line."""
        cycle, transport = self.cycle, self.transport
        cycle.response_started = cycle.response_complete = True
        transport.write(lines.HEAD)
        self._line = line = lines.Line(transport, self.flow.drain, bytes(self._early or b""))
        self.transport.resume_reading()
        return line

    def eof_received(self) -> None:
        if self._line is not None:
            self._line.end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._line is not None:
            self._line.end()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        parser, scope = self.parser, self.scope
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade() and self._should_upgrade():
            return  # `data_received` hands the connection on
        if parser.should_upgrade() and (b"upgrade", lines.NAME) in self.headers:
            cast("dict[str, object]", scope)[lines.UPGRADE] = self._upgrade
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        before: RequestResponseCycle | None = self.cycle
        self.cycle = cycle = Exchange(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive() and lines.UPGRADE not in scope,
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return  # it becomes a WebSocket
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_from = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_after(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if not self._idle_from or self.transport.is_closing():
            return  # the end of the next response sets it again
        left_s = self._idle_from + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._look_after(left_s)
        else:
            self.transport.close()

    def _look_after(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
