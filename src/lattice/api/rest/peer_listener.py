"""The listener for other servers: HTTP over TLS; the application gets the caller's certificate."""

import asyncio
import ssl
from collections.abc import Callable, Mapping, MutableMapping
from socket import socket
from typing import Any, cast

from starlette.types import ASGIApp

from lattice.api.rest.peers import PEER
from lattice.api.rest.responses import HttpConnection
from lattice.api.rest.server import RestServer, server_settings

PATIENCE_S = 1
# Connections between servers stay open: a handshake costs milliseconds.
_IDLE_S = 120

# Which server a verified certificate, as the ssl module shows it, belongs to; None without one.
ServerOf = Callable[[Mapping[str, Any] | None], str | None]


class PeerProtocol(HttpConnection):
    """One connection of another server; each of its requests carries that server's name."""

    server_of: ServerOf
    _server: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._server = type(self).server_of(transport.get_extra_info("peercert"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("MutableMapping[str, Any]", self.scope)[PEER] = self._server


class PeerListener:
    """Start it on a bound socket, stop it at the end. `tls` requests a certificate from callers."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext, server_of: ServerOf) -> None:
        protocol = type(PeerProtocol.__name__, (PeerProtocol,), {"server_of": staticmethod(server_of)})
        settings = server_settings(app, protocol, patience_s=PATIENCE_S)
        settings.timeout_keep_alive = _IDLE_S
        settings.ssl_context_factory = lambda _config, _default: tls
        self._server = RestServer(settings)
        self._task: asyncio.Task[None] | None = None

    async def start(self, bound: socket) -> None:
        """Returns when it listens. Raises NotListening."""
        self._task = await self._server.begin(bound, "peers")

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
