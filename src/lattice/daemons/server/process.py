"""One server from its configuration to its end: log, replica, loops, gRPC and REST on one event loop."""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from socket import socket

from grpc import ServerCredentials
from grpc.aio import Server as GrpcServer

from lattice.api.auditing import refused_login
from lattice.api.auth.tokens import sign_token
from lattice.api.grpc.agents.links import AgentLinkTable
from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.agents.session import LocalRegistrar
from lattice.api.grpc.operations import OperationServices
from lattice.api.grpc.public import Health, UnusableCertificate, offer, tls_credentials
from lattice.api.grpc.server import BindFailed, build_server
from lattice.api.partitions import slurm_names
from lattice.api.rest.app import StartupGate, build_app
from lattice.api.services import Services
from lattice.api.streams.changes import ChangeRing
from lattice.config.rules import intent_rules
from lattice.config.schema import ServerConfig
from lattice.control.bootstrap import Defaults, begin_at_newest_level, make_defaults, make_safe
from lattice.control.finalizing import Finalizing
from lattice.control.loop import failures, repeats
from lattice.control.nodes.admission import NodeAdmissions
from lattice.control.settings import seconds_setting
from lattice.control.work.orders import token_lifetime_s
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.intent import unknown_targets
from lattice.daemons.server.agent_listener import AgentListener
from lattice.daemons.server.debug_flags import DebugFlags
from lattice.daemons.server.gc import keep_what_is_loaded
from lattice.daemons.server.guards import begin_auditing, rate_limits, submit_filter
from lattice.daemons.server.http_limits import BoundedProtocol, bounded, descriptors, grpc_shares, http_limits
from lattice.daemons.server.identity import VerifierSet
from lattice.daemons.server.listening import Address, ListenFailed, bind, check_free, parse_listen, reachable
from lattice.daemons.server.local_socket import LocalSocket
from lattice.daemons.server.loops import Loops
from lattice.daemons.server.lost_data import mend_archive, note_begun, refuse_lost_log
from lattice.daemons.server.recovery import carry_out_asked, object_snapshots
from lattice.daemons.server.rest_server import RestServer, server_settings
from lattice.daemons.server.senders import Senders
from lattice.daemons.server.tls import ServerTls
from lattice.integrations.directory.store import DirectoryStore
from lattice.observe.metrics import Metrics
from lattice.ports.clock import SystemClock
from lattice.ports.quorum.log import Log
from lattice.ports.quorum.replica import Replica
from lattice.ports.quorum.servers import ServerState, alone
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.backup.objects import SnapshotUploads
from lattice.quorum.backup.restore import refuse_unfinished
from lattice.quorum.backup.service import BackupService
from lattice.quorum.disk_space import disk_problem
from lattice.quorum.log_clock import boot_s
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.losses import Losses
from lattice.quorum.replica import LogReplica, ReplicaCounters
from lattice.quorum.snapshots.folders import SnapshotFolder

_log = logging.getLogger(__name__)

ENDPOINTS_FILE = "endpoints.json"
REST_PATIENCE_S = 1
GRPC_PATIENCE_S = 0.5


