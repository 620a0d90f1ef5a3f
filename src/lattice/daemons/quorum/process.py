"""One of several servers: its etcd member, its replica, and its alternation between leading and following."""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lattice.api.access.admission import check_token
from lattice.api.errors import ApiError
from lattice.api.grpc.agents.session import LocalRegistrar
from lattice.api.grpc.forwarding import LeaderCalls
from lattice.api.grpc.server import BindFailed, build_server
from lattice.api.partitions import slurm_names
from lattice.api.rest.app import RestApp, build_app
from lattice.api.rest.forwarding import Forwarding
from lattice.api.services import Services
from lattice.config.schema import PeerSection, ServerConfig
from lattice.core.model.nodes.observations import Observations
from lattice.daemons.quorum.agent_relay import AgentRelay
from lattice.daemons.quorum.backups import AllBackups
from lattice.daemons.quorum.clock_guard import ClockGuard
from lattice.daemons.quorum.outage import OutageWatch
from lattice.daemons.quorum.peer_plane import PeerPlane
from lattice.daemons.quorum.start_mode import StartMode
from lattice.daemons.quorum.stepping_down import SteppingDown
from lattice.daemons.server.following import NoScheduling
from lattice.daemons.server.gc import keep_what_is_loaded
from lattice.daemons.server.guards import rate_limits
from lattice.daemons.server.listening import Address, ListenFailed
from lattice.daemons.server.loops import Loops
from lattice.daemons.server.process import ServerProcess
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.clock import SystemClock
from lattice.ports.quorum.log import LogError, LogStart, LogUnavailable
from lattice.ports.quorum.replica import Replica, ReplicaStopped
from lattice.ports.quorum.servers import ServerState
from lattice.ports.site.audit import AuditError
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.archive.repair import inspect, put_aside
from lattice.quorum.backup.restore import log_has_begun, read_start, refuse_unfinished
from lattice.quorum.disk_space import RoomWatch, disk_problem
from lattice.quorum.etcd.leader import EtcdLeadership
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.etcd.settings import MemberRemoved, MemberSettings
from lattice.quorum.log_clock import boot_s
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.replica import LogReplica, ReplicaCounters
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.quorum.term import Term
from lattice.quorum.trust.certificates import CertificateFolder

# A read that cannot be confirmed by then is refused; the client retries, or requests a stale read.
READ_WITHIN_S = 3.0
FETCH_WITHIN_S = 60.0

_log = logging.getLogger(__name__)


