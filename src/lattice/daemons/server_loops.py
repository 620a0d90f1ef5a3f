"""The loops of a server, built from its configuration and run as tasks. Leader only."""

import asyncio
from collections.abc import Callable

from lattice.config.schema import ServerConfig
from lattice.control.agents import AgentSessions, SessionSettings
from lattice.control.archiving import Archiving
from lattice.control.dispatch import Dispatch, DispatchSettings
from lattice.control.node_watch import NodeWatch, WatchSettings
from lattice.control.reconcile import Reconcile, ReconcileSettings
from lattice.control.scheduling import Scheduling, SchedulingSettings
from lattice.core.model.allocations import Allocation
from lattice.core.model.observations import Observations
from lattice.observe.metrics import Metrics
from lattice.ports.agents import AgentLinks
from lattice.ports.clock import Clock
from lattice.ports.replica import Replica


class Loops:
    """All loops over one replica; `mint` makes the token of an allocation."""

    def __init__(
        self,
        config: ServerConfig,
        replica: Replica,
        links: AgentLinks,
        clock: Clock,
        metrics: Metrics,
        *,
        mint: Callable[[Allocation], str],
        api_url: str,
    ) -> None:
        agent = config.node_agent
        self.observations = Observations()
        self.scheduling = Scheduling(
            replica,
            self.observations,
            clock,
            SchedulingSettings(
                cycle_interval_s=config.scheduling.cycle_interval_s,
                merge_s=config.scheduling.merge_ms / 1000,
            ),
            lambda seconds, placements, stale: metrics.cycle_done(seconds, placements=placements, stale=stale),
        )
        self.dispatch = Dispatch(
            replica,
            links,
            clock,
            DispatchSettings(retry_s=agent.order_retry_s, grace_s=agent.stop_grace_s, api_url=api_url),
            mint,
        )
        self.sessions = AgentSessions(
            replica=replica,
            links=links,
            observations=self.observations,
            clock=clock,
            settings=SessionSettings(
                server_name=config.name,
                heartbeat_interval_s=agent.heartbeat_interval_s,
                down_after_s=agent.heartbeat_timeout_s + agent.grace_period_s,
            ),
            on_opened=self._node_opened,
        )
        self.node_watch = NodeWatch(
            replica,
            links,
            self.observations,
            clock,
            WatchSettings(timeout_s=agent.heartbeat_timeout_s, grace_s=agent.grace_period_s),
        )
        self.reconcile = Reconcile(
            replica,
            links,
            clock,
            ReconcileSettings(every_s=agent.reconcile_every_s, grace_s=agent.stop_grace_s),
            self.sessions.running_of,
        )
        self.archiving = Archiving(replica, clock, after_s=config.archive.after_s)
        self._tasks: list[asyncio.Task[None]] = []

    def _node_opened(self, node: str) -> None:
        self.dispatch.node_opened(node)
        self.scheduling.node_opened(node)

    def start(self) -> None:
        for loop in (self.scheduling, self.dispatch, self.node_watch, self.reconcile, self.archiving):
            self._tasks.append(asyncio.create_task(loop.run(), name=type(loop).__name__))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
