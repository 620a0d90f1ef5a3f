"""The listener for other servers: HTTP over TLS; the application gets the caller's certificate."""

import asyncio
from collections.abc import MutableMapping
from socket import socket
from typing import Any, cast

from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lattice.api.rest.peers import PEER
from lattice.daemons.server.listening import ListenFailed
from lattice.daemons.server.rest_server import RestServer, server_settings
from lattice.quorum.trust.tls import PeerTls, server_of

PATIENCE_S = 1
# Connections between servers stay open: a handshake costs milliseconds.
_IDLE_S = 120


class PeerProtocol(HttpToolsProtocol):
    """One connection of another server; each of its requests carries that server's name."""

    _server: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._server = server_of(transport.get_extra_info("peercert"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("MutableMapping[str, Any]", self.scope)[PEER] = self._server


class PeerListener:
    """Start it on a bound socket, stop it at the end."""

    def __init__(self, app: ASGIApp, tls: PeerTls) -> None:
        settings = server_settings(app, PeerProtocol, patience_s=PATIENCE_S)
        settings.timeout_keep_alive = _IDLE_S
        settings.ssl_context_factory = lambda _config, _default: tls.server
        self._server = RestServer(settings)
        self._task: asyncio.Task[None] | None = None

    async def start(self, bound: socket) -> None:
        """Returns when it listens."""
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]), name="peers")
        while not self._server.started:
            if self._task.done():
                raise ListenFailed(f"quorum.internal_listen: cannot start the listener: {self._task.exception()}")
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
