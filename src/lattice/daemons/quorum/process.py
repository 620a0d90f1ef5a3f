"""One of several servers: the parts of every server, an etcd member with the log, and the turns it takes at leading and following."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lattice.api.access.admission import check_token
from lattice.api.errors import ApiError
from lattice.api.grpc.agent_relay import AgentRelay
from lattice.api.grpc.forwarding import LeaderCalls
from lattice.api.rest.app import RestApp, build_app
from lattice.api.rest.forwarding import Forwarding, LeaderHere
from lattice.api.rest.gateway_joining import Door, Joining
from lattice.api.services import Services
from lattice.config.schema import ServerConfig
from lattice.config.sections.quorum import PeerSection
from lattice.daemons.quorum.peer_plane import PeerPlane, entry_of
from lattice.daemons.server.gc import keep_what_is_loaded
from lattice.daemons.server.listening import Address
from lattice.daemons.server.loops import Loops
from lattice.daemons.server.parts import ServerParts
from lattice.daemons.server.storage import ChosenLog, data_dir
from lattice.ports.quorum.log import LogError, LogStart, LogUnavailable
from lattice.ports.quorum.replica import Replica
from lattice.ports.quorum.servers import ServerState
from lattice.quorum.backup.restore import log_has_begun, read_start, refuse_unfinished
from lattice.quorum.disk_space import RoomWatch
from lattice.quorum.etcd.leader import EtcdLeadership
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.etcd.settings import MemberRemoved, MemberSettings
from lattice.quorum.etcd.start_mode import StartMode
from lattice.quorum.leadership.clock_guard import ClockGuard
from lattice.quorum.leadership.outage import OutageWatch
from lattice.quorum.leadership.stepping_down import SteppingDown
from lattice.quorum.leadership.term import Term
from lattice.quorum.leadership.turns import Turns
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.peers.backups import AllBackups
from lattice.quorum.peers.clients import MemberClients
from lattice.quorum.peers.missing_state import fetch_missing
from lattice.quorum.trust.certificates import CertificateFolder

# A read that cannot be confirmed by then is refused; the client asks again, or asks for what may be old.
READ_WITHIN_S = 3.0

_log = logging.getLogger(__name__)


class QuorumProcess:
    """Start it, wait for `failed`, stop it.

    It follows from `start` on, and leads in between. `_lead` and `_follow` alone change its role, and never overlap:
    one task, `_turns`, awaits them by turns, and `stop` cancels that task first.
    """

    def __init__(
        self,
        config: ServerConfig,
        secret: bytes,
        start_mode: StartMode,
        token_file: Path | None = None,
        *,
        accepts_loss: bool = False,
    ) -> None:
        me = _own_peer(config)
        self._start_mode = start_mode
        self._token_file = token_file
        self._accepts_loss = accepts_loss
        folder = data_dir(config)
        # A process of its own. It ends with this one; this one ends when it was removed from the cluster.
        self._member = EtcdMember(_member_settings(config, me))
        configured = [entry_of(peer) for peer in config.quorum.peers]
        self._clients = MemberClients(self._member, entry_of(me), configured, folder / "servers.json")
        self._log = EtcdLog(self._clients.new(), start=_log_start(folder))
        chosen = ChosenLog(self._log, shared_head=self._log.head)
        self.parts = ServerParts(config, secret, chosen, accepts_loss=accepts_loss)
        replica = self.parts.replica
        self._leadership = EtcdLeadership(self._clients.new(), config.name, me.client, lease_s=config.quorum.lease_s)
        self._plane = PeerPlane(
            config,
            self._member.settings,
            self._clients,
            replica,
            self._leadership,
            secret,
            self.parts.clock,
            backups=self.parts.storage.backups,
            problem=self._problem,
            warning=self.parts.storage.warning,
        )
        self._servers = self._plane.servers
        self._leader = LeaderHere(self._servers)
        self._clocks = ClockGuard(
            replica.clock, self._plane.skew, self._servers.measure_clocks, config.quorum.clock_step_limit
        )
        self._outages = OutageWatch(
            replica.read_index,
            lambda: self._leadership.leader_name,
            lambda is_serving: self.parts.front.report_health(is_serving=is_serving),
        )
        self._turns = Turns(self._leadership, self._clocks, self._lead, self._follow)
        self.parts.metrics.show_clocks(lambda: self._plane.skew.skews_s)
        # Opened by `_prepare`, which needs the certificates; from then on until `stop`.
        self._relay: AgentRelay | None = None
        self._calls: LeaderCalls | None = None
        # What a follower answers with; made by `_serve`, used again after every turn of leading.
        self._local: Services | None = None
        self._follower: Forwarding | None = None
        # Set exactly while this server leads, by `_lead` and `_follow`.
        self._term: Term | None = None
        self._while_leading: list[asyncio.Task[None]] = []
        # Started by `_serve`, cancelled by `stop`; the one that takes turns is the reason of `failed` when it ends.
        self._taking_turns: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _problem(self) -> str:
        """What keeps this server from being of use though it answers."""
        storage = self.parts.storage
        return storage.problem() or self._member.trouble or self._clocks.problem

    def _outage(self) -> str:
        return self._outages.outage

    async def start(self) -> None:
        """Returns when agents and clients are served. Raises ListenFailed, LogError and what else keeps it from that."""
        await self.parts.start(self._prepare, self._serve, self.stop)

    async def _prepare(self) -> None:
        front, folder = self.parts.front, self.parts.storage.folder
        refuse_unfinished(folder)
        member, quorum = self._member, self.parts.config.quorum
        start_mode = self._start_mode
        if start_mode == "bootstrap-if-new":
            start_mode = "restart" if member.settings.origin.exists() else "bootstrap"
        await self._plane.secure(start_mode, self._token_file, Door(front.gate, front.gateway))
        front.gateway.carry_by(Joining(lambda: self._leader.url, lambda: self._plane.pool.tls).carry)
        self._relay = self._plane.open_relay(front.agents)
        self._relay.offer(front.operations)
        self._calls = self._plane.leader_calls(self._outage)
        match start_mode:
            case "bootstrap":
                together = {peer.name: f"https://{peer.peer}" for peer in quorum.peers}
                await member.bootstrap(quorum.token, together if quorum.token else None)
            case "join":
                await member.join(member.others)
            case _:
                await member.restart()
        await self._plane.publish()
        log = EtcdLog(member.client(member.others), start=_log_start(folder))
        await fetch_missing(log, folder, self._servers.fetch_state, accepts_loss=self._accepts_loss)

    async def _serve(self, rest: Address, grpc: Address) -> None:
        parts, front = self.parts, self.parts.front
        await asyncio.to_thread(log_has_begun, parts.storage.folder)
        room = RoomWatch(self._log.is_full, lambda: parts.replica.snapshot_now(makes_room=True))
        self._tasks.append(asyncio.create_task(room.run(), name="room"))
        front.bind_grpc(grpc)
        local = self._local = self._services_of(parts.replica, None)
        self._hand_calls_on()
        self._follower = Forwarding(
            build_app(local), self._leader, self._plane.pool, partial(check_token, local), self._outage
        )
        keep_what_is_loaded()
        await front.serve_grpc()
        front.gate.open(self._follower)
        self._plane.serve()
        await self._leadership.open()
        if self._relay is not None:
            await self._relay.start()
        self._taking_turns = asyncio.create_task(self._turns.run(), name="turns")
        self._tasks += [
            asyncio.create_task(self._clocks.run(), name="measuring clocks"),
            asyncio.create_task(self._outages.run(), name="outages"),
            self._taking_turns,
        ]
        await asyncio.to_thread(front.publish, rest)

    def _services_of(self, replica: Replica, loops: Loops | None) -> Services:
        """Those of the leader with its loops, without them those of a follower, who answers whatever it has."""
        own = self.parts.storage.backups
        return self.parts.services_over(
            replica,
            loops,
            is_ready=lambda: loops is None or replica.is_leader,
            quorum=self._servers,
            membership=self._plane.membership,
            before_read=None if loops is None else self._confirm_reads,
            backups=None if own is None else AllBackups(own, self._servers),
            outage=self._outage,
        )

    async def _confirm_reads(self) -> None:
        """Returns when the state contains everything that any server acknowledged before."""
        replica = self.parts.replica
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await replica.wait_for(await replica.read_index())
        except (TimeoutError, LogError) as error:
            raise ApiError(
                "unavailable",
                "cannot reach a majority of the servers: the local state may be stale",
                hint="try again, or read the local state with consistency=stale",
            ) from error

    # one turn

    async def _lead(self) -> None:
        parts, front = self.parts, self.parts.front
        await parts.replica.lead(lambda: self._leadership.is_leader and not self._clocks.problem)
        term = self._term = Term(parts.replica)
        own_url = ",".join(entry.rest for entry in self._clients.directory.entries.values())
        loops = await parts.begin_loops(term, own_url, self._ask_servers, self._servers)
        services = self._services_of(term, loops)
        loops.start()
        if self._relay is not None:
            self._relay.receive_at(parts.registrar(loops))
        app = RestApp(services)
        front.gate.open(app)
        front.operations.serve(services)
        if self._calls is not None:
            self._calls.lead(is_leading=True)
        self._leader.lead_by(app)
        stepping = SteppingDown(parts.config.name, self._problem, self._servers)
        self._while_leading = [
            asyncio.create_task(self._give_way(), name="clocks"),
            asyncio.create_task(stepping.run(), name="stepping down"),
            asyncio.create_task(self._plane.access.keep(lambda: parts.replica.state.level), name="users of etcd"),
        ]

    async def _ask_servers(self) -> Sequence[ServerState]:
        return await self._servers.ask_all(None)

    async def _give_way(self) -> None:
        """Lets another server lead when this one's clock is wrong."""
        problem = await self._clocks.until_unfit()
        _log.error("server %s lost leadership: %s", self.parts.config.name, problem)
        await asyncio.shield(self._leadership.resign())

    async def _follow(self) -> None:
        """Undoes `_lead`, however far that came; in the order in which harm could be done."""
        parts = self.parts
        term, self._term = self._term, None
        if term is not None:
            term.end()
        self._leader.lead_by(None)
        self._hand_calls_on()
        while self._while_leading:
            self._while_leading.pop().cancel()
        if self._follower is not None:
            parts.front.gate.open(self._follower)
        if self._relay is not None:
            self._relay.leave()
        if parts.loops is not None:
            await parts.end_loops()
            if parts.services is not None:
                parts.services.feed.close()
        await parts.replica.follow("this server is no longer the leader")

    def _hand_calls_on(self) -> None:
        """Forward gRPC calls to the leader from now on."""
        if self._calls is not None and self._local is not None:
            self._calls.lead(is_leading=False)
            self.parts.front.operations.follow(self._local, self._calls)

    # the end

    async def failed(self) -> Exception:
        """Returns when the server can serve no more, with the reason."""
        stopped = asyncio.create_task(self.parts.failed())
        removed = asyncio.create_task(self._member.removed.wait())
        turns = self._taking_turns
        waiting = [stopped, removed, *([] if turns is None else [turns])]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if removed in done:
                return MemberRemoved(self._member.settings)
            if stopped in done:
                return stopped.result()
        finally:
            stopped.cancel()
            removed.cancel()
        error = turns.exception() if turns is not None and not turns.cancelled() else None
        return error if isinstance(error, Exception) else LogUnavailable("the election has ended")

    async def stop(self) -> None:
        """Ends everything in order: the role first, the member that the others may still need last."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The next leader is not learnt here any more: nothing may wait for it.
        if self._follower is not None:
            self._follower.close()
        await self._leadership.close()
        if self._calls is not None:
            await self._calls.close()
        self._leader.lead_by(None)
        self.parts.front.agents.say_goodbye("the server is stopping")
        if self._relay is not None:
            await self._relay.stop()
        await self.parts.stop()
        await self._plane.close()
        await self._member.stop()


def _own_peer(config: ServerConfig) -> PeerSection:
    for peer in config.quorum.peers:
        if peer.name == config.name:
            return peer
    raise ValueError(
        f'quorum.peers does not list server "{config.name}"; list it and all others that bootstrap with it'
    )


def _log_start(folder: Path) -> LogStart | None:
    """Of a server that was restored: where the log begins, until it has."""
    start = read_start(folder)
    return None if start is None else start.log_start()


def _member_settings(config: ServerConfig, me: PeerSection) -> MemberSettings:
    quorum, folder = config.quorum, Path(config.data_dir)
    return MemberSettings(
        name=config.name,
        folder=folder / "etcd",
        certificates=CertificateFolder(Path(quorum.certificates) if quorum.certificates else folder / "certificates"),
        client_listen=quorum.client_listen or me.client,
        peer_listen=quorum.peer_listen or me.peer,
        client_advertised=me.client,
        peer_advertised=me.peer,
        program=quorum.program,
        quota_bytes=quorum.quota_bytes,
    )
