"""Pages at a server that follows: the browser's connection is carried to the gateway of the leader, byte by byte.

The follower upgrades a connection on the port for other servers, which is for servers of the cluster alone, and says where the browser is.
The leader serves it as one of its own listener. docs/architecture/forwarding.md.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.api.gateway.server import Gateway
from lattice.api.rest.exchange import LeaderLost
from lattice.api.rest.lines import NAME, UPGRADE, Line, LineBroken
from lattice.api.rest.tunnel_forwarding import LeaderLine, upgraded

PATH = "/api/v1/gateway"
CLIENT = b"x-lattice-client"
_PIECE = 1 << 18
MAX_CLIENT = 64


class _Socket:
    """The browser's connection, as `LeaderLine.carry` wants it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(_PIECE)

    async def write(self, *pieces: bytes) -> None:
        try:
            self._writer.writelines(pieces)
            await self._writer.drain()
        except OSError as error:
            raise LineBroken(str(error)) from None

    def close(self) -> None:
        self._writer.close()


class Joining:
    """The follower's side; `leader` gives the leader's address for other servers, empty while there is none."""

    def __init__(self, leader: Callable[[], str], tls: Callable[[], ssl.SSLContext | None]) -> None:
        self._leader, self._tls = leader, tls

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the leader has taken the connection; it is over then."""
        peer = writer.get_extra_info("peername") or ("",)
        lines = [
            b"GET %s HTTP/1.1" % PATH.encode(),
            b"host: lattice",
            b"connection: upgrade",
            b"upgrade: %s" % NAME,
            b"%s: %s" % (CLIENT, str(peer[0]).encode()),
        ]
        url = self._leader()
        answer = None
        if url:
            with contextlib.suppress(LeaderLost):
                answer = await upgraded(url, b"\r\n".join(lines) + b"\r\n\r\n", self._tls())
        if not isinstance(answer, LeaderLine):
            return False
        await answer.carry(_Socket(reader, writer))
        return True


class _Writer:
    """The leader's side of a carried connection, as the gateway writes to it."""

    def __init__(self, line: Line, client: str) -> None:
        self._line, self._client = line, client
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._waiting.append(bytes(data))

    async def drain(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            await self._line.write(*waiting)
        except LineBroken as error:
            raise ConnectionResetError(str(error)) from None

    def close(self) -> None:
        self._line.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio says it
        return (self._client, 0) if name == "peername" else default


class Door:
    """An ASGI application around that for other servers: lets followers bring connections of their gateways."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app, self._gateway = app, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        if UPGRADE not in scope or not self._gateway.is_serving:
            await send({"type": "http.response.start", "status": 503, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": b""})
            return
        line: Line = scope[UPGRADE]()
        client = headers.get(CLIENT, b"").decode("latin-1")[:MAX_CLIENT]
        reader = asyncio.StreamReader(limit=1 << 18)
        feeding = asyncio.create_task(_feed(line, reader))
        try:
            await self._gateway.attend(reader, _Writer(line, client))
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


class _Valve(asyncio.ReadTransport):
    """What a reader stops and opens when too much waits in it."""

    def __init__(self) -> None:
        super().__init__()
        self._is_open = asyncio.Event()
        self._is_open.set()

    def pause_reading(self) -> None:
        self._is_open.clear()

    def resume_reading(self) -> None:
        self._is_open.set()

    async def opened(self) -> None:
        await self._is_open.wait()


async def _feed(line: Line, reader: asyncio.StreamReader) -> None:
    valve = _Valve()
    reader.set_transport(valve)
    while data := await line.read():
        reader.feed_data(data)
        await valve.opened()
    reader.feed_eof()
