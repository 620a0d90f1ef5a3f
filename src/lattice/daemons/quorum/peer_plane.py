"""What one server has for the others, put together: certificates, the listener that only they can use, relay and forwarding."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import grpc.aio
import msgspec
from starlette.types import ASGIApp

from lattice.api.grpc.agent_relay import AgentRelay
from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.forwarding import LeaderCalls
from lattice.api.grpc.relay.client import CHANNEL_OPTIONS
from lattice.api.grpc.server import BindFailed
from lattice.api.rest.exchange import Pool
from lattice.api.rest.peer_client import PeerClient, show_invitation
from lattice.api.rest.peer_listener import PeerListener
from lattice.api.rest.peers import PeerApp
from lattice.api.rest.server import NotListening
from lattice.config.schema import ServerConfig
from lattice.config.sections.quorum import PeerSection
from lattice.daemons.server.listening import Address, ListenFailed, bind, parse_listen
from lattice.ports.clock import Clock
from lattice.ports.quorum.leadership import Leadership
from lattice.quorum.backup.service import BackupService
from lattice.quorum.etcd.client import EtcdError
from lattice.quorum.etcd.settings import MemberSettings
from lattice.quorum.etcd.start_mode import StartMode
from lattice.quorum.peers.access import Access
from lattice.quorum.peers.answers import KnownServers, PeerAnswers
from lattice.quorum.peers.clients import MemberClients
from lattice.quorum.peers.clock_skew import SkewWatch
from lattice.quorum.peers.directory import ServerEntry
from lattice.quorum.peers.enrolment import fetch_certificates, read_token
from lattice.quorum.peers.membership import QuorumMembership
from lattice.quorum.peers.servers import QuorumServers
from lattice.quorum.replica import LogReplica
from lattice.quorum.trust.certificates import CertificateError, create_authority, install, issue, rotate, user_for
from lattice.quorum.trust.tls import PeerTls, server_of

_PUBLISH_TRIES = 20
_PAUSE_S = 0.25

_log = logging.getLogger(__name__)


class PeerPlane:
    """`secure` before the member starts, `publish` when it runs, `serve` when the state is complete, `close` in the end.

    `problem` and `warning` are what this server tells the others of itself.
    """

    def __init__(
        self,
        config: ServerConfig,
        member: MemberSettings,
        clients: MemberClients,
        replica: LogReplica,
        leadership: Leadership,
        secret: bytes,
        clock: Clock,
        *,
        backups: BackupService | None,
        problem: Callable[[], str],
        warning: Callable[[], str],
    ) -> None:
        self._config = config
        self._certificates = member.certificates
        self._was_started = member.origin.exists
        self._clients = clients
        self._secret = secret
        self._clock = clock
        self._me = next(peer for peer in config.quorum.peers if peer.name == config.name)
        self.skew = SkewWatch(config.quorum.clock_skew_limit)
        self.pool = Pool()  # connections to the other servers; they need the certificates that `secure` sees to
        self.servers = QuorumServers(
            config.name,
            clients.directory,
            leadership,
            replica,
            self._certificates,
            Path(config.data_dir),
            clock,
            self.skew,
            PeerClient(self.pool),
            problem,
            lambda: "; ".join(filter(None, (warning(), self.access.warning))),
        )
        self.membership = QuorumMembership(
            config.name,
            clients.new(),
            self._certificates,
            clients.directory,
            self.servers,
            secret,
            self._hosts(),
            self._renewed,
        )
        self.access = Access(clients.new(), self._certificates)
        self._known = KnownServers(clients.directory)
        self._answers = PeerAnswers(self._known, self.servers, self.membership, backups)
        self._entry = entry_of(self._me)  # what `publish` tells the others; `secure` and `open_relay` add their ports
        self._tls: PeerTls | None = None  # from `secure` on
        self._listener: PeerListener | None = None
        self._app: PeerApp | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _hosts(self) -> list[str]:
        return list(dict.fromkeys(host_of(address) for address in (self._me.client, self._me.peer)))

    # certificates and listener

    async def secure(self, start_mode: StartMode, token_file: Path | None, users: ASGIApp) -> None:
        """Sees to this server's certificates and listens for the others; `users` answers what they forward."""
        listen = self._listen_at(self._config.quorum.internal_listen, "quorum.internal_listen", 1)
        bound = bind(listen, "quorum.internal_listen")
        try:
            port = bound.getsockname()[1]
            self._entry = entry_of(self._me, internal=str(Address(host_of(self._me.peer), port)))
            await self._see_to_certificates(start_mode, token_file)
            self._tls = PeerTls(self._certificates)
            self.pool.tls = self._tls.client
            self._app = PeerApp(users, self._clock)
            self._listener = PeerListener(self._app, self._tls.server, server_of)
            await self._listener.start(bound)
        except NotListening as error:
            bound.close()
            raise ListenFailed(f"quorum.internal_listen: {error}") from error
        except BaseException:
            bound.close()
            raise

    def _listen_at(self, asked: str, key: str, behind: int) -> Address:
        """What was asked for, or a port behind that of the member's peers."""
        if asked:
            return parse_listen(asked, key)
        host, port = parse_listen(self._config.quorum.peer_listen or self._me.peer, "quorum.peer_listen")
        return Address(host, port + behind)

    async def _see_to_certificates(self, start_mode: StartMode, token_file: Path | None) -> None:
        folder = self._certificates
        if start_mode == "join" and token_file is not None and self._needs_invitation(token_file):
            others = await fetch_certificates(folder, token_file, self._entry, self._secret, show_invitation)
            self._clients.directory.learn(others)
            self._name_user()
        elif folder.exists():
            self._name_user()
        elif start_mode == "bootstrap":
            create_authority(folder)
            install(folder, issue(folder, self._hosts(), name=self._me.name))
        else:
            raise CertificateError(
                f"no certificates in {folder.path}; "
                f"`lattice admin raft members add {self._me.name}` on the cluster makes an invitation, "
                "and --join --join-token-file FILE takes it up"
            )

    def _needs_invitation(self, token_file: Path) -> bool:
        """Whether this server has no certificates, or only those of an earlier time as a member, whose user is gone."""
        if not self._certificates.exists():
            return True
        user = self._certificates.user()
        return bool(user) and not self._was_started() and user != user_for(self._me.name, read_token(token_file).id)

    def _name_user(self) -> None:
        """Certificates of the release before name no user of etcd."""
        folder = self._certificates
        if not folder.user() and folder.authority_key.exists():
            rotate(folder, self._hosts(), name=self._me.name)

    def open_relay(self, agents: AgentService) -> AgentRelay:
        """The port where the others bring their agents; listens, and is announced with `publish`."""
        relay = AgentRelay(agents, self._secured(), self.servers, self._relay_of, self._known)
        directory = self._clients.directory
        directory.on_change(lambda: relay.keep_only(directory.entries))
        address = self._listen_at(self._config.quorum.relay_listen, "quorum.relay_listen", 2)
        try:
            port = relay.listen(str(address))
        except BindFailed as error:
            raise ListenFailed(f"quorum.relay_listen: {error}") from error
        self._entry = msgspec.structs.replace(self._entry, relay=str(Address(host_of(self._me.peer), port)))
        return relay

    def leader_calls(self, outage: Callable[[], str]) -> LeaderCalls:
        """Forward gRPC calls to the leader over the port of the relay."""
        tls = self._secured()

        def connect(address: str) -> grpc.aio.Channel:
            return grpc.aio.secure_channel(address, tls.grpc_client(), options=CHANNEL_OPTIONS)

        calls = LeaderCalls(self.servers, self._relay_of, connect, outage)
        tls.on_reload(calls.renew)
        return calls

    def _secured(self) -> PeerTls:
        if self._tls is None:
            raise CertificateError("no certificates yet")
        return self._tls

    def _relay_of(self, name: str) -> str:
        entry = None if name == self._me.name else self._clients.directory.get(name)
        return "" if entry is None else entry.relay

    def _renewed(self) -> None:
        if self._tls is not None:
            self._tls.reload()
        self._clients.reload()

    # among the others

    async def publish(self) -> None:
        """Takes its place among the others: its user, where it is, and where they are."""
        directory = self._clients.directory
        for left in reversed(range(_PUBLISH_TRIES)):
            try:
                await self.access.enter()
                await directory.publish(self._entry)
                break
            except EtcdError:
                if not left:
                    raise
                await asyncio.sleep(_PAUSE_S)
        await directory.open()
        self._tasks = [
            asyncio.create_task(self.membership.keep_renewed(), name="certificates"),
            asyncio.create_task(self._clients.bring_home(), name="own member"),
        ]

    def serve(self) -> None:
        """The state is complete: the others may ask."""
        if self._app is not None:
            self._app.service = self._answers

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.stop()
        self.pool.close()
        await self._clients.close()


def entry_of(peer: PeerSection, internal: str = "") -> ServerEntry:
    return ServerEntry(
        name=peer.name, rest=peer.rest, grpc=peer.grpc, client=peer.client, peer=peer.peer, internal=internal
    )


def host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
