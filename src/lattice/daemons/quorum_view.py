"""The other servers, as one of them sees them: where the leader is reached, and how far each has come."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import msgspec
from starlette.types import ASGIApp

from lattice.api.rest.exchange import LeaderLost, Pool
from lattice.ports.leadership import Leadership
from lattice.ports.quorum import ReplicaAt, ServerState
from lattice.quorum.handover import NothingToHandOver, pack, unpack
from lattice.quorum.replica import LogReplica
from lattice.wire.quorum import ReplicaView

ASK_S = 2.0
_PIECE = 1 << 18

_log = logging.getLogger(__name__)


class QuorumServers:
    """Implements `QuorumView`, and `Leader` of the forwarding. `token` makes the one by which the servers ask each other."""

    def __init__(
        self,
        name: str,
        urls: Mapping[str, str],
        leadership: Leadership,
        replica: LogReplica,
        token: Callable[[], str],
        data_dir: Path,
    ) -> None:
        self._name = name
        self._urls = dict(urls)
        self._leadership = leadership
        self._replica = replica
        self._token = token
        self._data_dir = data_dir
        self._pool = Pool()
        self._moved: asyncio.Future[None] | None = None
        self.app: ASGIApp | None = None
        leadership.on_change(self._on_change)

    @property
    def url(self) -> str:
        leader = self._leadership.leader_name
        return "" if leader == self._name else self._urls.get(leader, "")

    def moved(self) -> "asyncio.Future[None]":
        if self._moved is None or self._moved.done():
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    def lead_by(self, app: ASGIApp | None) -> None:
        """Requests that wait for a leader are answered by `app` from now on, or wait for another one."""
        self.app = app
        self._on_change()

    def _on_change(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)

    @property
    def leader_name(self) -> str:
        return self._leadership.leader_name

    def replica_at(self, index: int | None) -> ReplicaAt:
        applied = self._replica.applied_index
        return ReplicaAt(
            name=self._name,
            leads=self._replica.is_leader and self._leadership.is_leader,
            applied_index=applied,
            digest=self._replica.digest_at(applied if index is None else index),
        )

    async def ask_all(self, index: int | None) -> list[ServerState]:
        return list(await asyncio.gather(*(self._ask(name, index) for name in self._urls)))

    async def _ask(self, name: str, index: int | None) -> ServerState:
        if name == self._name:
            return ServerState(name=name, replica=self.replica_at(index))
        query = "" if index is None else f"?index={index}"
        try:
            async with asyncio.timeout(ASK_S):
                exchange = await self._pool.begin(self._urls[name], self._request(f"replica{query}"))
                body = await exchange.body()
            if exchange.status != 200:
                return ServerState(name=name, problem=f"it answers with status {exchange.status}")
            view = msgspec.json.decode(body, type=ReplicaView)
        except (LeaderLost, TimeoutError, msgspec.MsgspecError) as error:
            return ServerState(name=name, problem=str(error) or "it does not answer")
        found = ReplicaAt(name=name, leads=view.leads, applied_index=view.applied_index, digest=view.digest)
        return ServerState(name=name, replica=found)

    def _request(self, what: str) -> bytes:
        return (
            f"GET /api/v1/raft/{what} HTTP/1.1\r\nhost: lattice\r\nx-lattice-forwarded: {self._name}\r\n"
            f"authorization: Bearer {self._token()}\r\n\r\n"
        ).encode()

    async def resign(self, successor: str) -> None:
        await self._leadership.resign(successor)

    async def hand_over(self) -> AsyncIterator[bytes]:
        packed = await asyncio.to_thread(pack, self._data_dir)
        try:
            with packed.open("rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    yield piece
        finally:
            packed.unlink(missing_ok=True)

    async def fetch_state(self) -> int:
        """Takes over the newest snapshot and the archive of another server; the snapshot's index, 0 when nobody has one."""
        for name in self._urls:
            if name == self._name:
                continue
            scratch = self._data_dir / f".from-{name}.tar"
            try:
                exchange = await self._pool.begin(self._urls[name], self._request("snapshot"))
                with scratch.open("wb") as file:
                    async for piece in exchange.pieces():
                        file.write(piece)
                if exchange.status == 200:
                    return await asyncio.to_thread(unpack, scratch, self._data_dir)
                _log.warning("server %s hands no state over: status %d", name, exchange.status)
            except (LeaderLost, NothingToHandOver, OSError) as error:
                _log.warning("server %s hands no state over: %s", name, error)
            finally:
                scratch.unlink(missing_ok=True)
        return 0

    def close(self) -> None:
        self._pool.close()
