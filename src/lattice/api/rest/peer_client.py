"""What a server asks another one, over HTTP: the calling side of `peers.py`."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from lattice.api.errors import ErrorAnswer
from lattice.api.rest.exchange import LeaderLost, Pool
from lattice.api.rest.peers import BACKUPS, FETCH, FILE, JOIN, RENEW, REPLICA, SNAPSHOT, VERIFY
from lattice.ports.quorum.backups import BackupRecord
from lattice.ports.quorum.peers import PeerLost, PeerRefused
from lattice.ports.quorum.servers import CertificateState, ReplicaAt
from lattice.wire.admin.quorum import ReplicaView, replica_of

ASK_S = 2.0
JOIN_S = 10.0
RENEW_S = 10.0
BACKUPS_S = 5.0
VERIFY_S = 600.0
FETCH_S = 3600.0
# The other server packs everything before it sends the first byte.
STALLED_S = 60.0

_SILENT = "it does not answer"

_T = TypeVar("_T")


class PeerClient:
    """Implements `PeerCalls` over the connections of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def replica(self, url: str, index: int | None) -> tuple[ReplicaAt, int]:
        query = "" if index is None else f"?index={index}"
        view = await self._asked(url, "GET", f"{REPLICA}{query}", ASK_S, ReplicaView)
        return replica_of(view), view.clock_ms

    async def renew(self, url: str) -> CertificateState:
        return await self._asked(url, "POST", RENEW, RENEW_S, CertificateState)

    async def backups(self, url: str) -> list[BackupRecord]:
        return await self._asked(url, "GET", BACKUPS, BACKUPS_S, list[BackupRecord])

    async def verify_backup(self, url: str, path: str) -> BackupRecord:
        return await self._asked(url, "POST", f"{VERIFY}?path={quote(path, safe='')}", VERIFY_S, BackupRecord)

    async def backup_file(self, url: str, path: str, name: str, offset: int) -> AsyncIterator[bytes]:
        target = f"{FILE}?path={quote(path, safe='')}&name={quote(name, safe='')}&offset={offset}"
        try:
            async with asyncio.timeout(STALLED_S):
                exchange = await self._pool.begin(url, _request("GET", target))
                refusal = b"" if exchange.status == 200 else await exchange.body()
            if exchange.status != 200:
                raise _refused(exchange.status, refusal)
            pieces = exchange.pieces()
            while piece := await asyncio.wait_for(anext(pieces, b""), STALLED_S):
                yield piece
        except (LeaderLost, TimeoutError) as error:
            raise PeerLost(str(error) or _SILENT) from error

    async def fetch_backup(self, url: str, path: str, server: str) -> BackupRecord:
        target = f"{FETCH}?path={quote(path, safe='')}&server={quote(server, safe='')}"
        return await self._asked(url, "POST", target, FETCH_S, BackupRecord)

    async def fetch_state(self, url: str, target: Path) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(STALLED_S) as limit:
                exchange = await self._pool.begin(url, _request("GET", SNAPSHOT))
                with target.open("wb") as file:
                    async for piece in exchange.pieces():
                        limit.reschedule(loop.time() + STALLED_S)
                        file.write(piece)
        except (LeaderLost, TimeoutError) as error:
            raise PeerLost(str(error) or _SILENT) from error
        if exchange.status != 200:
            raise PeerLost(f"it answered with status {exchange.status}")

    async def _asked(self, url: str, method: str, target: str, within_s: float, kind: type[_T]) -> _T:
        body = await _answer(self._pool, url, _request(method, target), within_s)
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise PeerLost(str(error)) from error


async def show_invitation(url: str, question: bytes, trust: ssl.SSLContext) -> bytes:
    """`ShowInvitation`, over a connection of its own: the caller has no certificate yet."""
    pool = Pool(trust)
    try:
        return await _answer(pool, url, _request("POST", JOIN, question), JOIN_S)
    finally:
        pool.close()


async def _answer(pool: Pool, url: str, request: bytes, within_s: float) -> bytes:
    try:
        async with asyncio.timeout(within_s):
            exchange = await pool.begin(url, request)
            body = await exchange.body()
    except (LeaderLost, TimeoutError) as error:
        raise PeerLost(str(error) or _SILENT) from error
    if exchange.status == 200:
        return body
    raise _refused(exchange.status, body)


def _request(method: str, target: str, body: bytes = b"") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nhost: lattice\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _refused(status: int, body: bytes) -> PeerLost:
    return (PeerRefused if status < 500 else PeerLost)(_why(status, body))


def _why(status: int, body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=ErrorAnswer).error.message
    except msgspec.MsgspecError:
        return f"it answered with status {status}"
