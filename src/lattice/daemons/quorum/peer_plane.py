"""What a server provides to the others: certificates, the listener that only they can use, the directory, and membership."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio
import msgspec
from starlette.types import ASGIApp

from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.forwarding import LeaderCalls
from lattice.api.grpc.relay.client import CHANNEL_OPTIONS
from lattice.api.rest.peers import PeerApp
from lattice.config.schema import PeerSection, ServerConfig
from lattice.daemons.quorum.agent_relay import AgentRelay
from lattice.daemons.quorum.joining import fetch_certificates
from lattice.daemons.quorum.membership import QuorumMembership
from lattice.daemons.quorum.peer_listener import PeerListener
from lattice.daemons.quorum.start_mode import StartMode
from lattice.daemons.quorum.view import QuorumServers
from lattice.daemons.server.listening import Address, bind, parse_listen
from lattice.ports.clock import Clock
from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord, Backups
from lattice.ports.quorum.leadership import Leadership
from lattice.ports.quorum.servers import CertificateState, MembershipRefused, ReplicaAt
from lattice.quorum.etcd.client import EtcdClient, EtcdError, bring_home
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.peers.clock_skew import SkewWatch
from lattice.quorum.peers.directory import ServerDirectory, ServerEntry
from lattice.quorum.replica import LogReplica
from lattice.quorum.trust.certificates import CertificateError, create_authority, install, issue
from lattice.quorum.trust.tls import PeerTls

_PUBLISH_TRIES = 20
_PAUSE_S = 0.25

_log = logging.getLogger(__name__)


class PeerPlane:
    """`secure` before the member starts, `publish` when it runs, `close` at the end. Implements `PeerService`."""

    def __init__(self, config: ServerConfig, me: PeerSection, member: EtcdMember, secret: bytes, clock: Clock) -> None:
        self._config = config
        self._me = me
        self._member = member
        self._secret = secret
        self._clock = clock
        self._clients: list[EtcdClient] = []
        configured = [entry_of(peer) for peer in config.quorum.peers]
        self.directory = ServerDirectory(
            self._new_client([peer.client for peer in config.quorum.peers]),
            configured,
            Path(config.data_dir) / "servers.json",
        )
        self.directory.on_change(self._use_endpoints)
        self._use_endpoints()
        self.skew = SkewWatch(config.quorum.clock_skew_limit)
        self.entry = entry_of(me)
        self.tls: PeerTls | None = None
        self._listener: PeerListener | None = None
        self._app: PeerApp | None = None
        self.own_backups: Backups | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def attach(self, replica: LogReplica, leadership: Leadership) -> None:
        """Sets up the parts that need the replica and the leadership."""
        config, certificates = self._config, self._member.settings.certificates
        self.servers = QuorumServers(
            config.name,
            self.directory,
            leadership,
            replica,
            certificates,
            Path(config.data_dir),
            self._clock,
            self.skew,
        )
        self.membership = QuorumMembership(
            config.name,
            self.client(),
            certificates,
            self.directory,
            self.servers,
            self._secret,
            self._hosts(),
            self._renewed,
        )

    def client(self) -> EtcdClient:
        """A client of the members that follows membership changes and renewed certificates."""
        return self._new_client(self._others())

    def _new_client(self, others: list[str]) -> EtcdClient:
        client = self._member.client([other for other in others if other != self._me.client])
        self._clients.append(client)
        return client

    def _others(self) -> list[str]:
        return [entry.client for entry in self.directory.entries.values() if entry.name != self._me.name]

    def _use_endpoints(self) -> None:
        others = self._others()
        self._member.others = others
        for client in self._clients:
            client.use([self._member.settings.client_listen, *others])

    def _hosts(self) -> list[str]:
        return list(dict.fromkeys(host_of(address) for address in (self._me.client, self._me.peer)))

    # certificates and listener

    async def secure(self, start_mode: StartMode, token_file: Path | None, users: ASGIApp) -> None:
        """Prepares this server's certificates and listens for the others; `users` answers forwarded requests."""
        listen = self._listen_at(self._config.quorum.internal_listen, "quorum.internal_listen", 1)
        bound = bind(listen, "quorum.internal_listen")
        try:
            port = bound.getsockname()[1]
            self.entry = entry_of(self._me, internal=str(Address(host_of(self._me.peer), port)))
            await self._see_to_certificates(start_mode, token_file)
            self.tls = PeerTls(self._member.settings.certificates)
            self.servers.pool.tls = self.tls.client
            self._app = PeerApp(users, self._clock)
            self._listener = PeerListener(self._app, self.tls)
            await self._listener.start(bound)
        except BaseException:
            bound.close()
            raise

    def _listen_at(self, asked: str, key: str, behind: int) -> Address:
        """The configured address, or a port above that of the member's peers."""
        if asked:
            return parse_listen(asked, key)
        host, port = parse_listen(self._config.quorum.peer_listen or self._me.peer, "quorum.peer_listen")
        return Address(host, port + behind)

    async def _see_to_certificates(self, start_mode: StartMode, token_file: Path | None) -> None:
        certificates = self._member.settings.certificates
        if certificates.exists():
            return
        if start_mode == "bootstrap":
            create_authority(certificates)
            install(certificates, issue(certificates, self._hosts(), name=self._me.name))
        elif start_mode == "join" and token_file is not None:
            self.directory.learn(await fetch_certificates(certificates, token_file, self.entry, self._secret))
        else:
            raise CertificateError(
                f"no certificates in {certificates.path}; "
                f"`lattice admin raft members add {self._me.name}` on the cluster makes an invitation, "
                "and --join --join-token-file FILE takes it up"
            )

    def open_relay(self, agents: AgentService) -> AgentRelay:
        """Listens on the port where the others relay their agents; `publish` announces it."""
        if self.tls is None:
            raise CertificateError("no certificates yet")
        relay = AgentRelay(agents, self.tls, self.servers, self._relay_of, self.is_member)
        self.directory.on_change(lambda: relay.keep_only(self.directory.entries))
        port = relay.listen(self._listen_at(self._config.quorum.relay_listen, "quorum.relay_listen", 2)).port
        self.entry = msgspec.structs.replace(self.entry, relay=str(Address(host_of(self._me.peer), port)))
        return relay

    def leader_calls(self, outage: Callable[[], str]) -> LeaderCalls:
        """Forwards gRPC calls to the leader over the relay port."""
        tls = self.tls
        if tls is None:
            raise CertificateError("no certificates yet")

        def connect(address: str) -> grpc.aio.Channel:
            return grpc.aio.secure_channel(address, tls.grpc_client(), options=CHANNEL_OPTIONS)

        calls = LeaderCalls(self.servers, self._relay_of, connect, outage)
        tls.on_reload(calls.renew)
        return calls

    def _relay_of(self, name: str) -> str:
        entry = None if name == self._me.name else self.directory.get(name)
        return "" if entry is None else entry.relay

    def _renewed(self) -> None:
        if self.tls is not None:
            self.tls.reload()
        for client in self._clients:
            client.reload()

    # among the others

    async def publish(self) -> None:
        """Publishes this server's addresses, and follows those of the others."""
        for left in reversed(range(_PUBLISH_TRIES)):
            try:
                await self.directory.publish(self.entry)
                break
            except EtcdError:
                if not left:
                    raise
                await asyncio.sleep(_PAUSE_S)
        await self.directory.open()
        self._tasks = [
            asyncio.create_task(self.membership.keep_renewed(), name="certificates"),
            asyncio.create_task(bring_home(self._clients, self._member.serves), name="own member"),
        ]

    def serve(self) -> None:
        """The state is complete: the others may request it."""
        if self._app is not None:
            self._app.service = self

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.stop()
        await self.directory.close()
        self.servers.close()
        for client in self._clients:
            await client.close()

    # what the others ask

    async def is_member(self, name: str) -> bool:
        if name in self.directory.entries:
            return True
        with contextlib.suppress(EtcdError):
            await self.directory.look()
        return name in self.directory.entries

    async def admit(self, request: bytes) -> bytes:
        return await self.membership.admit(request)

    def replica_at(self, index: int | None) -> ReplicaAt:
        return self.servers.replica_at(index)

    def hand_over(self) -> AsyncIterator[bytes]:
        return self.servers.hand_over()

    async def backups(self) -> list[BackupRecord]:
        return [] if self.own_backups is None else await self.own_backups.list()

    async def verify_backup(self, path: str) -> BackupRecord:
        if self.own_backups is None:
            raise MembershipRefused("not_found", "this server has no backups")
        try:
            return await self.own_backups.verify(path)
        except BackupError as error:
            is_missing = isinstance(error, BackupMissing)
            raise MembershipRefused("not_found" if is_missing else "conflict", str(error)) from error

    async def renew(self) -> CertificateState:
        return await self.membership.renew()


def entry_of(peer: PeerSection, internal: str = "") -> ServerEntry:
    return ServerEntry(
        name=peer.name, rest=peer.rest, grpc=peer.grpc, client=peer.client, peer=peer.peer, internal=internal
    )


def host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
