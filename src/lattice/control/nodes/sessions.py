"""Sessions of the agents: Register, Welcome, Confirmed, then reports and heartbeats.

What holds: a node is confirmed only after its agent ended every run that the state does not want, and after the runs that the
state believed in and the agent does not know were given up. A report is acknowledged when it was committed. Heartbeats
never reach the log; only the return of a Degraded node does.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from lattice.control.collectors.tree import INTERVAL, CollectorTree
from lattice.control.heartbeats import Allowance, beats_per_s
from lattice.control.nodes.admission import credentials_refusal
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.inventories import Inventories
from lattice.control.nodes.timers import NodeTimers
from lattice.control.settings import seconds_setting
from lattice.control.steps.registry import StepRegistry
from lattice.control.work.runs import is_wanted, running_runs, strange_runs, wanted_runs
from lattice.core.machine.commands import ConfirmNode, Envelope, LosePart, RecoverNode, RegisterNode, ReportPart
from lattice.core.machine.events import AnyEvent, NodeJudged
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.nodes.admission import AdmissionStatus
from lattice.core.model.nodes.health import HealthReport
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Node, NodeState
from lattice.core.model.nodes.observations import Beat, Observations
from lattice.core.model.work.allocations import Cause, PartPhase
from lattice.core.model.work.submissions import submission_of
from lattice.ports.clock import Clock, SystemClock
from lattice.ports.nodes.agents import (
    AgentLinks,
    EndCause,
    Greeting,
    Phase,
    Registration,
    RegistrationRefused,
    Report,
    RunKey,
    StepReport,
    StopOrder,
)
from lattice.ports.nodes.collecting import Share
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import Replica, ReplicaStopped

_log = logging.getLogger(__name__)

SESSION_BITS = 62


class SessionSettings(Struct, frozen=True, kw_only=True):
    server_name: str = "server"
    epoch: int = 0  # of the log; agents of a later one are refused
    heartbeat_interval_s: float = 10.0


@dataclass(slots=True)
class _Session:
    id: int
    node: str
    allowance: Allowance
    missing: tuple[RunKey, ...] = ()  # running by the state, unknown to the agent when it registered
    collector_address: str = ""
    interval_s: float = 0.0  # as sent in its Welcome
    is_confirmed: bool = False
    running: int | None = None  # live runs, as the newest heartbeat counted them


@dataclass
class AgentSessions:
    """Implements `AgentSink`: one session per node, the newest."""

    replica: Replica
    links: AgentLinks
    observations: Observations
    clock: Clock
    settings: SessionSettings
    timers: NodeTimers
    on_opened: Callable[[str], None]
    steps: StepRegistry
    counts: Counter[str] = field(default_factory=Counter)
    collectors: CollectorTree | None = None
    health: HealthRegistry | None = None
    inventories: Inventories | None = None
    wall_ms: Callable[[], int] = SystemClock().now_ms  # by which nodes set their clocks, whatever the log's time is
    _sessions: dict[str, _Session] = field(default_factory=dict)
    _allowances: dict[str, Allowance] = field(default_factory=dict)
    _recovering: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def register(self, registration: Registration) -> Greeting:
        node = registration.node_id
        self._refuse_later_epoch(registration)
        refusal = credentials_refusal(self.replica.state, node, registration.issued_at)
        if refusal is not None:
            self.counts["revoked_agents"] += 1
            raise RegistrationRefused(refusal)
        # Known to this server and the node alone: it vouches for heartbeats that others carry.
        session = self._sessions[node] = _Session(
            id=1 + secrets.randbits(SESSION_BITS), node=node, allowance=self._allowance(node)
        )
        session.collector_address = registration.collector_address
        self.observations.leave(node)
        self._left(node)
        if self.health is not None:
            self.health.begin(node)
        known_as = self.replica.state.nodes.get(node)
        if self.inventories is not None and known_as is not None and known_as.boot_id != registration.boot_id:
            self.inventories.forget(node)
        command = RegisterNode(
            node=node,
            hardware=registration.hardware,
            address=registration.address,
            boot_id=registration.boot_id,
            agent_version=registration.agent_version,
            figures=registration.figures,
        )
        outcome = await self.replica.propose(command, actor=_actor(node))
        if isinstance(outcome, Rejected):
            raise RegistrationRefused(outcome.message)
        if self._sessions.get(node) is not session:
            raise RegistrationRefused(f"a newer stream of node {node} was first")
        state = self.replica.state
        running = running_runs(state, node)
        strange = strange_runs(registration, running, self.settings.epoch)
        known = frozenset(run.key for run in registration.runs) - strange
        session.missing = tuple(key for key in running if key not in known)
        self.steps.registered(node, registration.steps)
        self.observations.greet(node, self.clock.monotonic_s(), registration.process)
        self.observations.protocols[node] = registration.protocol.version
        self.counts["registrations"] += 1
        session.interval_s = self._interval_s()
        return Greeting(
            session=session.id,
            valid_runs=tuple(key for key in wanted_runs(state, node) if key not in strange),
            epoch=self.settings.epoch,
            heartbeat_interval_s=session.interval_s,
            down_after_s=self.timers.promise_s(node),
            server_name=self.settings.server_name,
            held_by=tuple(key for key in self.steps.held_by(node) if key not in strange),
        )

    def __post_init__(self) -> None:
        self.replica.subscribe(self._note)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        """A node whose admission changed registers again, if it still may."""
        for event in events:
            if isinstance(event, NodeJudged) and event.admission.standing is not AdmissionStatus.WAITING:
                node, session = event.admission.node, self._sessions.get(event.admission.node)
                why = (
                    "admitted"
                    if event.admission.standing is AdmissionStatus.ADMITTED
                    else "its credentials were revoked"
                )
                self.links.close(node, f"{why}; register again")
                if session is not None:
                    self.closed(node, session.id)

    def _refuse_later_epoch(self, registration: Registration) -> None:
        """An agent that has served a later history is not taken back by an earlier one: this server is of the former cluster."""
        own, known = self.settings.epoch, registration.epoch
        if own and known > own:
            self.counts["later_agents"] += 1
            raise RegistrationRefused(
                f"node {registration.node_id} serves a later history of this cluster (epoch {known}); this server has epoch {own}, "
                "which was replaced by a restore: stop it"
            )

    async def confirm(self, node: str, session: int) -> bool:
        current = self._current(node, session)
        if current is None:
            return False
        self.observations.touch(node, self.clock.monotonic_s())
        lost = [LosePart(number=key.number, run=key.run, node=node) for key in current.missing]
        if lost:
            self.counts["lost_parts"] += len(lost)
            _log.warning("node does not know %d of its runs", len(lost), extra={"node_id": node})
        # A node that boots stays Booting until its checks pass; the health loop confirms it then.
        is_fit = self.health is None or self.health.is_fit(node)
        is_held = not is_fit and self.replica.state.nodes[node].state is NodeState.BOOTING
        await self.replica.propose_many([*lost, *([] if is_held else [ConfirmNode(node=node)])], _actor(node))
        if self._current(node, session) is None:
            return False
        record = self.replica.state.nodes[node]
        if record.state is NodeState.DOWN and record.down_cause is DownCause.SILENCE:
            # Given up between Register and Confirmed: only another registration brings it back.
            self.links.close(node, "given up meanwhile; register again")
            return False
        current.is_confirmed = True
        return True

    def opened(self, node: str, session: int) -> None:
        current = self._current(node, session)
        if current is not None:
            _log.info("agent connected", extra={"node_id": node})
            self.observations.admit(node)
            if self.health is not None:
                self.health.opened(node)
            if self.collectors is not None:
                self.collectors.opened(node, session, current.collector_address, current.interval_s)
            self.on_opened(node)

    async def report(self, node: str, session: int, reports: Sequence[Report]) -> None:
        """Commits the reports, those of a replaced session too: what they say is true of the node all the same."""
        if self._current(node, session) is not None:
            self.observations.touch(node, self.clock.monotonic_s())
        reports = [report for report in reports if self._is_meant(report)]
        commands = [_command(node, report) for report in reports]
        await self.replica.propose_many(commands, _actor(node))
        for report in reports:
            if report.phase is Phase.RUNNING:
                self._stop_unwanted(node, report.key)

    def _is_meant(self, report: Report) -> bool:
        """Whether the number means to the node what it means to us: a log that lost its end gives numbers again."""
        record = self.replica.state.allocations.get(report.key.number)
        if not report.submission or record is None or submission_of(record) == report.submission:
            return True
        self.counts["reports_of_others"] += 1
        return False

    def _stop_unwanted(self, node: str, key: RunKey) -> None:
        if is_wanted(self.replica.state, node, key):
            return
        self.counts["unwanted_runs"] += 1
        self.links.send(node, StopOrder(key=key, grace_s=0.0, why="stale"))

    def inventory(self, node: str, session: int, document: bytes, fingerprint: str) -> None:
        if self.inventories is not None and self._current(node, session) is not None:
            self.inventories.take(node, document, fingerprint)

    def health_report(self, node: str, session: int, report: HealthReport) -> int:
        if self.health is not None and self._current(node, session) is not None:
            self.health.take(node, report)
        return self.wall_ms()

    def step_report(self, node: str, session: int, report: StepReport) -> None:
        self.steps.report(node, report)

    def beat(self, node: str, session: int, beat: Beat) -> bool:
        if self.collectors is not None and self._current(node, session) is not None:
            self.collectors.heard_directly(node)
        return self.hear(node, session, beat)

    def collected(self, node: str, session: int, shares: Sequence[Share]) -> bool:
        if self.collectors is None or self._current(node, session) is None:
            return True
        return self.collectors.take(node, shares)

    def hear(self, node: str, session: int, beat: Beat, *, age_s: float = 0.0) -> bool:
        """Notes a heartbeat; `age_s` is how long it was under way through a collector."""
        current = self._current(node, session)
        if current is None:
            self.counts["stale_heartbeats"] += 1
            return True
        if beat.session not in (0, session):
            # No agent mixes up its sessions: this is a replay or a guess.
            self.counts["forged_heartbeats"] += 1
            return True
        return self._hear(current, beat, self.clock.monotonic_s() - age_s)

    def _hear(self, current: _Session, beat: Beat, now: float) -> bool:
        if not self._may_be_heard(current, now):
            self.counts["surplus_heartbeats"] += 1
            return False
        node = current.node
        if not self.observations.hear(node, now, beat):
            self.counts["stale_heartbeats"] += 1
            return True
        self.counts["heartbeats"] += 1
        current.running = beat.running
        if beat.fingerprint and self.inventories is not None:
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
        allowance.per_s = beats_per_s(self._interval_s())
        return allowance

    def _interval_s(self) -> float:
        return seconds_setting(self.replica.state, INTERVAL, self.settings.heartbeat_interval_s)

    def _may_be_heard(self, current: _Session, now: float) -> bool:
        if current.allowance.take(now):
            return True
        # The heartbeat interval may have been shortened since it registered.
        current.allowance.per_s = beats_per_s(self._interval_s())
        return False

    def closed(self, node: str, session: int) -> None:
        if self._current(node, session) is None:
            return
        del self._sessions[node]
        self.observations.leave(node)
        self._left(node)
        _log.info("agent disconnected", extra={"node_id": node})

    def _left(self, node: str) -> None:
        if self.collectors is not None:
            self.collectors.closed(node)

    def running_of(self, node: str) -> int | None:
        """How many live runs the node counted in its last heartbeat; None when it has not said yet."""
        session = self._sessions.get(node)
        return session.running if session is not None and session.is_confirmed else None

    def _current(self, node: str, session: int) -> _Session | None:
        current = self._sessions.get(node)
        return current if current is not None and current.id == session else None

    def _recover(self, node: str) -> None:
        if node not in self._recovering:
            self._recovering[node] = asyncio.create_task(self._propose_recovery(node))

    async def _propose_recovery(self, node: str) -> None:
        try:
            await self.replica.propose(RecoverNode(node=node), actor=_actor(node))
        except (LogError, ReplicaStopped) as error:
            _log.warning("recovery not recorded: %s", error, extra={"node_id": node})
        finally:
            del self._recovering[node]


def _is_silent(node: Node) -> bool:
    return node.state is NodeState.DEGRADED and node.degrade_cause is DegradeCause.SILENCE


def _actor(node: str) -> str:
    return f"node/{node}"


_PHASES = {  # partial: the other phases are not reported
    Phase.RUNNING: PartPhase.RUNNING,
    Phase.ENDED: PartPhase.ENDED,
}
_CAUSES = {
    EndCause.EXIT: Cause.EXIT,
    EndCause.SIGNAL: Cause.SIGNAL,
    EndCause.OOM: Cause.OOM,
    EndCause.WALLTIME: Cause.WALLTIME,
    EndCause.LAUNCH: Cause.LAUNCH,
    EndCause.NODE: Cause.NODE,
    EndCause.STOPPED: None,  # the state knows who ordered it, and why
    EndCause.PROLOGUE: Cause.LAUNCH,
}


def _command(node: str, report: Report) -> ReportPart:
    cause = report.cause if report.phase is Phase.ENDED else None
    return ReportPart(
        number=report.key.number,
        run=report.key.run,
        node=node,
        seq=report.seq,
        phase=_PHASES[report.phase],
        cause=None if cause is None else _CAUSES[cause],
        stopped=cause is EndCause.STOPPED,
        exit_code=report.exit_code,
        signal=report.signal,
        message=report.message,
        cpu_s=report.cpu_s,
        peak_memory_mb=report.peak_memory_mb,
        elapsed_s=report.elapsed_s,
        prologue_failed=cause is EndCause.PROLOGUE or (cause is EndCause.NODE and report.never_ran),
    )
