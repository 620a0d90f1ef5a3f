"""A small HTTP server that answers as it was told to and remembers what it was asked."""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Json = Any


@dataclass(frozen=True, kw_only=True)
class Asked:
    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    def parameter(self, name: str) -> str | None:
        return dict(self.query).get(name)


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int = 200
    json: Json = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False  # the connection is closed without a word
    is_short: bool = False  # more bytes are announced than come
    events: tuple[str, ...] | None = None  # server-sent events, then the connection is closed

    @property
    def body(self) -> bytes:
        return self.raw if self.raw is not None else json.dumps(self.json).encode()


Answerer = Callable[[Asked], Reply]


class Server(ThreadingHTTPServer):
    """Keeps what went wrong inside an answer for the end of the test; clients that leave are no failure."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # connections that wait to be accepted, as many as a real server lets wait

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.failures: list[BaseException] = []
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.failures.append(error)


class FakeApi:
    """Replies by method and path. Several replies are given one after the other, the last one again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self._replies: dict[tuple[str, str], list[Reply | Answerer]] = {}
        self._server = Server(_handler_for(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def on(self, method: str, path: str, *replies: Reply | Answerer | Json) -> None:
        """Answer so; what is neither a Reply nor a function is sent as JSON with status 200."""
        ready = [r if isinstance(r, Reply) or callable(r) else Reply(json=r) for r in replies]
        self._replies[(method, "/api/v1" + path if path != "/healthz" else path)] = ready

    def reply_to(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        replies = self._replies.get((asked.method, asked.path))
        if not replies:
            return refusal(404, "not_found", f"there is no {asked.method} {asked.path} here")
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply if isinstance(reply, Reply) else reply(asked)

    def last(self) -> Asked:
        return self.asked[-1]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        assert self._server.failures == []


def refusal(status: int, code: str, message: str, **figures: str) -> Reply:
    return Reply(status=status, json={"error": {"code": code, "message": message, **figures}})


def _handler_for(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 120  # a busy machine may take long between two requests
        # The head of an answer and its body leave together, as from a real server.
        wbufsize = -1

        def setup(self) -> None:
            api.connections += 1
            super().setup()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody listens."""

        def answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", "0"))
            reply = api.reply_to(
                Asked(
                    method=self.command,
                    path=parts.path,
                    query=parse_qsl(parts.query, keep_blank_values=True),
                    headers={key.lower(): value for key, value in self.headers.items()},
                    body=self.rfile.read(length),
                )
            )
            if reply.is_cut:
                self.close_connection = True
                return
            self.send(reply)

        def send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.events is None:
                self.send_header("Content-Length", str(len(reply.body) + reply.is_short))
                self.end_headers()
                self.wfile.write(reply.body)
                self.close_connection = reply.is_short or self.close_connection
            else:
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in reply.events:
                    data = event.encode()
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.close_connection = True
            self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    return Handler
