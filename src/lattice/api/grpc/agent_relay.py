"""A server's part in relaying agents: a port where followers relay theirs while it leads, and its own connection to the leader."""

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

import grpc.aio

from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.agents.session import LocalRegistrar
from lattice.api.grpc.callers import Callers
from lattice.api.grpc.forwarding import LeaderPlace
from lattice.api.grpc.operations import OperationServices
from lattice.api.grpc.relay.client import CHANNEL_OPTIONS, Relaying
from lattice.api.grpc.relay.service import RelayService
from lattice.api.grpc.server import build_relay_server


class PeerCredentials(Protocol):
    """The certificates with which servers show themselves to each other."""

    def grpc_server(self) -> grpc.ServerCredentials:
        """For a listener that only servers may call; follows rotations by itself."""
        ...

    def grpc_client(self) -> grpc.ChannelCredentials:
        """For a channel to another server, with the certificates of now."""
        ...


class AgentRelay:
    """`listen`, `start` once the leader is known, `receive_at` a service while this server leads, `stop`.

    `address` returns where a server of this name accepts relays, `callers` knows which servers belong to the cluster.
    """

    def __init__(
        self,
        agents: AgentService,
        tls: PeerCredentials,
        leader: LeaderPlace,
        address: Callable[[str], str],
        callers: Callers,
    ) -> None:
        self._agents = agents
        self._tls = tls
        self._callers = callers
        self._service = RelayService(self._callers)
        self._server: grpc.aio.Server | None = None
        self._registrar: LocalRegistrar | None = None
        self.relaying = Relaying(agents, address, leader, self._channel)
        self._task: asyncio.Task[None] | None = None

    def _channel(self, address: str) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(address, self._tls.grpc_client(), options=CHANNEL_OPTIONS)

    def listen(self, address: str) -> int:
        """Binds `host:port`; the port, also where a free one was asked for with 0. Raises BindFailed."""
        self._server, port = build_relay_server(self._service, address, self._tls.grpc_server())
        return port

    def offer(self, operations: OperationServices) -> None:
        """Answers calls forwarded by other servers on the same port."""
        if self._server is not None:
            operations.add_to(self._server, peers=self._callers)

    def keep_only(self, servers: Collection[str]) -> None:
        """Ends relays of servers that are no longer members."""
        self._service.keep_only(servers)

    async def start(self) -> None:
        if self._server is not None:
            await self._server.start()
        self._task = asyncio.create_task(self.relaying.run(), name="relaying")

    def receive_at(self, registrar: LocalRegistrar) -> None:
        """This server is the leader: its own agents and those of the others register there."""
        self._registrar = registrar
        self._service.receive_at(registrar)
        self._agents.receive_at(registrar)

    def leave(self) -> None:
        """It lost leadership: all of them register elsewhere."""
        registrar, self._registrar = self._registrar, None
        self._service.receive_at(None)
        if registrar is not None:
            self._agents.leave(registrar)
            registrar.end()

    async def stop(self) -> None:
        """Ends the sessions of the others' agents; their runs are not affected."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.leave()
        if self._server is not None:
            await self._server.stop(0)
