"""The Unix socket for users of the server's own machine: without a token they may read the status of nodes, as the user that the kernel reports.

Such a request gets a token that is valid for a minute and only for that, and is then handled like any other, also by the leader.
Requests with their own token, and those for anything else, are forwarded unchanged.
"""

import asyncio
import os
import pwd
import socket
import struct
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.api.rest.server import NotListening, RestServer, server_settings
from lattice.daemons.server.http_limits import LOCAL_SHARE, BoundedProtocol, HttpLimits, bounded
from lattice.daemons.server.listening import ListenFailed

PEER_USER = "lattice.local_user"
PATIENCE_S = 1
_CREDENTIALS = struct.Struct("3i")
_OPEN = ("/v1/nodes", "/v1/node-status", "/v1/node-summary")

Mint = Callable[[str], str]


class LocalProtocol(BoundedProtocol):
    """One connection; each of its requests carries the peer's user."""

    _user = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._user = peer_user(transport.get_extra_info("socket"))
        super().connection_made(transport)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("MutableMapping[str, Any]", self.scope)[PEER_USER] = self._user


def peer_user(connection: socket.socket) -> str:
    """The account of the connected process."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid{uid}"


class LocalAccess:
    """An ASGI application in front of the server's own; `mint` creates the token with which a local user may read."""

    def __init__(self, app: ASGIApp, mint: Mint) -> None:
        self._app = app
        self._mint = mint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_open(scope):
            token = self._mint(scope[PEER_USER])
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]}
        await self._app(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    if scope["method"] not in ("GET", "HEAD") or any(name == b"authorization" for name, _ in scope["headers"]):
        return False
    path: str = scope["path"].removeprefix("/api")
    # The inventory of a node reveals much about the site: it needs a token.
    return path in _OPEN or (path.startswith("/v1/nodes/") and not path.endswith("/inventory"))


class LocalSocket:
    """Start it, stop it at the end, which removes the file."""

    def __init__(self, path: Path, app: ASGIApp, mint: Mint, limits: HttpLimits) -> None:
        self._path = path
        protocol = bounded(LocalProtocol, replace(limits, share=LOCAL_SHARE))
        self._server = RestServer(server_settings(LocalAccess(app, mint), protocol, patience_s=PATIENCE_S))
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it listens. Raises ListenFailed."""
        bound = self._bound()
        try:
            self._task = await self._server.begin(bound, "local socket")
        except NotListening as error:
            raise ListenFailed(f"api.unix_socket: {error}") from error

    def _bound(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if self._path.is_socket():
                self._path.unlink()  # left behind by a killed server; two servers never share a data directory
            bound.bind(str(self._path))
            os.chmod(self._path, 0o666)  # noqa: S103 - meant for every user of the machine
        except OSError as error:
            bound.close()
            raise ListenFailed(f"api.unix_socket: cannot listen on {self._path}: {error.strerror or error}") from error
        return bound

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
            self._path.unlink(missing_ok=True)
