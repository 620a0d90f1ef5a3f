"""What the operations stand on; the composition root fills it in."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lattice.api.answers import Page, Shared
from lattice.api.auth.membership import Memberships
from lattice.api.gateway.tickets import Tickets
from lattice.api.kept_listings import MAX_KEPT_PAGES, KeptListings, Stamp, is_long_page, is_long_text
from lattice.api.login_discovery import Discovery
from lattice.api.notifications import NotificationPolicy
from lattice.api.partitions import SlurmNames
from lattice.api.rates import RateLimits
from lattice.api.streams.changes import ChangeRing
from lattice.api.streams.waiting import Feed
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.intent import IntentRule
from lattice.observe.figures.ring import FigureRing
from lattice.observe.metrics import Metrics
from lattice.ports.clock import Clock
from lattice.ports.data.staging import StagingService
from lattice.ports.data.tiers import NO_TIERS, DataTiers
from lattice.ports.nodes.agents import AgentLinks
from lattice.ports.nodes.conformance import ConformanceView
from lattice.ports.nodes.health import HealthService
from lattice.ports.nodes.inventories import InventoryRegistry
from lattice.ports.nodes.steps import IdleView, StepService
from lattice.ports.nodes.telemetry import TelemetryLinks
from lattice.ports.nodes.tunnels import PortLinks
from lattice.ports.nodes.upgrades import UpgradeService
from lattice.ports.quorum.backups import Backups
from lattice.ports.quorum.object_store import ObjectStore
from lattice.ports.quorum.replica import Replica
from lattice.ports.quorum.servers import Membership, QuorumView
from lattice.ports.scheduling import SchedulingView
from lattice.ports.site.audit import AuditService
from lattice.ports.site.identity import Verifier
from lattice.ports.site.images import ContainerRegistries, ImageRegistry
from lattice.ports.site.metric_store import MetricStore
from lattice.ports.site.retention import LogRetention
from lattice.ports.site.storage_qos import StorageQos
from lattice.ports.site.submit_filter import SubmitFilter
from lattice.ports.site.traces import SpanSink
from lattice.ports.site.web_links import WebLinks
from lattice.wire.slurm.commands import SlurmAnswer
from lattice.wire.work.allocations import AllocationView


class NodeLinks(AgentLinks, TelemetryLinks, Protocol):
    """All that the operations ask of nodes."""


@dataclass(kw_only=True)
class Services:
    """`objects` is None where no object store is configured; `is_ready` says whether the state is complete.

    `quorum`, `membership` and `before_read`, which returns when the state contains everything acknowledged, are None on a server that is alone.
    """

    replica: Replica
    links: NodeLinks
    verifier: Verifier
    clock: Clock
    scheduling: SchedulingView
    observations: Observations
    objects: ObjectStore | None = None
    log_retention: LogRetention = field(default_factory=LogRetention)
    metrics: Metrics = field(default_factory=Metrics)
    metric_store: MetricStore | None = None  # of what agents measured; None = the nodes are asked
    storage_qos: StorageQos | None = None  # None = no storage system is asked
    figures: FigureRing | None = None  # their last day; None = not kept
    spans: SpanSink | None = None  # None = no traces are sent
    configuration: Callable[[], str] = lambda: ""  # of this server, in YAML and without secrets
    metric_addresses: Callable[[], Mapping[str, str]] = dict  # of connected agents; empty text = they show none
    is_ready: Callable[[], bool] = lambda: True
    quorum: QuorumView | None = None
    membership: Membership | None = None
    before_read: Callable[[], Awaitable[None]] | None = None
    backups: Backups | None = None
    audit: AuditService | None = None  # None on a server that follows
    steps: StepService | None = None  # None on a server that follows
    ports: PortLinks | None = None  # None on a server that follows
    idle: IdleView | None = None  # None on a server that follows
    proxy_url: str = ""  # of the gateway to web pages of running work; empty = there is none
    proxy_domain: str = ""  # below which each page has a host of its own; empty = all share that URL
    # Whether the instance on a node is ready; None = it has no probe, so it is as soon as it runs.
    ready: Callable[[Allocation, str], bool | None] = lambda allocation, node: None
    web_links: WebLinks | None = None  # None where the web page is switched off
    tickets: Tickets = field(default_factory=lambda: Tickets(time.time))
    conformance: ConformanceView | None = None  # None on a server that follows
    health: HealthService | None = None  # None on a server that follows
    upgrading: UpgradeService | None = None  # None on a server that follows
    inventories: InventoryRegistry | None = None  # None on a server that follows
    staging: StagingService | None = None  # None on a server that follows
    tiers: DataTiers = NO_TIERS
    memberships: Memberships = field(default_factory=Memberships)
    discovery: Discovery = field(default_factory=Discovery)
    revalidate_every_s: float = 300.0  # interval at which the permission of stream readers is checked again
    reboots_nodes: bool = False  # a program of the site does; otherwise people do
    server_name: str = "server"
    is_production: bool = False
    default_tenant: str = "default"
    default_vcluster: str = "default"
    notifications: NotificationPolicy = field(default_factory=NotificationPolicy)
    rules: tuple[IntentRule, ...] = ()  # which vCluster a submission gets that names none
    slurm: SlurmNames = field(default_factory=SlurmNames)
    listings: KeptListings[SlurmAnswer] = field(default_factory=lambda: KeptListings(is_long_text))
    pages: KeptListings[Shared[Page[AllocationView]]] = field(
        default_factory=lambda: KeptListings(is_long_page, MAX_KEPT_PAGES)
    )
    submit_filter: SubmitFilter | None = None
    images: ImageRegistry | None = None  # None where the site has none
    registries: ContainerRegistries | None = None  # None where users may name no registry
    ring: ChangeRing | None = None  # the server's own, which outlives these services; None = one of their own
    # Changes of limits build on what they read and are made one at a time.
    administration: asyncio.Lock = field(default_factory=asyncio.Lock)
    limits: RateLimits = field(default_factory=lambda: RateLimits({}, time.monotonic))
    outage: Callable[[], str] = lambda: ""  # why nothing can be answered here now
    problem: Callable[[], str] = lambda: ""  # why this server is not healthy, where it is alone
    warning: Callable[[], str] = lambda: ""  # what an operator should know all the same
    wall: Clock | None = None  # by which tokens end; None = the clock above
    feed: Feed = field(init=False)
    boot: str = field(init=False)

    def stamp(self) -> Stamp:
        """All that listings of records depend on: the log, the last plan, and the time, which is shown in seconds."""
        status = self.scheduling.status()
        return self.replica.applied_index, status.cycles, status.failed_cycles, self.clock.now_ms() // 1000

    def wall_ms(self) -> int:
        """The time by which tokens end: the machine's, whatever that of the log is."""
        return (self.wall or self.clock).now_ms()

    def __post_init__(self) -> None:
        self.feed = Feed(self.replica, ring=self.ring)
        self.boot = secrets.token_hex(4)
