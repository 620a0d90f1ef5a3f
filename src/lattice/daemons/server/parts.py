"""The parts of a server, whether it is alone or one of several: what it keeps, where clients come in, what it runs while it leads."""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import yaml

from lattice.api.auditing import refused_login
from lattice.api.auth.tokens import sign_token
from lattice.api.gateway.tickets import Tickets
from lattice.api.partitions import SlurmNames, slurm_names
from lattice.api.services import Services
from lattice.api.streams.changes import ChangeRing
from lattice.config.redaction import redacted
from lattice.config.rules import intent_rules
from lattice.config.schema import ServerConfig
from lattice.config.sections.work import SlurmSection
from lattice.control.bootstrap import Defaults, begin_at_newest_level, make_defaults, make_place, make_safe
from lattice.control.finalizing import Finalizing
from lattice.control.loop import failures, repeats
from lattice.control.nodes.admission import NodeAdmissions
from lattice.control.other_servers import OtherServers
from lattice.control.settings import seconds_setting
from lattice.control.work.orders import token_lifetime_s
from lattice.core.machine.events import AuditRecorded
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.nodes.readiness import ReadinessBoard
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.intent import unknown_targets
from lattice.core.model.work.readiness import is_ready
from lattice.daemons.figures.keeper import FigureKeeper
from lattice.daemons.figures.storage import storage_qos_of
from lattice.daemons.figures.store import metric_store_of
from lattice.daemons.figures.tracing import span_exporter
from lattice.daemons.outside.data import data_tiers, result_buckets
from lattice.daemons.outside.objects import log_retention, object_store_of
from lattice.daemons.outside.web import WebFront
from lattice.daemons.server.debug_flags import DebugFlags
from lattice.daemons.server.following import NoLinks, NoScheduling
from lattice.daemons.server.front import Front
from lattice.daemons.server.guards import (
    begin_auditing,
    container_registries,
    image_registry,
    rate_limits,
    submit_filter,
)
from lattice.daemons.server.identity import VerifierSet
from lattice.daemons.server.listening import Address, bind, check_free, parse_listen
from lattice.daemons.server.lost_data import note_begun
from lattice.daemons.server.senders import Senders
from lattice.daemons.server.storage import ChosenLog, Storage
from lattice.observe.metrics import Metrics
from lattice.ports.clock import SystemClock
from lattice.ports.nodes.data import BUCKET
from lattice.ports.quorum.backups import Backups
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.object_store import SigningStore
from lattice.ports.quorum.replica import Replica
from lattice.ports.quorum.servers import Membership, QuorumView, ServerState
from lattice.quorum.log_clock import years_off

if TYPE_CHECKING:  # what lists do not need is imported after the first of them are answered
    from lattice.api.grpc.agents.links import AgentLinkTable
    from lattice.api.grpc.agents.session import LocalRegistrar
    from lattice.api.grpc.agents.uploads import UploadSigning
    from lattice.api.pages.work import PortWork
    from lattice.daemons.server.loops import Loops

# How long lists of work may hold the rest of a start up.
LISTS_WITHIN_S = 2.0

_log = logging.getLogger(__name__)

AskServers = Callable[[], Awaitable[Sequence[ServerState]]]


