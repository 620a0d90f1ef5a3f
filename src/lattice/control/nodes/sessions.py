"""Sessions of the agents: Register, Welcome, Confirmed, then reports and heartbeats.

What holds: a node is confirmed only after its agent ended every run that the state does not want, and after the runs that the
state believed in and the agent does not know were given up. A report is acknowledged when it was committed. Heartbeats
never reach the log; only the return of a Degraded node does.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.collectors.tree import CollectorTree
from lattice.control.nodes.admission import credentials_refusal
from lattice.control.nodes.at_hand import NodesAtHand
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.inventories import Inventories
from lattice.control.nodes.session_table import SessionTable
from lattice.control.nodes.timers import NodeTimers
from lattice.control.steps.registry import StepRegistry
from lattice.control.telemetry.reported import ReportedFigures
from lattice.control.work.runs import is_wanted, running_runs, strange_runs, wanted_runs
from lattice.core.machine.commands import ConfirmNode, EndPart, Envelope, LosePart, RegisterNode, ReportPart, StartPart
from lattice.core.machine.events import AnyEvent, NodeJudged
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.nodes.admission import AdmissionStatus
from lattice.core.model.nodes.at_hand import AtHand
from lattice.core.model.nodes.health import HealthReport, clean_text
from lattice.core.model.nodes.nodes import DownCause, NodeState
from lattice.core.model.nodes.observations import Beat, Observations
from lattice.core.model.nodes.readiness import Standing
from lattice.core.model.work.allocations import INSTANCE_SHIFT, Cause, PartPhase
from lattice.core.model.work.exposure import MAX_EXPOSED, MAX_PORT, is_label
from lattice.core.model.work.submissions import submission_of
from lattice.core.model.work.usage import NO_USAGE, SINCE_LEVEL
from lattice.ports.clock import Clock, SystemClock
from lattice.ports.nodes.agents import (
    AgentLinks,
    EndCause,
    Greeting,
    Phase,
    Readiness,
    Registration,
    RegistrationRefused,
    Report,
    RunKey,
    StartProgress,
    StepReport,
    StopOrder,
)
from lattice.ports.nodes.checkpoints import CheckpointReport
from lattice.ports.nodes.collecting import Share
from lattice.ports.nodes.telemetry import NodeAlert, NodeFigures
from lattice.ports.quorum.replica import Replica

_log = logging.getLogger(__name__)


class SessionSettings(Struct, frozen=True, kw_only=True):
    server_name: str = "server"
    epoch: int = 0  # of the log; agents of a later one are refused


@dataclass
class AgentSessions:
    """Implements `AgentSink`: one session per node, the newest, in `table`."""

    replica: Replica
    links: AgentLinks
    observations: Observations
    clock: Clock
    settings: SessionSettings
    timers: NodeTimers
    table: SessionTable
    steps: StepRegistry
    collectors: CollectorTree
    health: HealthRegistry
    inventories: Inventories
    on_opened: Callable[[str], None]
    on_progress: Callable[[RunKey], None] = lambda _: None
    on_copies: Callable[[str, RunKey], None] = lambda node, key: None
    on_checkpoint: Callable[[str, CheckpointReport], None] = lambda node, report: None
    figures: ReportedFigures | None = None
    known_at_hand: NodesAtHand = field(default_factory=NodesAtHand)
    on_alerts: Callable[[str, list[NodeAlert]], None] = lambda node, alerts: None
    wall_ms: Callable[[], int] = SystemClock().now_ms  # by which nodes set their clocks, whatever the log's time is

    @property
    def counts(self) -> Counter[str]:
        return self.table.counts

    async def register(self, registration: Registration) -> Greeting:
        node = registration.node_id
        self._refuse_later_epoch(registration)
        refusal = credentials_refusal(self.replica.state, node, registration.issued_at)
        if refusal is not None:
            self.counts["revoked_agents"] += 1
            raise RegistrationRefused(refusal)
        session = self.table.begin(node, registration.collector_address, registration.metrics_address)
        self.observations.leave(node)
        self.collectors.closed(node)
        self.health.begin(node)
        self.known_at_hand.forget(node)
        known_as = self.replica.state.nodes.get(node)
        if known_as is not None and known_as.boot_id != registration.boot_id:
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
        if self.table.newest(node) is not session:
            raise RegistrationRefused(f"a newer stream of node {node} was first")
        state = self.replica.state
        running = running_runs(state, node)
        strange = strange_runs(registration, running, self.settings.epoch)
        known = frozenset(run.key for run in registration.runs) - strange
        session.missing = tuple(key for key in running if key not in known)
        self.steps.registered(node, registration.steps, registration.containers)
        self.observations.greet(node, self.clock.monotonic_s(), registration.process)
        self.observations.protocols[node] = registration.protocol.version
        self.counts["registrations"] += 1
        session.interval_s = self.table.beats_every_s()
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
        self.replica.subscribe(self._note, of=(NodeJudged,))

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        """A node whose admission changed registers again, if it still may."""
        for event in events:
            if isinstance(event, NodeJudged) and event.admission.standing is not AdmissionStatus.WAITING:
                node, session = event.admission.node, self.table.newest(event.admission.node)
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
        current = self.table.current(node, session)
        if current is None:
            return False
        self.observations.touch(node, self.clock.monotonic_s())
        lost = [LosePart(number=key.number, run=key.run, node=node) for key in current.missing]
        if lost:
            self.counts["lost_parts"] += len(lost)
            _log.warning("node does not know %d of its runs", len(lost), extra={"node_id": node})
        # A node that boots stays Booting until its checks pass; the health loop confirms it then.
        is_held = not self.health.is_fit(node) and self.replica.state.nodes[node].state is NodeState.BOOTING
        await self.replica.propose_many([*lost, *([] if is_held else [ConfirmNode(node=node)])], _actor(node))
        if self.table.current(node, session) is None:
            return False
        record = self.replica.state.nodes[node]
        if record.state is NodeState.DOWN and record.down_cause is DownCause.SILENCE:
            # Given up between Register and Confirmed: only another registration brings it back.
            self.links.close(node, "given up meanwhile; register again")
            return False
        current.is_confirmed = True
        return True

    def opened(self, node: str, session: int) -> None:
        current = self.table.current(node, session)
        if current is not None:
            _log.info("agent connected", extra={"node_id": node})
            self.observations.admit(node)
            self.health.opened(node)
            self.collectors.opened(node, session, current.collector_address, current.interval_s)
            self.on_opened(node)

    async def report(self, node: str, session: int, reports: Sequence[Report]) -> None:
        """Commits the reports, those of a replaced session too: what they say is true of the node all the same."""
        if self.table.current(node, session) is not None:
            self.observations.touch(node, self.clock.monotonic_s())
        reports = [report for report in reports if self._is_meant(report)]
        level = self.replica.state.level
        commands = [_command(node, report, level) for report in reports]
        await self.replica.propose_many(commands, _actor(node))
        # What has ended within the same batch is gone already.
        ended = {(report.key, report.instance) for report in reports if report.phase is Phase.ENDED}
        for report in reports:
            if report.phase is Phase.RUNNING and (report.key, report.instance) not in ended:
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
        if self.table.current(node, session) is not None:
            self.inventories.take(node, document, fingerprint)

    def health_report(self, node: str, session: int, report: HealthReport) -> int:
        if self.table.current(node, session) is not None:
            self.health.take(node, report)
        return self.wall_ms()

    def start_progress(self, node: str, session: int, progress: StartProgress) -> None:
        key = progress.key
        if self.table.current(node, session) is None or not is_wanted(self.replica.state, node, key):
            return
        if progress.copies:
            self.on_copies(node, key)
            return
        self.observations.note_start(key.number, key.run, node, clean_text(progress.text))
        self.on_progress(key)

    def checkpoint_report(self, node: str, session: int, report: CheckpointReport) -> None:
        self.on_checkpoint(node, report)

    def readiness(self, node: str, session: int, told: Readiness) -> None:
        key = told.key
        if self.table.current(node, session) is None or not is_wanted(self.replica.state, node, key):
            return
        standing = Standing(run=key.run, instance=told.instance, ready=told.ready, text=clean_text(told.text))
        self.observations.readiness.note(key.number, node, standing)

    def run_figures(self, node: str, session: int, figures: NodeFigures) -> None:
        if self.table.current(node, session) is None or self.figures is None:
            return
        # Services are scaled by them: a node speaks for the runs that it has, and for no others.
        record = self.replica.state.nodes.get(node)
        held = frozenset(record.holders() if record is not None else ())
        own = tuple(each for each in figures.runs if each.key is None or each.key.number in held)
        self.figures.take(node, replace(figures, runs=own))
        if figures.alerts:
            self.on_alerts(node, [each for each in figures.alerts if each.key is None or each.key.number in held])

    def at_hand(self, node: str, session: int, told: AtHand) -> None:
        if self.table.current(node, session) is not None:
            self.known_at_hand.take(node, told)

    def step_report(self, node: str, session: int, report: StepReport) -> None:
        self.steps.report(node, report)

    def beat(self, node: str, session: int, beat: Beat) -> bool:
        if self.table.current(node, session) is not None:
            self.collectors.heard_directly(node)
        return self.table.hear(node, session, beat)

    def collected(self, node: str, session: int, shares: Sequence[Share]) -> bool:
        if self.table.current(node, session) is None:
            return True
        return self.collectors.take(node, shares)

    def closed(self, node: str, session: int) -> None:
        if self.table.current(node, session) is None:
            return
        self.table.end(node)
        self.observations.leave(node)
        self.collectors.closed(node)
        _log.info("agent disconnected", extra={"node_id": node})

    def _left(self, node: str) -> None:
        if self.collectors is not None:
            self.collectors.closed(node)


def _actor(node: str) -> str:
    return f"node/{node}"


MAX_SEQ = (1 << INSTANCE_SHIFT) - 1
_PHASES = {  # partial: the other phases are not reported
    Phase.RUNNING: PartPhase.RUNNING,
    Phase.RESTARTING: PartPhase.RESTARTING,
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
    EndCause.PROBE: Cause.PROBE,
}


def _command(node: str, report: Report, level: int) -> EndPart | StartPart | ReportPart:
    """What a log of this level takes of the report."""
    told = _told(node, report)
    if level >= SINCE_LEVEL and (ports := _ports(report)):
        return StartPart(report=told, ports=ports)
    if report.cause is not None and report.usage != NO_USAGE and level >= SINCE_LEVEL:
        return EndPart(report=told, usage=report.usage)
    return told


def _told(node: str, report: Report) -> ReportPart:
    cause = report.cause
    return ReportPart(
        number=report.key.number,
        run=report.key.run,
        node=node,
        seq=(report.instance << INSTANCE_SHIFT) + min(report.seq, MAX_SEQ),
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


def _ports(report: Report) -> tuple[tuple[str, int], ...]:
    """Only what can be one: a node may say anything."""
    told = report.ports[:MAX_EXPOSED] if report.phase is Phase.RUNNING else ()
    return tuple((each.name, each.port) for each in told if is_label(each.name) and 0 < each.port <= MAX_PORT)
