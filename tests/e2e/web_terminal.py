"""A person at a terminal over WebSocket, through a public client of that protocol."""

import base64
import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from lattice.testing import LocalCluster


class Person:
    """Types, and keeps what comes back."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.messages: list[dict[str, Any]] = []
        self.shown = b""
        self.place = -1
        self._coming = -1

    def say(self, **fields: object) -> None:
        self.socket.send(json.dumps(fields))

    def listen(self, until: bytes = b"") -> bytes:
        """What is shown, until this was, or the connection is closed."""
        while not until or until not in self.shown:
            try:
                frame = self.socket.recv(timeout=30)
            except ConnectionClosed:
                return self.shown
            if isinstance(frame, bytes):
                self.shown += frame
                self.place = self._coming
            else:
                message = json.loads(frame)
                self.messages.append(message)
                self._coming = message.get("next", self._coming)
        return self.shown

    def last(self, kind: str) -> dict[str, Any]:
        return next(message for message in reversed(self.messages) if message["type"] == kind)


@contextmanager
def socket_at(
    cluster: LocalCluster, path: str, *, server: str = "", in_browser: bool = False, token: str = "", **query: object
) -> Iterator[Person]:
    base = cluster.urls[server] if server else cluster.api_url
    url = f"{base.replace('http', 'ws', 1)}/api/v1{path}?{urllib.parse.urlencode(query)}"
    token = token or cluster.token
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    protocols = ["lattice.terminal.v1", *([f"lattice.bearer.{encoded}"] if in_browser else [])]
    headers = {} if in_browser else {"Authorization": f"Bearer {token}"}
    origin = base if in_browser else None
    with connect(url, subprotocols=protocols, additional_headers=headers, origin=origin) as socket:  # type: ignore[arg-type]
        yield Person(socket)
