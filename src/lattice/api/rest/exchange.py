"""Requests to another server over connections that are kept: one exchange at a time on each."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httptools
from starlette.types import Receive, Send

CONNECT_S = 1.0
_READ = 1 << 16
_MAX_IDLE = 64
HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})


class LeaderLost(Exception):
    """The connection ended before an answer began; what became of the request is not known."""


class _Connection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        self.writer.close()


class Exchange:
    """One request and its answer."""

    def __init__(self, pool: "Pool", url: str, connection: _Connection) -> None:
        self._pool = pool
        self._url = url
        self._connection = connection
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._is_begun = False
        self._is_complete = False
        self._is_kept = False
        self.headers: list[tuple[bytes, bytes]] = []

    # called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._is_begun = True
        # The parser knows it now; after the last byte it has forgotten.
        self._is_kept = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = True

    async def begin(self, request: bytes) -> None:
        """Sends the request and waits for the head of the answer."""
        try:
            self._connection.writer.write(request)
            await self._connection.writer.drain()
            while not self._is_begun:
                await self._read()
        except (OSError, httptools.HttpParserError) as error:
            self.abandon()
            raise LeaderLost(str(error)) from error
        except BaseException:
            self.abandon()
            raise

    async def body(self) -> bytes:
        """The whole answer."""
        try:
            while not self._is_complete:
                await self._read()
        except (OSError, httptools.HttpParserError) as error:
            self.abandon()
            raise LeaderLost(str(error)) from error
        self._give_back()
        return b"".join(self._pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The answer as it comes; LeaderLost when it breaks off."""
        try:
            while self._pieces or not self._is_complete:
                pieces, self._pieces = self._pieces, []
                for piece in pieces:
                    yield piece
                if not self._is_complete:
                    await self._read()
        except (OSError, httptools.HttpParserError) as error:
            raise LeaderLost(str(error)) from error
        finally:
            self.abandon()

    @property
    def is_complete(self) -> bool:
        """Whether the whole answer is here."""
        return self._is_complete

    @property
    def status(self) -> int:
        return int(self._parser.get_status_code())

    async def relay(self, receive: Receive, send: Send) -> None:
        """Hands the answer on. One that breaks off in the middle breaks off there, too."""
        kept = [(name, value) for name, value in self.headers if name.lower() not in HOP]
        await send({"type": "http.response.start", "status": self.status, "headers": kept})
        if not self._is_complete:
            gone = asyncio.create_task(_disconnected(receive))
            relaying = asyncio.create_task(self._relay_body(send))
            try:
                await asyncio.wait((gone, relaying), return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                relaying.cancel()
                await asyncio.gather(gone, relaying, return_exceptions=True)
        if not self._is_complete:
            self.abandon()
            return
        await send({"type": "http.response.body", "body": b"".join(self._pieces)})
        self._give_back()

    def abandon(self) -> None:
        self._connection.close()

    async def _relay_body(self, send: Send) -> None:
        while not self._is_complete:
            pieces, self._pieces = self._pieces, []
            if pieces:
                await send({"type": "http.response.body", "body": b"".join(pieces), "more_body": True})
            await self._read()

    async def _read(self) -> None:
        data = await self._connection.reader.read(_READ)
        if not data:
            raise ConnectionResetError("closed by the other server")
        self._parser.feed_data(data)

    def _give_back(self) -> None:
        if self._is_kept:
            self._pool.keep(self._url, self._connection)
        else:
            self.abandon()


class Pool:
    """Idle connections, by the server they lead to; those to https addresses use `tls`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self._idle: dict[str, list[_Connection]] = {}
        self._is_closed = False

    async def begin(self, url: str, request: bytes) -> Exchange:
        """Sends the request; returns when the answer has begun, raises LeaderLost when it does not."""
        idle = self._idle.get(url, [])
        while idle:
            exchange = Exchange(self, url, idle.pop())
            # The other side may have closed it in the meantime: that is no verdict on the server.
            with contextlib.suppress(LeaderLost):
                await exchange.begin(request)
                return exchange
        exchange = Exchange(self, url, await self._connect(url))
        await exchange.begin(request)
        return exchange

    async def _connect(self, url: str) -> _Connection:
        address = urlsplit(url)
        tls = self.tls if address.scheme == "https" else None
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
        except (OSError, TimeoutError) as error:
            raise LeaderLost(str(error) or f"{address.netloc} does not answer") from error
        return _Connection(reader, writer)

    def renew(self) -> None:
        """Use new connections for all requests from now on."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    def keep(self, url: str, connection: _Connection) -> None:
        idle = self._idle.setdefault(url, [])
        if self._is_closed or len(idle) >= _MAX_IDLE:
            connection.close()
        else:
            idle.append(connection)

    def close(self) -> None:
        self._is_closed = True
        self.renew()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
