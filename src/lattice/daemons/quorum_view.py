"""The other servers, as one of them sees them: where the leader is reached, and how far each has come."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from starlette.types import ASGIApp

from lattice.api.rest.exchange import LeaderLost, Pool
from lattice.ports.leadership import Leadership
from lattice.ports.quorum import ReplicaAt, ServerState
from lattice.quorum.replica import LogReplica
from lattice.wire.quorum import ReplicaView

ASK_S = 2.0


class QuorumServers:
    """Implements `QuorumView`, and `Leader` of the forwarding. `token` makes the one by which the servers ask each other."""

    def __init__(
        self,
        name: str,
        urls: Mapping[str, str],
        leadership: Leadership,
        replica: LogReplica,
        token: Callable[[], str],
    ) -> None:
        self._name = name
        self._urls = dict(urls)
        self._leadership = leadership
        self._replica = replica
        self._token = token
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
        request = (
            f"GET /api/v1/raft/replica{query} HTTP/1.1\r\nhost: lattice\r\nx-lattice-forwarded: {self._name}\r\n"
            f"authorization: Bearer {self._token()}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(ASK_S):
                exchange = await self._pool.begin(self._urls[name], request.encode())
                body = await exchange.body()
            if exchange.status != 200:
                return ServerState(name=name, problem=f"it answers with status {exchange.status}")
            view = msgspec.json.decode(body, type=ReplicaView)
        except (LeaderLost, TimeoutError, msgspec.MsgspecError) as error:
            return ServerState(name=name, problem=str(error) or "it does not answer")
        found = ReplicaAt(name=name, leads=view.leads, applied_index=view.applied_index, digest=view.digest)
        return ServerState(name=name, replica=found)

    def close(self) -> None:
        self._pool.close()
