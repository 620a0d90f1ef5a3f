"""HTTP/1.1 on the event loop: what the asynchronous client needs and no more. The counterpart of `transport.py`.

A pool keeps connections open between requests. A connection reads no further while its reader is behind.
"""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import cast

from lattice_sdk.transport import CONNECT_TIMEOUT_S, MAX_HEAD, Endpoint, ProtocolError

# Requests that wait at the server for something to happen have connections of their own, as many as a program waits for.
MAX_CONNECTIONS = 1000
MAX_IDLE = 32
BEHIND = 256 * 1024  # bytes that no task has read yet, from which on the connection reads no further


class _Connection(asyncio.Protocol):
    """One connection, used for one request after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, forget: Callable[["_Connection"], None]) -> None:
        self.is_used = False
        self.has_heard = False  # of the present request
        self.is_open = False
        self._forget = forget
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._lost: OSError | ProtocolError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_paused = False
        self._timeout_s = 0.0
        self._due_at = 0.0
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self.has_heard = True
        self._buffer += data
        if len(self._buffer) > BEHIND and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._lost = error if isinstance(error, OSError) else ProtocolError("the connection was closed")
        self._forget(self)
        self._wake()
        self._stop_timer()

    def close(self) -> None:
        self.is_open = False
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send(self, head: bytes, body: bytes, timeout_s: float) -> None:
        if self._transport is None:
            raise ProtocolError("there is no connection")
        self.has_heard = False
        self._timeout_s = timeout_s
        # In one piece: with two, the head would be a packet of its own.
        self._transport.write(head + body if body else head)
        self._unsent = self._transport.get_write_buffer_size()

    async def fill(self) -> None:
        """Waits for more bytes; raises OSError, ProtocolError or TimeoutError."""
        if self._lost is not None:
            raise self._lost
        if self._is_paused and len(self._buffer) <= BEHIND and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self._waiter = self._loop.create_future()
        self._due_at = self._loop.time() + self._timeout_s
        if self._timer is None or self._timer.when() > self._due_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._due_at, self._expire)
        had = len(self._buffer)
        try:
            await self._waiter
        finally:
            self._waiter = None
        if len(self._buffer) == had and self._lost is not None:
            raise self._lost

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _expire(self) -> None:
        """One timer serves many waits: when one of them ended in time, it is set again for the present one."""
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        left = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if left < self._unsent:  # a large request on its way is no silence
            self._due_at = self._loop.time() + self._timeout_s
        self._unsent = left
        if self._loop.time() < self._due_at:
            self._timer = self._loop.call_at(self._due_at, self._expire)
        else:
            self._waiter.set_exception(TimeoutError("no answer in time"))

    async def head(self) -> tuple[int, bool, dict[str, str]]:
        """Status, whether the connection may stay open, and headers by their names in lower case."""
        while True:
            text = await self._head_text()
            first, *lines = text.split("\n")
            words = first.split(None, 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
                raise ProtocolError("the answer is not HTTP")
            status = int(words[1])
            if status >= 200:
                headers = {}
                for line in lines:
                    name, _, value = line.partition(":")
                    headers[name.strip().lower()] = value.strip()
                keeps = words[0] != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
                return status, keeps, headers

    async def _head_text(self) -> str:
        while True:
            end, size = self._buffer.find(b"\r\n\r\n"), 4
            if end < 0:
                end, size = self._buffer.find(b"\n\n"), 2
            if end > MAX_HEAD or (end < 0 and len(self._buffer) > MAX_HEAD):
                raise ProtocolError("the head of the answer is too long")
            if end >= 0:
                text = self._buffer[:end].decode("latin-1")
                del self._buffer[: end + size]
                return text
            await self.fill()

    async def line(self) -> bytes:
        """The next line, without its end."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise ProtocolError("a line is too long")
            await self.fill()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.removesuffix(b"\r")

    async def exactly(self, size: int) -> AsyncIterator[bytes]:
        """`size` bytes in pieces as they come."""
        while size:
            if not self._buffer:
                await self.fill()
            piece = self.take(size)
            size -= len(piece)
            yield piece

    def take(self, most: int) -> bytes:
        """What is here already, at most `most` bytes."""
        piece = bytes(self._buffer[:most])
        del self._buffer[:most]
        return piece

    @property
    def here(self) -> int:
        return len(self._buffer)


