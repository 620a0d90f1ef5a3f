"""A small server for tests that speaks the interface of OpenCHAMI's State Management Daemon to the flags of components."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

ROUTE = re.compile(r"/hsm/v2/State/Components/(\w+)")


class StateManager(ThreadingHTTPServer):
    """Components by xname with their flags; `status` is what it answers with instead of doing anything."""

    daemon_threads = True

    def __init__(self, *xnames: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.components: dict[str, dict[str, str]] = {xname: {"Flag": "OK"} for xname in xnames}
        self.tokens: list[str | None] = []
        self.status = 0
        self.patched = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_PATCH(self) -> None:
        server = self.server
        assert isinstance(server, StateManager)
        server.tokens.append(self.headers["Authorization"])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        route = ROUTE.fullmatch(self.path)
        component = None if route is None else server.components.get(route[1])
        if server.status:
            self.send_response(server.status)
            self.send_header("Location", "http://127.0.0.1:9/")
        elif component is None:
            self.send_response(404)
        elif body.get("Flag") not in ("OK", "Warning", "Alert", "Locked"):
            self.send_response(400)
        else:
            component.update(body)
            server.patched.set()
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(manager: StateManager) -> Iterator[StateManager]:
    """The server at work, as long as the block lasts."""
    with manager:
        thread = Thread(target=manager.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield manager
        finally:
            manager.shutdown()
            thread.join()
