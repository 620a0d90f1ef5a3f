"""A follower's part in a tunnel: the request goes to the leader as it is, and then bytes go both ways as they are."""

import asyncio
import contextlib
import ssl
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from lattice.api.rest.exchange import HOP, LeaderLost
from lattice.api.rest.lines import HEAD, LineBroken
from lattice.api.streams.pumping import until_either_ends

CONNECT_S = 1.0
ANSWER_S = 20.0
_PIECE = 1 << 18
_MAX_HEAD = 1 << 16


class Refusal(NamedTuple):
    """An ordinary answer instead of a line."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Carried(Protocol):
    """The other end of what is carried."""

    async def read(self) -> bytes:
        """Whatever has come; nothing at the end."""
        ...

    async def write(self, *pieces: bytes) -> None:
        """Raises LineBroken."""
        ...

    def close(self) -> None: ...


class LeaderLine:
    """A connection to the leader that it has upgraded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def carry(self, line: Carried) -> None:
        """Carries both directions until either side is gone."""
        try:
            await until_either_ends(self._to_client(line), self._to_leader(line))
        finally:
            line.close()
            self.close()

    def close(self) -> None:
        self._writer.close()

    async def _to_client(self, line: Carried) -> None:
        with contextlib.suppress(OSError, LineBroken):
            while piece := await self._reader.read(_PIECE):
                await line.write(piece)

    async def _to_leader(self, line: Carried) -> None:
        with contextlib.suppress(OSError):
            while piece := await line.read():
                self._writer.write(piece)
                await self._writer.drain()


async def upgraded(url: str, request: bytes, tls: ssl.SSLContext | None) -> LeaderLine | Refusal:
    """The line once the leader has upgraded it, or the whole answer with which it refuses. Raises LeaderLost."""
    address = urlsplit(url)
    try:
        async with asyncio.timeout(CONNECT_S):
            secure = tls if address.scheme == "https" else None
            opened = asyncio.open_connection(address.hostname, address.port, ssl=secure, limit=2 * _PIECE)
            reader, writer = await opened
    except (OSError, TimeoutError) as error:
        raise LeaderLost(str(error) or f"{address.netloc} does not answer") from error
    try:
        async with asyncio.timeout(ANSWER_S):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(HEAD[:12]):
                return LeaderLine(reader, writer)
            body = b""
            while len(body) < _MAX_HEAD and (piece := await reader.read(_MAX_HEAD)):
                body += piece  # until the leader closes the connection behind its answer
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise LeaderLost(str(error) or f"{address.netloc} does not answer") from error
    except BaseException:
        writer.close()
        raise
    writer.close()
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = [line.partition(b":") for line in lines]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    return Refusal(int(first.split()[1]), [each for each in headers if each[0] not in HOP], body)
