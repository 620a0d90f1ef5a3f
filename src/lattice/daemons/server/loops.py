"""The loops of a server, built from its configuration and run as tasks. Leader only."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from lattice.api.rates import DEFAULTS
from lattice.config.schema import ServerConfig
from lattice.control.audit.sealing import Auditing
from lattice.control.capacity.evictions import Evictions
from lattice.control.checkpoints.broker import CheckpointBroker
from lattice.control.checkpoints.requests import CheckpointRequests
from lattice.control.checkpoints.storing import CheckpointStoring
from lattice.control.collectors.tree import CollectorSettings, CollectorTree
from lattice.control.data.staging import Staging
from lattice.control.finalizing import Finalizing
from lattice.control.loop import Loop, keep_alive
from lattice.control.nodes.at_hand import NodesAtHand
from lattice.control.nodes.conformance import Conformance
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.hooks import HookSettings, NodeHooks
from lattice.control.nodes.inventories import STALE_AFTER_S, Inventories
from lattice.control.nodes.probing import Probing
from lattice.control.nodes.rebooting import Rebooting
from lattice.control.nodes.remediation import Remediation
from lattice.control.nodes.session_table import SessionTable
from lattice.control.nodes.sessions import AgentSessions, SessionSettings
from lattice.control.nodes.silence import silent_nodes
from lattice.control.nodes.timers import NodeTimers, TimerSettings
from lattice.control.nodes.upgrading import Upgrading, UpgradingSettings
from lattice.control.nodes.watch import NodeWatch
from lattice.control.nodes.wiping import Wiping
from lattice.control.other_servers import OtherServers
from lattice.control.retention.ended import EndedRetention
from lattice.control.services.metrics import ScaleMetrics
from lattice.control.services.moving import Moving
from lattice.control.services.scaling import Autoscaling
from lattice.control.services.updating import Updating
from lattice.control.settings import seconds_setting
from lattice.control.steps.registry import StepRegistry, StepSettings
from lattice.control.steps.wireup import WireUp
from lattice.control.telemetry.reported import ReportedFigures
from lattice.control.tracing.spans import WorkSpans
from lattice.control.work.archiving import Archiving
from lattice.control.work.budget_notices import BudgetNotices, Places
from lattice.control.work.budgets import Budgets
from lattice.control.work.deadlines import Deadlines
from lattice.control.work.dispatch import Dispatch, DispatchSettings
from lattice.control.work.energy import EnergyPrices
from lattice.control.work.idle import IdleEnds
from lattice.control.work.log_retention import LogDeletion
from lattice.control.work.notifying import Notifying, NotifyingSettings
from lattice.control.work.reconcile import Reconcile, ReconcileSettings
from lattice.control.work.runs import queued_as
from lattice.control.work.scheduling import Scheduling, SchedulingSettings
from lattice.control.work.tracing import TraceCapture
from lattice.control.work.wanted_images import WantedImages
from lattice.core.machine.events import (
    AllocationRequeued,
    CheckpointEnded,
    CheckpointStored,
    EvictionBegan,
    NodeJoined,
    NodeLeft,
    NodeMoved,
    PartChanged,
)
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import Allocation
from lattice.daemons.outside.data import staging_settings
from lattice.daemons.outside.objects import log_retention
from lattice.daemons.server.infrastructure import infrastructure_of
from lattice.integrations.budgets.remaining import open_budgets
from lattice.integrations.energy.prices import open_prices
from lattice.integrations.wiper.program import ProgramWiper
from lattice.observe.conformance import ConformanceFigures
from lattice.observe.metrics import Metrics
from lattice.observe.readings import readings_of
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import AgentLinks, RunKey
from lattice.ports.nodes.checkpoints import CheckpointLinks
from lattice.ports.nodes.collecting import CollectingLinks
from lattice.ports.nodes.health import CheckLinks
from lattice.ports.nodes.inventories import InventoryLinks
from lattice.ports.nodes.steps import StepLinks
from lattice.ports.quorum.object_store import ObjectStore
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.metric_store import MetricStore
from lattice.ports.site.notifications import Sender
from lattice.ports.site.site_program import SiteProgram
from lattice.ports.site.traces import SpanSink
from lattice.quorum.backup.objects import SnapshotUploads
from lattice.wire.agents.channel import KEEPALIVE_S, KEEPALIVE_TIMEOUT_S
from lattice.wire.agents.collecting import probe
from lattice.wire.slurm.variables import SlurmSettings

_log = logging.getLogger(__name__)


class Links(AgentLinks, StepLinks, InventoryLinks, CollectingLinks, CheckLinks, CheckpointLinks, Protocol):
    """The interface to the agents that the loops need."""

    def reached(self) -> frozenset[RunKey]:
        """Runs to whose ports somebody is connected, or was since the last call."""
        ...


class Loops:
    """All loops over one replica; `mint` makes the token of an allocation, `is_crowded` says whether agents stand in line to register.

    Where two loops need each other, one of them is handed a method of this class, which calls the other; no loop is
    called before all of them are built.
    """

    def __init__(
        self,
        config: ServerConfig,
        replica: Replica,
        links: Links,
        clock: Clock,
        metrics: Metrics,
        *,
        mint: Callable[[Allocation], str],
        launch_key: Callable[[str], bytes],
        grant: Callable[[str, str], str],
        api_url: str,
        senders: Mapping[str, Sender],
        is_crowded: Callable[[], bool],
        epoch: int = 0,
        uploads: SnapshotUploads | None = None,
        objects: ObjectStore | None = None,
        auditing: Auditing | None = None,
        finalizing: Finalizing | None = None,
        spans: SpanSink | None = None,
        store: MetricStore | None = None,
        servers: OtherServers | None = None,
        places: Places = lambda user, wanted: wanted,
    ) -> None:
        timings, self.staging = _Timings(config, epoch), Staging(replica, clock, staging_settings(config))
        self._metrics, self._clock, self._began_s = metrics, clock, clock.monotonic_s()
        self.finalizing, self.uploads, self.auditing = finalizing, uploads, auditing
        self.observations, self.figures = Observations(), _figures(replica, clock)
        self.inventories = Inventories(links, clock, lambda: _stale_after_s(replica))
        self.at_hand = NodesAtHand()
        self.health = HealthRegistry(replica, links, clock, metrics.check_failed)
        self.energy, self.budgets = _energy_prices(config), _budgets(config)
        self.checkpoints = CheckpointRequests(replica, links, clock, config.node_agent.order_retry_s)
        self.checkpoint_broker = self._broker(replica, clock, links)
        self.scheduling = self._plan_work(replica, clock, metrics, timings)
        self.conformance = Conformance(replica, clock, self.inventories, self.scheduling.wake)
        self.inventories.subscribe(self.conformance.ring)
        wire_up = WireUp(launch_key, self._host_of, hidden=bool(config.api.agent_listen))
        self._order_work(replica, links, clock, timings, mint, grant, wire_up, api_url)
        self._hear_nodes(replica, links, clock, timings, is_crowded)
        self._care_for_nodes(config, replica, clock, timings, servers)
        self.reconcile = Reconcile(replica, links, clock, timings.reconcile, self.sessions.table.running_of)
        self._care_for_services(replica, clock, metrics, store)
        self.idle_ends = IdleEnds(replica, clock, links, self.steps.live, lambda: links.reached())
        self._record(config, replica, links, clock, objects, grant)
        self.notifying = Notifying(replica, clock, senders, timings.notifying, metrics.notification_done)
        self.budget_notices, self.work_spans = self._tell(replica, places, spans)
        self._show(metrics, replica)
        self._tasks: list[asyncio.Task[None]] = []  # the running loops, empty before `start` and after `stop`

    def _plan_work(self, replica: Replica, clock: Clock, metrics: Metrics, timings: "_Timings") -> Scheduling:
        """The scheduler, and all that it looks at beside the state."""
        seen, remaining = self.figures, self.budgets.remaining if self.budgets else dict
        return Scheduling(
            replica,
            self.observations,
            clock,
            timings.scheduling,
            metrics.scheduling.note,
            self.energy.price if self.energy else lambda now: None,
            lambda: self.conformance.standing(),
            self.inventories.gpu_fitness,
            lambda: self.staging.readiness(),
            self.checkpoint_broker.minutes,
            *(remaining, seen.congestion, seen.storage_gbps, seen.gpu_use),
            wanted_images=WantedImages(replica, self.at_hand.having, self.at_hand.has_images).of,
            gpu_sets=self.at_hand.gpu_sets,
        )

    def _order_work(
        self,
        replica: Replica,
        links: Links,
        clock: Clock,
        timings: "_Timings",
        mint: Callable[[Allocation], str],
        grant: Callable[[str, str], str],
        wire_up: WireUp,
        api_url: str,
    ) -> None:
        """Starts of work, and of steps in it."""
        steps, dispatch = timings.steps(api_url), timings.dispatch(api_url)
        self.steps = StepRegistry(replica, links, clock, steps, mint, self._node_cleared, wire_up, grant)
        self.dispatch = Dispatch(replica, links, clock, dispatch, mint, self._is_clear, grant)

    def _broker(self, replica: Replica, clock: Clock, links: Links) -> CheckpointBroker:
        figures, is_away = self.figures.of_allocation, self.checkpoints.is_storage_away
        made = CheckpointBroker(replica, clock, self.observations, figures, is_away, links)
        self.checkpoints.on_probed = made.probed
        return made

    def _hear_nodes(
        self, replica: Replica, links: Links, clock: Clock, timings: "_Timings", is_crowded: Callable[[], bool]
    ) -> None:
        """The agents' sessions, the collectors that bring their heartbeats, probes of those that have none, and who is silent."""
        timers = self.timers = NodeTimers(replica, timings.timers)
        table = SessionTable(replica, self.observations, self.inventories, clock, timings.interval_s)
        self.collectors = CollectorTree(replica, links, self.observations, clock, timings.collectors, table.hear)
        self.probing = Probing(replica, self.collectors.addresses, probe)
        self.sessions = AgentSessions(
            replica=replica,
            links=links,
            observations=self.observations,
            clock=clock,
            settings=timings.sessions,
            timers=timers,
            table=table,
            steps=self.steps,
            collectors=self.collectors,
            health=self.health,
            inventories=self.inventories,
            figures=self.figures,
            known_at_hand=self.at_hand,
            on_alerts=lambda node, alerts: self.notifying.alerted(node, alerts),
            on_opened=self._node_opened,
            on_progress=lambda key: self.dispatch.start_progressed(key.number, key.run),
            on_copies=lambda node, key: self.dispatch.results_are_copied(node, key),
            on_checkpoint=self.checkpoints.report,
        )
        self.node_watch = NodeWatch(
            replica,
            links,
            self.observations,
            clock,
            timers,
            moving_s=timings.moving_s,
            why_not_ready=self.health.unfit_because,
            is_crowded=is_crowded,
        )

    def _record(
        self,
        config: ServerConfig,
        replica: Replica,
        links: Links,
        clock: Clock,
        objects: ObjectStore | None,
        grant: Callable[[str, str], str],
    ) -> None:
        """What is recorded, and what goes again of what work left behind."""
        self.archiving = Archiving(replica, clock, after_s=config.archive.after_s)
        traces = Path(config.data_dir) / "traces"
        self.tracing = TraceCapture(replica, clock, traces)
        self.log_deletion = None if objects is None else LogDeletion(replica, clock, objects, log_retention(config))
        self.retention: EndedRetention | None = None
        if objects is not None:
            nodes, kept = self.observations.connected, log_retention(config)
            self.retention = EndedRetention(replica, clock, objects, links, kept, nodes, traces)
            self.checkpoints.on_removed = self.retention.removed
        self.copies: CheckpointStoring | None = None
        if objects is not None:
            self.copies = CheckpointStoring(replica, links, clock, objects, grant, self.observations.connected)
            self.checkpoints.on_copied = self.copies.report

    def _care_for_nodes(
        self, config: ServerConfig, replica: Replica, clock: Clock, timings: "_Timings", servers: OtherServers | None
    ) -> None:
        """What is done about nodes that are not as they should be, by programs and systems of the site."""
        infrastructure = infrastructure_of(config)
        self.remediation = None if infrastructure is None else Remediation(replica, clock, infrastructure)
        self.node_hooks = NodeHooks(
            replica, clock, _program(config.node.event_script, config.node.event_script_timeout), timings.hooks
        )
        self.rebooting = Rebooting(replica, clock, _program(config.node.reboot_program, config.node.reboot_timeout))
        self.upgrading = Upgrading(
            replica,
            clock,
            self.observations,
            _program(config.upgrade.program, config.upgrade.program_timeout),
            timings.upgrading,
            lambda: readings_of(self._metrics),
            self.health.unfit_because,
            servers,
        )
        care = config.sensitive
        self.wiping = Wiping(
            replica,
            clock,
            ProgramWiper(care.wiper, at_once=care.wipes_at_once) if care.wiper else None,
            timeout_s=care.wipe_timeout,
        )

    def _care_for_services(self, replica: Replica, clock: Clock, metrics: Metrics, store: MetricStore | None) -> None:
        self.deadlines, self.evictions = Deadlines(replica, clock), Evictions(replica, clock)
        self.updating = Updating(replica, self.observations, clock)
        self.moving = Moving(replica, self.observations)
        figures = ScaleMetrics(self.observations, self.figures, clock, store)
        self.autoscaling = Autoscaling(replica, self.observations, clock, figures.read, metrics.autoscaling)

    def _tell(self, replica: Replica, places: Places, spans: SpanSink | None) -> tuple[BudgetNotices, WorkSpans | None]:
        return (
            BudgetNotices(replica, self.scheduling.budget_uses, places),
            None if spans is None else WorkSpans(replica, spans),
        )

    def _show(self, metrics: Metrics, replica: Replica) -> None:
        metrics.show_heartbeats(lambda: self.sessions.counts)
        metrics.show_collectors(
            lambda: {**self.collectors.counts, **self.probing.counts},
            lambda: {row.collector: row.members for row in self.collectors.standings()},
        )
        metrics.show_inventories(lambda: self.inventories.counts)
        metrics.show_conformance(
            ConformanceFigures(lambda: replica.state, self.inventories.fingerprints, self._conformance_counts)
        )
        metrics.show_node_script(lambda: self.node_hooks.counts)
        metrics.show_staging(self.staging.figures)
        metrics.show_silence(lambda: self._silent(replica))
        replica.subscribe(lambda index, envelope, events: metrics.nodes_moved(events), of=(NodeMoved,))
        replica.subscribe(
            lambda index, envelope, events: metrics.preemption.note(replica.state, events),
            of=(EvictionBegan, AllocationRequeued),
        )
        replica.subscribe(lambda index, envelope, events: metrics.checkpoints.note(events), of=(CheckpointEnded,))
        replica.subscribe(lambda index, envelope, events: metrics.checkpoints.copied(events), of=(CheckpointStored,))
        if self.copies is not None:
            self.copies.on_failed = metrics.checkpoints.copy_failed
        metrics.checkpoints.storage_unavailable.set_function(self.checkpoints.is_storage_away)
        counted = (PartChanged, NodeLeft, NodeJoined)
        replica.subscribe(lambda index, envelope, events: metrics.services.note(events), of=counted)

    def metric_addresses(self) -> Mapping[str, str]:
        """Where each connected agent shows its figures."""
        found = ((node, self.sessions.table.newest(node)) for node in self.observations.connected())
        return {node: session.metrics_address for node, session in found if session is not None}

    def _silent(self, replica: Replica) -> Mapping[str, float]:
        timeout_s = self.timers.current.timeout_s
        return silent_nodes(replica.state, self.observations, self._clock, timeout_s=timeout_s, began_s=self._began_s)

    def _node_opened(self, node: str) -> None:
        self.dispatch.node_opened(node)
        self.checkpoints.node_opened(node)
        self.scheduling.node_opened(node)
        self.steps.node_opened(node)

    def _conformance_counts(self) -> Mapping[str, int]:
        signalled = {} if self.remediation is None else self.remediation.counts
        return {**self.conformance.counts, **signalled}

    def _is_clear(self, node: str) -> bool:
        return not self.steps.lingering(node)

    def _node_cleared(self, node: str) -> None:
        self.dispatch.node_cleared(node)

    def _host_of(self, node: str) -> str:
        """Where the agent of the node listens."""
        session = self.sessions.table.newest(node)
        return session.collector_address if session is not None else ""

    def _all(self) -> tuple[Loop, ...]:
        """Every loop of this server, each listed here and nowhere else."""
        always: tuple[Loop, ...] = (
            self.scheduling,
            self.steps,
            self.dispatch,
            self.checkpoints,
            self.checkpoint_broker,
            self.node_watch,
            self.reconcile,
            self.wiping,
            self.rebooting,
            self.upgrading,
            self.collectors,
            self.probing,
            self.health,
            self.conformance,
            self.node_hooks,
            self.archiving,
            self.deadlines,
            self.idle_ends,
            self.evictions,
            self.updating,
            self.moving,
            self.autoscaling,
            self.staging,
            self.tracing,
            self.notifying,
            self.budget_notices,
        )
        configured: tuple[Loop | None, ...] = (
            self.remediation,
            self.finalizing,
            self.energy,
            self.budgets,
            self.uploads,
            self.log_deletion,
            self.retention,
            self.copies,
            self.auditing,
        )
        return (*always, *(loop for loop in configured if loop is not None))

    def start(self) -> None:
        for loop in self._all():
            name = type(loop).__name__
            self._tasks.append(asyncio.create_task(keep_alive(name, loop.run), name=name))
        _log.debug("this server is the leader: starting %s", ", ".join(task.get_name() for task in self._tasks))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._metrics.hide_loops()