class ServerProcess:
    """Start it, wait for `failed`, stop it."""

    def __init__(self, config: ServerConfig, secret: bytes, *, accepts_loss: bool = False) -> None:
        self._config = config
        self._secret = secret
        self._clock = SystemClock()
        self._verifier_set = VerifierSet(config, secret, self._clock)
        self._verifier = self._verifier_set.verifier
        self._tls = ServerTls(config.api.tls) if config.api.tls.certificate else None
        self._following_tls: asyncio.Task[None] | None = None
        self._senders = Senders(config, self._clock)
        self._rules = intent_rules(config.submission)
        self._filter = submit_filter(config)
        self._data_dir = Path(config.data_dir)
        self._losses = Losses(self._data_dir, accepts=accepts_loss)
        self._endpoints_file = self._data_dir / ENDPOINTS_FILE
        self._metrics = Metrics()
        self._metrics.show_loops(lambda: failures, lambda: repeats)
        self._links = AgentLinkTable()
        self._agents = AgentService(self._verifier, refused=self._agent_refused)
        self._agent_port: Address | None = None
        self._metrics.show_agents(lambda: self._agents.count, lambda: self._agents.refusals)
        self._gate = StartupGate()
        self._replica = self._build_replica()
        self._agent_listener = AgentListener(
            config.api, secret, self._clock, self._verifier, NodeAdmissions(self._replica), self._agent_refused
        )
        self._ring = ChangeRing(self._replica)
        self._replica.on_loaded(self._ring.begin)
        self._debug_flags = DebugFlags(self._replica)
        self._backups = self._build_backups()
        self._loops: Loops | None = None
        self._services: Services | None = None
        self._grpc: GrpcServer | None = None
        self._operations = OperationServices()
        self._health: Health | None = None
        self._rest: RestServer | None = None
        self._rest_task: asyncio.Task[None] | None = None
        self._local_socket: LocalSocket | None = None

    def _build_replica(self) -> LogReplica:
        config, data_dir = self._config, self._data_dir
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_kept = config.log.kind == "sqlite"
        log: Log = SqliteLog(data_dir / "log.db") if is_kept else MemoryLog()
        folder = SnapshotFolder(data_dir / "snapshots", config.snapshots.keep) if is_kept else None
        counters = ReplicaCounters(on_commit=lambda seconds, commands: self._metrics.commit_done(seconds))
        return LogReplica(
            log=log,
            archive=SqliteArchive(data_dir / "archive.db" if is_kept else None),
            snapshots=folder,
            clock=self._clock,
            snapshot_every=config.snapshots.every_commands,
            counters=counters,
            clock_step_limit_s=config.quorum.clock_step_limit,
            steady_s=boot_s,
            losses=self._losses,
        )

    def _build_backups(self) -> BackupService | None:
        config = self._config
        if config.quorum.kind == "sqlite" and config.log.kind != "sqlite":
            return None
        folder = Path(config.backup.directory) if config.backup.directory else self._data_dir / "backups"
        return BackupService(self._replica, self._data_dir, folder, config.name, config.quorum.kind)

    def _build_uploads(self) -> SnapshotUploads | None:
        settings = self._config.snapshots
        if self._backups is None or not settings.to_object_store:
            return None
        return SnapshotUploads(
            object_snapshots(self._config, self._data_dir), self._backups.source, every_s=settings.every
        )

    async def start(self) -> None:
        """Returns when agents and clients are served. Raises ListenFailed, LogError and other errors of the start."""
        api = self._config.api
        rest = parse_listen(api.rest_listen, "api.rest_listen")
        grpc = parse_listen(api.grpc_listen, "api.grpc_listen")
        with contextlib.ExitStack() as undo:
            rest_socket = undo.enter_context(bind(rest, "api.rest_listen"))
            check_free(grpc, "api.grpc_listen")
            rest = Address(rest.host, rest_socket.getsockname()[1])
            try:
                await self._start_rest(rest_socket)
                await self._verifier_set.start()
                await self._prepare()
                await self._replica.start()
                await asyncio.to_thread(note_begun, self._data_dir)
                self._endpoints_file.unlink(missing_ok=True)  # left behind by a killed server
                await self._serve(rest, grpc)
            except BaseException:
                await self.stop()
                raise
            undo.pop_all()

    async def _prepare(self) -> None:
        """Prepares the data before the log is opened: restores a backup if that was requested."""
        refuse_unfinished(self._data_dir)
        restored = await asyncio.to_thread(carry_out_asked, self._config)
        if restored is not None:
            start, former = restored
            _log.warning(
                "restored %s: continues from entry %d; the previous data is in %s", start.backup, start.index, former
            )
        if self._config.log.kind == "sqlite":
            await asyncio.to_thread(refuse_lost_log, self._data_dir, self._losses)
            await asyncio.to_thread(mend_archive, self._config)

    async def _begin_loops(self, replica: Replica, own_url: str) -> Loops:
        """The loops of a leader, not running yet; the log contains their prerequisites when this returns."""
        config, defaults = self._config, self._config.defaults
        wanted = Defaults(tenant=defaults.tenant, vcluster=defaults.vcluster, walltime_s=int(defaults.walltime))
        if config.upgrade.auto_finalize is not False:
            await begin_at_newest_level(replica)
        auditing = await begin_auditing(config, replica, self._replica.clock, self._replica.epoch)
        await make_defaults(replica, wanted)
        await make_safe(replica, is_production=config.mode == "production")
        loops = self._loops = Loops(
            config,
            replica,
            self._links,
            self._replica.clock,
            self._metrics,
            mint=self._mint,
            api_url=config.api.advertised_url or own_url,
            senders=self._senders.senders,
            epoch=self._replica.epoch,
            uploads=self._build_uploads(),
            auditing=auditing,
            finalizing=Finalizing(replica, self._ask_servers) if config.upgrade.auto_finalize else None,
        )
        loops.is_crowded = lambda: self._agents.is_crowded
        self._report_rules()
        return loops

    async def _ask_servers(self) -> Sequence[ServerState]:
        """The levels that every server of the cluster supports."""
        return [alone(self._config.name, self._replica.applied_index)]

    async def _serve(self, rest: Address, grpc: Address) -> None:
        loops = await self._begin_loops(self._replica, f"{self._scheme}://{reachable(rest)}")
        self._agents.receive_at(LocalRegistrar(self._verifier, loops.sessions, self._links))
        try:
            self._grpc, grpc_port = build_server(
                self._agents, str(grpc), self._grpc_credentials(), self._grpc_connections()
            )
        except BindFailed as error:
            raise ListenFailed(f"api.grpc_listen: {error}") from error
        self._services = self._build_services(loops)
        self._offer_operations(self._grpc)
        keep_what_is_loaded()
        loops.start()
        self._operations.serve(self._services)
        await self._grpc.start()
        await self._open_agent_port()
        await self._report_health(is_serving=True)
        self._gate.open(build_app(self._services))
        await asyncio.to_thread(self._publish, rest, Address(grpc.host, grpc_port))

    @property
    def _scheme(self) -> str:
        return "http" if self._tls is None else "https"

    def _grpc_credentials(self) -> ServerCredentials | None:
        return None if self._tls is None else self._tls.grpc_credentials()

    def _grpc_connections(self) -> int:
        api = self._config.api
        share, _ = grpc_shares(has_agent_port=bool(api.agent_listen))
        return descriptors(share, api.limits.descriptors_kept)

    def _offer_operations(self, server: GrpcServer) -> None:
        """The API on the agents' gRPC port, and with TLS if configured. Raises ListenFailed."""
        self._health = offer(server, self._operations)
        self._agent_listener.issue_on(server)
        tls = self._config.api.grpc_tls
        if not tls.listen:
            return
        authority = Path(tls.client_authority) if tls.client_authority else None
        try:
            credentials = tls_credentials(Path(tls.certificate), Path(tls.key), authority)
            server.add_secure_port(tls.listen, credentials)
        except (UnusableCertificate, RuntimeError) as error:
            raise ListenFailed(f"api.grpc_tls: {error}") from error

    async def _open_agent_port(self) -> None:
        """The port for agents with certificates, if configured. Raises ListenFailed."""
        if self._config.api.agent_listen and self._tls is not None:
            self._agent_port = await self._agent_listener.open(self._agents, self._tls)

    async def _report_health(self, *, is_serving: bool) -> None:
        if self._health is not None:
            await self._health.set(is_serving=is_serving)

    def _warning(self) -> str:
        """Problems that an operator should know about although the server serves."""
        jump_s = self._replica.clock.jump_s
        jump = f"its clock jumped by {jump_s:.1f} s, which the log ignores; restart the server when the clock is right"
        return "; ".join(filter(None, (self._losses.told, jump if jump_s else "")))

    def _build_services(self, loops: Loops) -> Services:
        config = self._config
        directory = config.object_store.directory or str(self._data_dir / "objects")
        return Services(
            replica=self._replica,
            links=self._links,
            verifier=self._verifier,
            clock=self._replica.clock,
            wall=self._clock,
            problem=lambda: disk_problem(self._data_dir) or self._replica.archive_damage,
            warning=self._warning,
            scheduling=loops.scheduling,
            steps=loops.steps,
            conformance=loops.conformance,
            health=loops.health,
            inventories=loops.inventories,
            observations=loops.observations,
            objects=DirectoryStore(Path(directory)),
            metrics=self._metrics,
            is_ready=lambda: self._replica.is_leader,
            reboots_nodes=bool(config.node.reboot_program),
            server_name=config.name,
            is_production=config.mode == "production",
            default_tenant=config.defaults.tenant,
            default_vcluster=config.defaults.vcluster,
            notifications=self._senders.policy,
            rules=self._rules,
            slurm=slurm_names(config.slurm.cluster_name, config.slurm.partitions, config.slurm.qos),
            ring=self._ring,
            backups=self._backups,
            audit=loops.auditing,
            limits=rate_limits(config, self._replica),
            submit_filter=self._filter,
            discovery=self._verifier_set.discovery,
            revalidate_every_s=config.api.token_revalidation_interval,
        )

    def _agent_refused(self, why: str) -> None:
        if self._services is not None:
            refused_login(self._services, why, "")

    def _report_rules(self) -> None:
        for problem in unknown_targets(self._rules, self._replica.state.vclusters):
            _log.warning("submission.rules: %s; the rule is skipped until then", problem)

    def _mint(self, allocation: Allocation) -> str:
        grace_s = seconds_setting(self._replica.state, "agent.grace_s", self._config.node_agent.stop_grace_s)
        most_s = self._config.api.allocation_token_lifetime
        return sign_token(
            self._secret,
            user=allocation.user,
            account=allocation.account,
            tenants=[allocation.tenant],
            issued_at_s=self._clock.now_ms() // 1000,
            lifetime_s=token_lifetime_s(allocation, most_s=most_s, grace_s=grace_s),
            kind="allocation",
            allocation=allocation.number,
            run=allocation.run,
        )

    async def _start_rest(self, rest_socket: socket) -> None:
        """Serves from the start; refuses requests that need the complete state until it is loaded."""
        limits = http_limits(self._config.api.limits)
        settings = server_settings(self._gate, bounded(BoundedProtocol, limits), patience_s=REST_PATIENCE_S)
        if self._tls is not None:
            context = self._tls.context
            settings.ssl_context_factory = lambda _config, _default: context
            self._following_tls = asyncio.create_task(self._tls.follow(), name="certificate")
        self._rest = RestServer(settings)
        self._rest_task = asyncio.create_task(self._rest.serve(sockets=[rest_socket]), name="rest")
        while not self._rest.started:
            if self._rest_task.done():
                raise ListenFailed(f"cannot start REST: {self._rest_task.exception()}")
            await asyncio.sleep(0.001)
        if self._config.api.unix_socket:
            path = Path(self._config.api.unix_socket)
            self._local_socket = LocalSocket(path, self._gate, self._mint_local, limits)
            await self._local_socket.start()

    def _mint_local(self, user: str) -> str:
        now_s = self._clock.now_ms() // 1000
        return sign_token(self._secret, user=user, issued_at_s=now_s, lifetime_s=60, scope="readonly")

    def _publish(self, rest: Address, grpc: Address) -> None:
        endpoints = {"rest": f"{self._scheme}://{rest}", "grpc": str(grpc), "pid": os.getpid()}
        if self._agent_port is not None:
            endpoints["agents"] = str(self._agent_port)
        path = self._endpoints_file
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(endpoints) + "\n")
        draft.replace(path)
        _log.info("serving", extra={"rest": endpoints["rest"], "grpc": endpoints["grpc"]})

    async def failed(self) -> Exception:
        """Returns the reason when the server can no longer serve."""
        await self._replica.wait_stopped()
        return self._replica.failure or RuntimeError("the replica has ended")

    async def stop(self) -> None:
        """Stops everything in order; acknowledged data is already durable, whatever happens here."""
        self._endpoints_file.unlink(missing_ok=True)
        await self._verifier_set.stop()
        if self._following_tls is not None:
            self._following_tls.cancel()
        if self._services is not None:
            self._services.feed.close()
        if self._rest is not None:
            self._rest.should_exit = True
        if self._local_socket is not None:
            await self._local_socket.stop()
        self._agents.say_goodbye("the server is stopping")
        if self._loops is not None:
            await self._loops.stop()
        if self._grpc is not None:
            await self._report_health(is_serving=False)
            await self._agent_listener.close(GRPC_PATIENCE_S)
            await self._grpc.stop(GRPC_PATIENCE_S)
        if self._rest_task is not None:
            await asyncio.gather(self._rest_task, return_exceptions=True)
        await self._replica.stop()
