"""A receiver of webhooks for tests: a real HTTP server that keeps what it is sent and answers as it is told."""

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast

from lattice.wire.work.notifications import webhook_signature


@dataclass(frozen=True)
class Call:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    @property
    def id(self) -> str:
        return self.headers["x-lattice-delivery"]

    def is_signed_with(self, key: str) -> bool:
        expected = webhook_signature(key, self.headers["x-lattice-timestamp"], self.body)
        return self.headers["x-lattice-signature"] == f"sha256={expected}"


@dataclass
class Hooks:
    """`answer` is asked for the status of each call; calls that are taken (2xx) are kept in `calls`."""

    trust: ssl.SSLContext | None = None
    answer: Callable[[], int] = lambda: 204
    calls: list[Call] = field(default_factory=list)
    tries: int = 0

    def __post_init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hooks = self
        if self.trust is not None:
            self._server.socket = self.trust.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self.trust else 'http'}://localhost:{self.port}/hook"

    def __enter__(self) -> "Hooks":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hooks: Hooks

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up in the middle is none of the test's business."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        hooks = cast("_Server", self.server).hooks
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hooks.tries += 1
        status = hooks.answer()
        if 200 <= status < 300:
            headers = {name.lower(): value for name, value in self.headers.items()}
            hooks.calls.append(Call(self.path, headers, body))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent: what matters is asserted."""