def _energy_prices(config: ServerConfig) -> EnergyPrices | None:
    place = config.scheduling.energy_prices
    return EnergyPrices(open_prices(place)) if place else None


def _budgets(config: ServerConfig) -> Budgets | None:
    settings = config.scheduling
    return Budgets(open_budgets(settings.budgets, settings.budgets_token_file)) if settings.budgets else None


def _program(command: list[str], timeout_s: float) -> SiteProgram | None:
    if not command:
        return None
    from lattice.integrations.site_program.program import CommandProgram

    return CommandProgram(command, timeout_s=timeout_s)


def _figures(replica: Replica, clock: Clock) -> ReportedFigures:
    return ReportedFigures(clock, lambda number: queued_as(replica.state, number))


def _stale_after_s(replica: Replica) -> float:
    return seconds_setting(replica.state, "conformance.stale_after_s", STALE_AFTER_S)


class _Timings:
    """The loops' settings, from the configuration."""

    def __init__(self, config: ServerConfig, epoch: int) -> None:
        agent = config.node_agent
        self._config = config
        self.scheduling = SchedulingSettings(
            cycle_interval_s=config.scheduling.cycle_interval_s, merge_s=config.scheduling.merge_ms / 1000
        )
        self.hooks = HookSettings(
            per_minute=config.node.event_script_per_minute, states=frozenset(config.node.event_script_states)
        )
        self.upgrading = UpgradingSettings(
            return_within_s=round(config.upgrade.return_within), heartbeat_interval_s=agent.heartbeat_interval_s
        )
        told = config.notifications
        self.notifying = NotifyingSettings(retry_s=told.retry, give_up_after_s=told.give_up_after)
        self.sessions = SessionSettings(server_name=config.name, epoch=epoch)
        self.interval_s = agent.heartbeat_interval_s
        self.collectors = CollectorSettings(interval_s=agent.heartbeat_interval_s, timeout_s=agent.heartbeat_timeout_s)
        # An agent detects a hanging server by its pings, and only then moves to the new leader.
        self.moving_s = KEEPALIVE_S + KEEPALIVE_TIMEOUT_S if config.quorum.kind == "etcd" else 0.0
        self.timers = TimerSettings(
            timeout_s=agent.heartbeat_timeout_s,
            grace_s=agent.grace_period_s,
            sensitive_timeout_s=agent.sensitive_heartbeat_timeout_s,
            sensitive_grace_s=agent.sensitive_grace_period_s,
            borrowed_grace_s=agent.borrowed_grace_period_s,
            boot_timeout_s=agent.boot_timeout_s,
        )
        # Two checks of a node must not use the same heartbeat.
        every_s = max(agent.reconcile_every_s, 2 * agent.heartbeat_interval_s)
        self.reconcile = ReconcileSettings(every_s=every_s, grace_s=agent.stop_grace_s)

    def steps(self, api_url: str) -> StepSettings:
        said = self._config.rate_limits.attach_max_concurrent
        return StepSettings(
            grace_s=self._config.node_agent.stop_grace_s,
            api_url=api_url,
            slurm=self.dispatch(api_url).slurm,
            terminals=DEFAULTS["attach_max_concurrent"] if said is None else said,
        )

    def dispatch(self, api_url: str) -> DispatchSettings:
        agent = self._config.node_agent
        return DispatchSettings(
            retry_s=agent.order_retry_s,
            start_timeout_s=agent.start_timeout_s,
            grace_s=agent.stop_grace_s,
            token_lifetime_s=self._config.api.allocation_token_lifetime,
            api_url=api_url,
            slurm=SlurmSettings(cluster=self._config.slurm.cluster_name, for_all=self._config.compat.set_slurm_env),
        )
