"""The newest session of every node, and what its heartbeats say. Heartbeats never reach the log; the return of a silent node does."""

import asyncio
import logging
import secrets
from collections import Counter
from dataclasses import dataclass, field

from lattice.control.collectors.tree import INTERVAL
from lattice.control.heartbeats import Allowance, beats_per_s
from lattice.control.nodes.inventories import Inventories
from lattice.control.settings import seconds_setting
from lattice.core.machine.commands import RecoverNode
from lattice.core.model.nodes.nodes import DegradeCause, Node, NodeState
from lattice.core.model.nodes.observations import Beat, Observations
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import RunKey
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import Replica, ReplicaStopped

_log = logging.getLogger(__name__)

SESSION_BITS = 62


@dataclass(slots=True)
class Session:
    """One stream of one node, from Register on. Changed by `AgentSessions` and, where a field says so, by heartbeats."""

    id: int  # known to this server and the node alone: it vouches for heartbeats that others carry
    node: str
    allowance: Allowance  # the node's own, kept over all its sessions
    collector_address: str = ""
    metrics_address: str = ""
    missing: tuple[
        RunKey, ...
    ] = ()  # running by the state, unknown to the agent when it registered; given up at Confirmed
    interval_s: float = 0.0  # as sent in its Welcome
    is_confirmed: bool = False  # never False again; without it no heartbeat brings the node back
    running: int | None = None  # live runs, as the newest heartbeat counted them


@dataclass
class SessionTable:
    """Holds the sessions; `AgentSessions` begins and ends them, and all heartbeats come in by `hear`."""

    replica: Replica
    observations: Observations
    inventories: Inventories
    clock: Clock
    interval_s: float  # between heartbeats, unless the cluster's setting says otherwise
    counts: Counter[str] = field(default_factory=Counter)
    # At most one session per node: the newest. What an older one still says is not current any more.
    _sessions: dict[str, Session] = field(default_factory=dict)
    # Never shrinks: a node that reconnects finds its allowance as it left it.
    _allowances: dict[str, Allowance] = field(default_factory=dict)
    # Recoveries that are being committed, at most one per node; each removes itself.
    _recovering: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def begin(self, node: str, collector_address: str, metrics_address: str = "") -> Session:
        """A new session, in place of the one before."""
        session = self._sessions[node] = Session(
            id=1 + secrets.randbits(SESSION_BITS),
            node=node,
            allowance=self._allowance(node),
            collector_address=collector_address,
            metrics_address=metrics_address,
        )
        return session

    def end(self, node: str) -> None:
        del self._sessions[node]

    def current(self, node: str, session: int) -> Session | None:
        """The session of this id, unless a newer one took its place."""
        current = self._sessions.get(node)
        return current if current is not None and current.id == session else None

    def newest(self, node: str) -> Session | None:
        return self._sessions.get(node)

    def running_of(self, node: str) -> int | None:
        """How many live runs the node counted in its last heartbeat; None when it has not said yet."""
        session = self._sessions.get(node)
        return session.running if session is not None and session.is_confirmed else None

    def beats_every_s(self) -> float:
        return seconds_setting(self.replica.state, INTERVAL, self.interval_s)

    def hear(self, node: str, session: int, beat: Beat, *, age_s: float = 0.0) -> bool:
        """Notes a heartbeat; `age_s` is how long it was under way through a collector. False when it is one too many."""
        current = self.current(node, session)
        if current is None:
            self.counts["stale_heartbeats"] += 1
            return True
        if beat.session not in (0, session):
            # No agent mixes up its sessions: this is a replay or a guess.
            self.counts["forged_heartbeats"] += 1
            return True
        return self._hear(current, beat, self.clock.monotonic_s() - age_s)

    def _hear(self, current: Session, beat: Beat, now: float) -> bool:
        if not self._may_be_heard(current, now):
            self.counts["surplus_heartbeats"] += 1
            return False
        node = current.node
        if not self.observations.hear(node, now, beat):
            self.counts["stale_heartbeats"] += 1
            return True
        self.counts["heartbeats"] += 1
        current.running = beat.running
        if beat.fingerprint:
            self.inventories.heard(node, beat.fingerprint)
        if current.is_confirmed:
            record = self.replica.state.nodes.get(node)
            # What a check began, a heartbeat does not end: nothing of it may reach the log.
            if record is not None and _is_silent(record):
                self._recover(node)
        return True

    def _allowance(self, node: str) -> Allowance:
        allowance = self._allowances.get(node)
        if allowance is None:
            allowance = self._allowances[node] = Allowance(0.0, filled_at=self.clock.monotonic_s())
        allowance.per_s = beats_per_s(self.beats_every_s())
        return allowance

    def _may_be_heard(self, current: Session, now: float) -> bool:
        if current.allowance.take(now):
            return True
        # The heartbeat interval may have been shortened since it registered.
        current.allowance.per_s = beats_per_s(self.beats_every_s())
        return False

    def _recover(self, node: str) -> None:
        if node not in self._recovering:
            self._recovering[node] = asyncio.create_task(self._propose_recovery(node))

    async def _propose_recovery(self, node: str) -> None:
        try:
            await self.replica.propose(RecoverNode(node=node), actor=f"node/{node}")
        except (LogError, ReplicaStopped) as error:
            _log.warning("recovery not recorded: %s", error, extra={"node_id": node})
        finally:
            del self._recovering[node]


def _is_silent(node: Node) -> bool:
    return node.state is NodeState.DEGRADED and node.degrade_cause is DegradeCause.SILENCE