class QuorumProcess(ServerProcess):
    """Start it, wait for `failed`, stop it."""

    def __init__(
        self,
        config: ServerConfig,
        secret: bytes,
        start_mode: StartMode,
        token_file: Path | None = None,
        *,
        accepts_loss: bool = False,
    ) -> None:
        self._start_mode = start_mode
        self._token_file = token_file
        self._peers = {peer.name: peer for peer in config.quorum.peers}
        if config.name not in self._peers:
            raise ValueError(
                f'quorum.peers does not list server "{config.name}"; list it and all others that bootstrap with it'
            )
        self._me = self._peers[config.name]
        self._member = EtcdMember(_member_settings(config, self._me))
        self._plane = PeerPlane(config, self._me, self._member, secret, SystemClock())
        self._accepts_loss = accepts_loss
        super().__init__(config, secret, accepts_loss=accepts_loss)
        self._leadership = EtcdLeadership(
            self._plane.client(), config.name, self._me.client, lease_s=config.quorum.lease_s
        )
        self._plane.attach(self._replica, self._leadership)
        self._servers = self._plane.servers
        self._clocks = ClockGuard(
            self._replica.clock, self._plane.skew, self._servers.measure_clocks, config.quorum.clock_step_limit
        )
        self._servers.problem = lambda: (
            disk_problem(self._data_dir) or self._member.trouble or self._clocks.problem or self._replica.archive_damage
        )
        self._servers.warning = self._warning
        self._plane.own_backups = self._backups
        self._outages = OutageWatch(
            self._replica.read_index,
            lambda: self._leadership.leader_name,
            lambda is_serving: self._report_health(is_serving=is_serving),
        )
        self._metrics.show_clocks(lambda: self._plane.skew.skews_s)
        self._lost = asyncio.Event()
        self._leadership.on_loss(self._on_loss)
        self._term: Term | None = None
        self._relay: AgentRelay | None = None
        self._calls: LeaderCalls | None = None
        self._local: Services | None = None
        self._follower: Forwarding | None = None
        self._turns: asyncio.Task[None] | None = None
        self._while_leading: list[asyncio.Task[None]] = []
        self._room: asyncio.Task[None] | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    def _build_replica(self) -> LogReplica:
        config, data_dir = self._config, self._data_dir
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = self._shared_log = EtcdLog(self._plane.client(), start=self._log_start())
        counters = ReplicaCounters(on_commit=lambda seconds, commands: self._metrics.commit_done(seconds))
        return LogReplica(
            log=log,
            archive=SqliteArchive(data_dir / "archive.db"),
            snapshots=SnapshotFolder(data_dir / "snapshots", config.snapshots.keep),
            clock=self._clock,
            snapshot_every=config.snapshots.every_commands,
            counters=counters,
            shared_head=log.head,
            clock_step_limit_s=config.quorum.clock_step_limit,
            steady_s=boot_s,
            losses=self._losses,
        )

    def _log_start(self) -> LogStart | None:
        """For a restored server: where its log starts, until the log exists."""
        start = read_start(self._data_dir)
        return None if start is None else start.log_start()

    async def _ask_servers(self) -> Sequence[ServerState]:
        return await self._servers.ask_all(None)

    async def _prepare(self) -> None:
        refuse_unfinished(self._data_dir)
        member, quorum = self._member, self._config.quorum
        start_mode = self._start_mode
        if start_mode == "bootstrap-if-new":
            start_mode = "restart" if member.settings.origin.exists() else "bootstrap"
        await self._plane.secure(start_mode, self._token_file, self._gate)
        self._relay = self._plane.open_relay(self._agents)
        self._relay.offer(self._operations)
        self._calls = self._plane.leader_calls(lambda: self._outages.outage)
        match start_mode:
            case "bootstrap":
                together = {peer.name: f"https://{peer.peer}" for peer in quorum.peers}
                await member.bootstrap(quorum.token, together if quorum.token else None)
            case "join":
                await member.join(member.others)
            case _:
                await member.restart()
        await self._plane.publish()
        await self._fetch_state_where_needed()

    async def _fetch_state_where_needed(self) -> None:
        """If the log was trimmed while this server was down, the missing entries' effects come from another server."""
        log = EtcdLog(self._member.client(self._member.others), start=self._log_start())
        await log.open()
        try:
            first, _ = await log.bounds()
        finally:
            await log.close()
        if first > 1 and not await asyncio.to_thread(self._has_state_from, first - 1):
            index = await self._fetched()
            _log.info("the log starts at entry %d; installed snapshot %d from another server", first, index)

    def _has_state_from(self, index: int) -> bool:
        """Whether there is an intact snapshot that is recent enough, with an archive that covers it. Blocks."""
        folder = SnapshotFolder(self._data_dir / "snapshots")
        path = self._data_dir / "archive.db"
        archive = inspect(path)
        if archive.damage:
            _log.error("%s is damaged (%s): moved it to %s", path, archive.damage, put_aside(path))
        usable = [each for each in folder.indexes() if index <= each <= archive.complete_to]
        return any(folder.is_whole(each) for each in reversed(usable))

    async def _fetched(self) -> int:
        """The index of a snapshot from another server; retries while the others are starting."""
        deadline = time.monotonic() + FETCH_WITHIN_S
        while not (index := await self._servers.fetch_state()):
            if time.monotonic() > deadline and self._accepts_loss:
                _log.error("no other server provides a snapshot; continuing with the local data")
                return 0
            if time.monotonic() > deadline:
                raise LogUnavailable("no other server provides a snapshot; start the other servers first")
            await asyncio.sleep(0.5)
        return index

    async def _serve(self, rest: Address, grpc: Address) -> None:
        await asyncio.to_thread(log_has_begun, self._data_dir)
        room = RoomWatch(self._shared_log.is_full, lambda: self._replica.snapshot_now(makes_room=True))
        self._room = asyncio.create_task(room.run(), name="room")
        try:
            self._grpc, grpc_port = build_server(
                self._agents, str(grpc), self._grpc_credentials(), self._grpc_connections()
            )
        except BindFailed as error:
            raise ListenFailed(f"api.grpc_listen: {error}") from error
        local = self._services_of(self._replica, None)
        local.is_ready = lambda: True
        self._services = self._local = local
        self._offer_operations(self._grpc)
        self._hand_calls_on()
        self._follower = Forwarding(
            build_app(local),
            self._servers,
            self._servers.pool,
            partial(check_token, local),
            lambda: self._outages.outage,
        )
        keep_what_is_loaded()
        await self._grpc.start()
        await self._open_agent_port()
        await self._report_health(is_serving=True)
        self._gate.open(self._follower)
        self._plane.serve()
        await self._leadership.open()
        if self._relay is not None:
            await self._relay.start()
        self._measuring = asyncio.create_task(self._clocks.run(), name="measuring clocks")
        self._looking = asyncio.create_task(self._outages.run(), name="outages")
        self._turns = asyncio.create_task(self._take_turns(), name="turns")
        await asyncio.to_thread(self._publish, rest, Address(grpc.host, grpc_port))

    def _services_of(self, replica: Replica, loops: Loops | None) -> Services:
        config = self._config
        directory = config.object_store.directory or str(self._data_dir / "objects")
        return Services(
            replica=replica,
            links=self._links,
            verifier=self._verifier,
            clock=self._replica.clock,
            wall=self._clock,
            outage=lambda: self._outages.outage,
            scheduling=NoScheduling() if loops is None else loops.scheduling,
            steps=None if loops is None else loops.steps,
            conformance=None if loops is None else loops.conformance,
            health=None if loops is None else loops.health,
            inventories=None if loops is None else loops.inventories,
            observations=Observations() if loops is None else loops.observations,
            objects=DirectoryStore(Path(directory)),
            metrics=self._metrics,
            is_ready=lambda: replica.is_leader,
            quorum=self._servers,
            membership=self._plane.membership,
            before_read=None if loops is None else self._confirm_reads,
            reboots_nodes=bool(config.node.reboot_program),
            server_name=config.name,
            default_tenant=config.defaults.tenant,
            default_vcluster=config.defaults.vcluster,
            notifications=self._senders.policy,
            rules=self._rules,
            slurm=slurm_names(config.slurm.cluster_name, config.slurm.partitions, config.slurm.qos),
            ring=self._ring,
            backups=None if self._backups is None else AllBackups(self._backups, self._servers),
            audit=None if loops is None else loops.auditing,
            limits=rate_limits(config, replica),
            submit_filter=self._filter,
            discovery=self._verifier_set.discovery,
            revalidate_every_s=config.api.token_revalidation_interval,
        )

    async def _confirm_reads(self) -> None:
        """Returns when the state contains everything that any server has acknowledged."""
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await self._replica.wait_for(await self._replica.read_index())
        except (TimeoutError, LogError) as error:
            raise ApiError(
                "unavailable",
                "cannot reach a majority of the servers: the local state may be stale",
                hint="try again, or read the local state with consistency=stale",
            ) from error

    # taking turns

    def _on_loss(self) -> None:
        self._lost.set()

    async def _take_turns(self) -> None:
        while True:
            await self._clocks.until_fit()
            self._lost.clear()
            await self._leadership.campaign()
            try:
                await self._lead()
                await self._lost.wait()
            except (LogError, ReplicaStopped, RuntimeError, AuditError) as error:
                _log.error("cannot become the leader: %s", error)
                await self._leadership.resign()
            finally:
                await self._follow()

    async def _lead(self) -> None:
        await self._replica.lead(lambda: self._leadership.is_leader and not self._clocks.problem)
        term = self._term = Term(self._replica)
        loops = await self._begin_loops(term, ",".join(entry.rest for entry in self._plane.directory.entries.values()))
        services = self._services = self._services_of(term, loops)
        loops.start()
        if self._relay is not None:
            self._relay.receive_at(LocalRegistrar(self._verifier, loops.sessions, self._links))
        app = RestApp(services)
        self._gate.open(app)
        self._operations.serve(services)
        if self._calls is not None:
            self._calls.lead(is_leading=True)
        self._servers.lead_by(app)
        stepping = SteppingDown(self._config.name, self._servers.problem, self._servers)
        self._while_leading = [
            asyncio.create_task(self._give_way(), name="clocks"),
            asyncio.create_task(stepping.run(), name="stepping down"),
        ]

    async def _give_way(self) -> None:
        """Gives up leadership when this server's clock is wrong."""
        problem = await self._clocks.until_unfit()
        _log.error("server %s lost leadership: %s", self._config.name, problem)
        await asyncio.shield(self._leadership.resign())

    async def _follow(self) -> None:
        """Undoes `_lead`, however far it got; the most dangerous parts first."""
        term, self._term = self._term, None
        if term is not None:
            term.end()
        self._servers.lead_by(None)
        self._hand_calls_on()
        while self._while_leading:
            self._while_leading.pop().cancel()
        if self._follower is not None:
            self._gate.open(self._follower)
        if self._relay is not None:
            self._relay.leave()
        loops, self._loops = self._loops, None
        if loops is not None:
            await loops.stop()
            if self._services is not None:
                self._services.feed.close()
        await self._replica.follow("this server is no longer the leader")

    def _hand_calls_on(self) -> None:
        """Forwards gRPC calls to the leader from now on."""
        if self._calls is not None and self._local is not None:
            self._calls.lead(is_leading=False)
            self._operations.follow(self._local, self._calls)

    async def failed(self) -> Exception:
        stopped = asyncio.create_task(super().failed())
        removed = asyncio.create_task(self._member.removed.wait())
        waiting = [stopped, removed, *([] if self._turns is None else [self._turns])]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if removed in done:
                return MemberRemoved(self._member.settings)
            if stopped in done:
                return stopped.result()
        finally:
            stopped.cancel()
            removed.cancel()
        error = self._turns.exception() if self._turns is not None and not self._turns.cancelled() else None
        return error if isinstance(error, Exception) else LogUnavailable("the election has ended")

    async def stop(self) -> None:
        tasks = [task for task in (self._turns, self._room, self._measuring, self._looking) if task is not None]
        self._turns = self._room = self._measuring = self._looking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # This server will not learn the next leader: nothing may wait for it.
        if self._follower is not None:
            self._follower.close()
        await self._leadership.close()
        if self._calls is not None:
            await self._calls.close()
        self._servers.lead_by(None)
        self._agents.say_goodbye("the server is stopping")
        if self._relay is not None:
            await self._relay.stop()
        await super().stop()
        await self._plane.close()
        await self._member.stop()


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