class AsyncAnswer:
    """One answer. Read its body whole or as it comes, then close it: only a body that was read leaves the connection in use."""

    def __init__(
        self, pool: "AsyncPool", connection: _Connection, status: int, keeps: bool, headers: dict[str, str]
    ) -> None:
        self.status = status
        self.headers = headers
        self._pool = pool
        self._connection: _Connection | None = connection
        self._keeps = keeps
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        if length is not None and not (length.isascii() and length.isdigit()):
            raise ProtocolError(f"bad Content-Length {length[:20]!r}")
        self._length = 0 if status in (204, 304) else None if length is None else int(length)

    @property
    def unread(self) -> int:
        """Bytes of the body that are here and were not read yet."""
        return 0 if self._connection is None else self._connection.here

    async def read(self) -> bytes:
        connection = self._connection
        if connection is None:
            return b""
        if self._length is not None and not self._is_chunked and connection.here >= self._length:
            data = connection.take(self._length)  # the usual case: it came together with the head
            self._end(keep=True)
            return data
        return b"".join([piece async for piece in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces as they arrive; raises OSError, ProtocolError or TimeoutError when it is cut off."""
        connection = self._connection
        if connection is None:
            return
        if self._is_chunked:
            async for piece in _unchunked(connection):
                yield piece
        elif self._length is not None:
            async for piece in connection.exactly(self._length):
                yield piece
        else:
            async for piece in _to_the_end(connection):
                yield piece
            self._keeps = False
        self._end(keep=True)

    def close(self) -> None:
        """Harmless when the body was read, and when repeated."""
        self._end(keep=False)

    def _end(self, *, keep: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection, keep=keep and self._keeps)


async def _unchunked(connection: _Connection) -> AsyncIterator[bytes]:
    while True:
        text = (await connection.line()).partition(b";")[0].strip()
        try:
            size = int(text, 16)
        except ValueError:
            raise ProtocolError(f"bad chunk size {text[:20]!r}") from None
        if size < 0:
            raise ProtocolError(f"bad chunk size {text[:20]!r}")
        if size == 0:
            break
        async for piece in connection.exactly(size):
            yield piece
        await connection.line()
    while await connection.line():
        continue


async def _to_the_end(connection: _Connection) -> AsyncIterator[bytes]:
    while True:
        if not connection.here:
            try:
                await connection.fill()
            except ProtocolError:
                return
        yield connection.take(connection.here)


class AsyncPool:
    """Connections to one endpoint, on one event loop."""

    def __init__(self, endpoint: Endpoint, trust: Callable[[], ssl.SSLContext]) -> None:
        self._endpoint = endpoint
        self._trust = trust
        self._loop = asyncio.get_running_loop()
        self.room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: deque[_Connection] = deque()
        self._all: set[_Connection] = set()

    async def ask(self, head: bytes, body: bytes, timeout_s: float) -> AsyncAnswer:
        """The beginning of the answer, to be read or closed; raises OSError, ProtocolError or TimeoutError."""
        await self.room.acquire()
        try:
            while True:
                connection = self._idle.pop() if self._idle else await self._connect(timeout_s)
                was_used = connection.is_used
                try:
                    connection.send(head, body, timeout_s)
                    return AsyncAnswer(self, connection, *await connection.head())
                except (OSError, ProtocolError) as error:
                    connection.close()
                    # The server may have closed an idle connection at the moment when it was used again.
                    if not was_used or connection.has_heard or isinstance(error, TimeoutError):
                        raise
                except BaseException:
                    connection.close()
                    raise
        except BaseException:
            self.room.release()
            raise

    def give_back(self, connection: _Connection, *, keep: bool) -> None:
        self.room.release()
        connection.is_used = True
        if keep and connection.is_open and not connection.here and len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        for connection in list(self._all):
            connection.close()
        self._idle.clear()

    def _forget(self, connection: _Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def _connect(self, timeout_s: float) -> _Connection:
        connection = _Connection(self._loop, self._forget)
        async with asyncio.timeout(min(timeout_s, CONNECT_TIMEOUT_S)):
            if self._endpoint.scheme == "unix":
                await self._loop.create_unix_connection(lambda: connection, self._endpoint.host)
            else:
                await self._connect_to_host(connection)
        self._all.add(connection)
        return connection

    async def _connect_to_host(self, connection: _Connection) -> None:
        plain = await self._connected_socket()
        try:
            if self._endpoint.scheme == "http":
                await self._loop.create_connection(lambda: connection, sock=plain)
            else:
                await self._loop.create_connection(
                    lambda: connection, sock=plain, ssl=self._trust(), server_hostname=self._endpoint.host
                )
        except BaseException:
            plain.close()
            raise

    async def _connected_socket(self) -> socket.socket:
        """To the first address of the host that takes a connection."""
        # As bytes: for a text, the resolver would load the tables of international names.
        host = self._endpoint.host.encode("ascii")
        failure: OSError | None = None
        for family, kind, protocol, _, address in await self._loop.getaddrinfo(
            host, self._endpoint.port, type=socket.SOCK_STREAM
        ):
            plain = socket.socket(family, kind, protocol)
            try:
                plain.setblocking(False)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(plain, address)
            except OSError as error:
                plain.close()
                # The loop's own words name the address, which the caller says already.
                failure = error if error.errno is None else OSError(error.errno, os.strerror(error.errno))
            except BaseException:
                plain.close()
                raise
            else:
                return plain
        raise failure or OSError("the name has no address")