class ServerParts:
    """Made once and held by the process until its end.

    Invariants: `loops` is set exactly while this server may append, and `services` then answer over the same replica
    as these loops. Only `begin_loops`, `end_loops` and `services_over` change the two.
    """

    def __init__(self, config: ServerConfig, secret: bytes, chosen: ChosenLog, *, accepts_loss: bool) -> None:
        self.config = config
        self.accepts_clock = False  # whatever the log's times say
        self._secret = secret  # signs every token of this cluster; equal on all its servers
        self.clock = SystemClock()  # for tokens and certificates only; all else goes by the log's time, `replica.clock`
        self.metrics = Metrics(config.name)
        self.metrics.show_loops(lambda: failures, lambda: repeats)
        # Who a caller is. Runs from `start` to `stop`: it fetches the identity provider's keys.
        self._verifiers = VerifierSet(config, secret, self.clock)
        self.verifier = self._verifiers.verifier
        self._senders = Senders(config, self.clock)
        self._rules = intent_rules(config.submission)
        self._filter = submit_filter(config)
        self._images = image_registry(config)
        self._registries = container_registries(config)
        self._objects = object_store_of(config)
        self._is_signing = isinstance(self._objects, SigningStore)  # asked once: it costs as much as a signature
        self._tiers, self._results = data_tiers(config), result_buckets(config)
        self.storage = Storage(config, chosen, self.clock, self.metrics, accepts_loss=accepts_loss)
        self.replica = self.storage.replica
        self.figures = FigureKeeper(self.metrics, self.storage.log, self.clock)
        self._spans = span_exporter(config)
        self._metric_store, self._storage_qos = metric_store_of(config), storage_qos_of(config)
        self._show_figures()
        self._web = WebFront(config, secret, self._verifiers.issuer)
        admissions = NodeAdmissions(self.replica)
        self.front = Front(config, secret, self.clock, self.verifier, admissions, self._agent_refused, self._web.around)
        self.metrics.show_agents(lambda: self.front.agents.count, lambda: self.front.agents.refusals)
        # The last changes, for watchers. It outlives the services, so that a watcher loses none when the leader changes.
        self._ring = ChangeRing(self.replica)
        self.replica.on_loaded(self._ring.begin)
        self._debug_flags = DebugFlags(self.replica)
        self.loops: Loops | None = None
        self.services: Services | None = None
        # Tickets and sessions of the gateway are known to every server.
        self._tickets = Tickets(lambda: self.replica.clock.now_ms() / 1000, secret)
        self._pages: PortWork | None = None  # the way from the gateway to the work, while this server leads

    @cached_property
    def links(self) -> "AgentLinkTable":
        """Orders to the agents that have a session here; filled and emptied by the sessions alone."""
        from lattice.api.grpc.agents.links import AgentLinkTable

        return AgentLinkTable()

    def _show_figures(self) -> None:
        quorum = self.metrics.quorum
        quorum.show(lambda: self.loops is not None, lambda: self.figures.log_entries, self.storage.folder)
        self.replica.subscribe(lambda index, envelope, events: quorum.audited(events), of=(AuditRecorded,))
        self.metrics.show_streams(self._open_streams)
        self._keeping: list[asyncio.Task[None]] = []

    def _open_streams(self) -> dict[str, int]:
        streams = {} if self.services is None else self.services.limits.streams()
        return {**streams, "attach": 0 if self.loops is None else self.loops.steps.open_terminals()}

    async def start(
        self,
        prepare: Callable[[], Awaitable[None]],
        serve: Callable[[Address, Address], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        """Returns when agents and clients are served: `prepare`, load the state, `serve`; `stop` undoes what was begun.

        Raises ListenFailed, LogError and what else keeps it from serving.
        """
        api = self.config.api
        rest = parse_listen(api.rest_listen, "api.rest_listen")
        grpc = parse_listen(api.grpc_listen, "api.grpc_listen")
        with contextlib.ExitStack() as undo:
            rest_socket = undo.enter_context(bind(rest, "api.rest_listen"))
            check_free(grpc, "api.grpc_listen")
            rest = Address(rest.host, rest_socket.getsockname()[1])
            try:
                await self.front.start_rest(rest_socket)
                await self.front.start_gateway()
                await self._verifiers.start()
                await prepare()
                await self.replica.start()
                self._check_clock()
                await asyncio.to_thread(note_begun, self.config)
                self.front.unpublish()  # left behind by a server that was killed
                await serve(rest, grpc)
                self._keeping.append(asyncio.create_task(self.figures.run(), name="figures"))
                if self._spans is not None:
                    self._keeping.append(asyncio.create_task(self._spans.run(), name="traces"))
            except BaseException:
                await stop()
                raise
            undo.pop_all()

    def _check_clock(self) -> None:
        """Raises LogError, before anything is stamped with this time."""
        problem = "" if self.accepts_clock else years_off(self.clock.now_ms(), self.replica.state.last_at)
        if problem:
            raise LogError(
                f"{problem}; set the clock, or start once with --accept-clock if the clock is right and the log's times are not"
            )

    # leading

    async def begin_loops(
        self, replica: Replica, own_url: str, ask_servers: AskServers, quorum: QuorumView | None = None
    ) -> "Loops":
        """The loops of a server that appends, not running yet; what they rest on is in the log when this returns."""
        from lattice.daemons.server.loops import Loops

        config, defaults = self.config, self.config.defaults
        wanted = Defaults(tenant=defaults.tenant, vcluster=defaults.vcluster, walltime_s=int(defaults.walltime))
        if config.upgrade.auto_finalize is not False:
            await begin_at_newest_level(replica)
        auditing = await begin_auditing(config, replica, self.replica.clock, self.replica.epoch)
        await make_defaults(replica, wanted)
        await make_safe(replica, is_production=config.mode == "production")
        await make_place(replica, config.checkpoint.root)
        self.loops = Loops(
            config,
            replica,
            self.links,
            self.replica.clock,
            self.metrics,
            mint=self._mint,
            launch_key=self._launch_key,
            grant=self._grant,
            api_url=config.api.advertised_url or own_url,
            senders=self._senders.senders,
            places=self._senders.places,
            is_crowded=lambda: self.front.agents.is_crowded,
            epoch=self.replica.epoch,
            uploads=self.storage.uploads(),
            objects=self._objects,
            auditing=auditing,
            spans=self._spans,
            store=self._metric_store,
            finalizing=Finalizing(replica, ask_servers) if config.upgrade.auto_finalize else None,
            servers=None if quorum is None else OtherServers(config.name, quorum, replica),
        )
        for problem in unknown_targets(self._rules, self.replica.state.vclusters):
            _log.warning("submission.rules: %s; the rule is skipped until then", problem)
        return self.loops

    def registrar(self, loops: "Loops") -> "LocalRegistrar":
        """Where agents register while these loops run."""
        from lattice.api.grpc.agents.session import LocalRegistrar

        return LocalRegistrar(self.verifier, loops.sessions, self.links, self._upload_signing())

    async def end_loops(self) -> None:
        """The other way round; harmless when none run."""
        loops, self.loops = self.loops, None
        self._serve_pages(None)
        if loops is not None:
            await loops.stop()

    def _mint(self, allocation: Allocation) -> str:
        grace_s = seconds_setting(self.replica.state, "agent.grace_s", self.config.node_agent.stop_grace_s)
        most_s = self.config.api.allocation_token_lifetime
        return sign_token(
            self._secret,
            user=allocation.user,
            account=allocation.account,
            tenants=[allocation.tenant],
            issued_at_s=self.clock.now_ms() // 1000,
            lifetime_s=token_lifetime_s(allocation, most_s=most_s, grace_s=grace_s),
            kind="allocation",
            allocation=allocation.number,
            run=allocation.run,
        )

    def _grant(self, prefix: str, node: str) -> str:
        if not (self._is_signing or prefix.startswith(BUCKET)):
            return ""
        from lattice.api.grpc.agents.uploads import UploadGrants

        return UploadGrants(self._secret).grant(prefix, node)

    def _upload_signing(self) -> "UploadSigning | None":
        """For nodes that store output and results themselves; a directory signs nothing."""
        from lattice.api.grpc.agents.uploads import UploadGrants, UploadSigning

        store = self._objects if isinstance(self._objects, SigningStore) else None
        if store is None and self._results is None:
            return None
        return UploadSigning(store, UploadGrants(self._secret), self._results)

    def _launch_key(self, launch_id: str) -> bytes:
        """The key with which the nodes of a launch seal what they send each other; the same on every server, and stored nowhere."""
        return hmac.digest(self._secret, f"launch/{launch_id}".encode(), "sha256")

    # answering

    def services_over(
        self,
        replica: Replica,
        loops: "Loops | None",
        *,
        is_ready: Callable[[], bool],
        quorum: QuorumView | None = None,
        membership: Membership | None = None,
        before_read: Callable[[], Awaitable[None]] | None = None,
        backups: Backups | None = None,
        outage: Callable[[], str] = lambda: "",
    ) -> Services:
        """What the operations stand on from now on; without loops those of a follower."""
        config = self.config
        self.services = Services(
            replica=replica,
            links=self.links,
            verifier=self.verifier,
            clock=self.replica.clock,
            wall=self.clock,
            outage=outage,
            problem=self.storage.problem,
            warning=self.storage.warning,
            scheduling=NoScheduling() if loops is None else loops.scheduling,
            proxy_url=self.front.proxy_url,
            proxy_domain=config.api.proxy_domain,
            tickets=self._tickets,
            web_links=self._web.links,
            staging=None if loops is None else loops.staging,
            tiers=self._tiers,
            observations=Observations() if loops is None else loops.observations,
            objects=self._objects,
            log_retention=log_retention(config),
            metrics=self.metrics,
            metric_store=self._metric_store,
            storage_qos=self._storage_qos,
            figures=self.figures.ring,
            spans=self._spans,
            configuration=lambda: yaml.safe_dump(redacted(config), sort_keys=False, allow_unicode=True),
            metric_addresses=dict if loops is None else loops.metric_addresses,
            is_ready=is_ready,
            quorum=quorum,
            membership=membership,
            before_read=before_read,
            **_names(config),
            notifications=self._senders.policy,
            rules=self._rules,
            slurm=_slurm(config.slurm),
            ring=self._ring,
            backups=self.storage.backups if backups is None else backups,
            limits=rate_limits(config, replica),
            submit_filter=self._filter,
            images=self._images,
            registries=self._registries,
            discovery=self._verifiers.discovery,
            revalidate_every_s=config.api.token_revalidation_interval,
        )
        self._serve_pages(None if loops is None else self._lead(self.services, loops))
        return self.services

    async def answer_lists(self) -> None:
        """Clients who wait for a list of work have it before the loops, gRPC and all other operations are there."""
        services = Services(
            replica=self.replica,
            links=NoLinks(),
            verifier=self.verifier,
            clock=self.replica.clock,
            wall=self.clock,
            scheduling=NoScheduling(),
            observations=Observations(),
            metrics=self.metrics,
            ring=self._ring,
            limits=rate_limits(self.config, self.replica),
            **_names(self.config),
        )
        await self.front.gate.answer_lists(services, LISTS_WITHIN_S)
        services.feed.close()

    def _lead(self, services: Services, loops: "Loops") -> "PortWork":
        """Adds what only the leader has."""
        from lattice.api.pages.work import PortWork

        services.steps = loops.steps
        services.ports = self.links.bulk
        services.idle = loops.idle_ends
        services.conformance = loops.conformance
        services.upgrading = loops.upgrading
        services.health = loops.health
        services.inventories = loops.inventories
        services.audit = loops.auditing
        services.ready = partial(_is_ready, loops.observations.readiness)
        return PortWork(services)

    def _serve_pages(self, work: "PortWork | None") -> None:
        if self._pages is not None:
            self._pages.close()
        self._pages = work
        self.front.gateway.serve(work)

    def _agent_refused(self, why: str, source: str) -> None:
        if self.services is not None:
            refused_login(self.services, why, source)

    # the end

    async def failed(self) -> Exception:
        """Returns when the server can serve no more, with the reason."""
        await self.replica.wait_stopped()
        return self.replica.failure or RuntimeError("the replica has ended")

    async def stop(self) -> None:
        """Ends everything in order; what was acknowledged is durable before, whatever happens here."""
        self.front.unpublish()
        for task in self._keeping:
            task.cancel()
        await self._verifiers.stop()
        if self.services is not None:
            self.services.feed.close()
        await self.front.refuse()
        await self.end_loops()
        await self.front.close()
        await self.replica.stop()


def _names(config: ServerConfig) -> dict[str, Any]:
    """What the operations take from the configuration as it is."""
    return {
        "reboots_nodes": bool(config.node.reboot_program),
        "server_name": config.name,
        "is_production": config.mode == "production",
        "default_tenant": config.defaults.tenant,
        "default_vcluster": config.defaults.vcluster,
    }


def _is_ready(board: ReadinessBoard, allocation: Allocation, node: str) -> bool:
    """Whether requests may go to the instance there."""
    part = next((each for each in allocation.parts if each.node == node), None)
    return part is not None and is_ready(board, allocation, part)


def _slurm(section: SlurmSection) -> SlurmNames:
    return slurm_names(section.cluster_name, section.partitions, section.qos, salloc_on_node=section.salloc_on_node)
