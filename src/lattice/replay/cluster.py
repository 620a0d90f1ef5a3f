"""A whole cluster in simulated time: the same state machine, cycle and plan as in production, nodes that obey at once.

At one instant come all ends, then all arrivals, then one cycle. Runs start in the instant in which they
are placed and end after the time that the scenario, not the scheduler, knows. Work that is preempted writes a checkpoint first
where the scenario says so, and continues from it; else it begins again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from msgspec import structs

from lattice.core.cycle import Cycle, commands
from lattice.core.machine import events as ev
from lattice.core.machine.apply import apply
from lattice.core.machine.commands import (
    AnyCommand,
    ConfirmNode,
    DropEviction,
    Envelope,
    RaiseLevel,
    RegisterNode,
    ReportCheckpoint,
    ReportPart,
    SetSetting,
    SetTenant,
    SetVcluster,
    StopVictims,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase, StopIntent
from lattice.core.model.work.checkpoints import ROOT, CheckpointPhase
from lattice.core.model.work.evictions import KEEP_MS, Eviction, EvictionReason, VictimPhase
from lattice.core.scheduler.score.profiles import Profile

ACTOR = "replay"
FIRST_DAY_MS = 1_767_225_600_000  # where scenarios begin: 2026-01-01T00:00:00Z


class ReplayStuck(Exception):
    """The state machine refused what the scenario or the plan wants; the text says what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """A submission `at_s` seconds after the beginning, and how long it will run."""

    at_s: int
    run_s: int
    submission: SubmitAllocation


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointCosts:
    """Of work that says it writes checkpoints: seconds to write one, and to begin from one."""

    write_s: int = 60
    restart_s: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """`arrivals` in the order of their time. `moves` = work may be preempted and nodes lent; `settings` are those of the cluster."""

    name: str
    nodes: dict[str, Hardware]
    tenants: tuple[Tenant, ...]
    vclusters: tuple[Vcluster, ...]
    arrivals: tuple[Arrival, ...]
    moves: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    checkpoints: CheckpointCosts = CheckpointCosts()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stay:
    """One allocation from submission to end; seconds since the beginning. `start_s` is that of its first run."""

    number: int
    vcluster: str
    tenant: str
    preemption_class: int
    submit_s: int
    start_s: int
    end_s: int
    nodes: int
    node_parts: float  # of whole nodes: a share counts by its CPUs
    preempted: int = 0

    @property
    def wait_s(self) -> int:
        return self.start_s - self.submit_s


@dataclass(kw_only=True, slots=True)
class Moves:
    """What was taken and lent in a replay, in node-seconds where it is time."""

    preemptions: int = 0  # for work of a higher class
    returned: int = 0  # allocations that gave borrowed nodes back
    lost_s: float = 0.0  # done by runs that were stopped, and not saved
    used_s: float = 0.0  # by all runs
    borrowed_s: float = 0.0  # of it on nodes of other vClusters
    checkpoints: int = 0  # asked for before a stop


class _Due(NamedTuple):
    """Something that happens at a moment; of several at one moment the first decided comes first."""

    at_s: int
    order: int
    what: str  # end, stop, saved, warned, kept
    number: int
    run: int


class Cluster:
    """Replays one scenario; `clock` is asked only for how long cycles took."""

    def __init__(
        self,
        scenario: Scenario,
        clock: Callable[[], float] = lambda: 0.0,
        profiles: Mapping[str, Profile] | None = None,
    ) -> None:
        self.state = State.empty()
        self.stays: list[Stay] = []
        self.cycle_s: list[float] = []
        self.moves = Moves()
        self._cycle = Cycle(profiles)
        self._clock = clock
        self._scenario = scenario
        self._now_s = 0
        self._run_s: dict[int, int] = {}  # what is left to do, by number
        self._saved_s: dict[int, int] = {}  # of the present run: what a checkpoint holds
        self._first_s: dict[int, int] = {}  # when the first run began
        self._due: list[_Due] = []
        self._order = 0
        if scenario.moves:
            self._do(RaiseLevel(level=2))
            self._do(SetSetting(key=ROOT, value="/checkpoints"))
        for key, value in scenario.settings.items():
            self._do(SetSetting(key=key, value=value))
        for tenant in scenario.tenants:
            self._do(SetTenant(tenant=tenant, create=True))
        for node, hardware in scenario.nodes.items():
            self._do(RegisterNode(node=node, hardware=hardware))
            self._do(ConfirmNode(node=node))
        for vcluster in scenario.vclusters:
            self._do(SetVcluster(vcluster=vcluster, create=True))

    def run(self) -> list[Stay]:
        """All stays, in the order of their ends; raises ReplayStuck."""
        arrivals = list(reversed(self._scenario.arrivals))
        wake_s: int | None = None
        while arrivals or self._due or wake_s is not None:
            ahead = [arrivals[-1].at_s] if arrivals else []
            ahead += [self._due[0].at_s] if self._due else []
            ahead += [wake_s] if wake_s is not None else []
            self._now_s = max(self._now_s, min(ahead))
            while self._due and self._due[0].at_s <= self._now_s:
                self._happen(heappop(self._due))
            while arrivals and arrivals[-1].at_s <= self._now_s:
                arrival = arrivals.pop()
                self._run_s[self._do(arrival.submission).number] = arrival.run_s
            wake_s = self._schedule()
        return self.stays

    def _schedule(self) -> int | None:
        """One cycle; when the next is due although nothing happens."""
        before = self._clock()
        plan = self._cycle.plan(None, self._now_ms)
        self.cycle_s.append(self._clock() - before)
        for command in commands(plan):
            self._do(command)
        return None if plan.wake_at is None else max(self._now_s + 1, -(-(plan.wake_at - FIRST_DAY_MS) // 1000))

    @property
    def _now_ms(self) -> int:
        return FIRST_DAY_MS + self._now_s * 1000

    def _later(self, after_s: int, what: str, number: int, run: int = 0) -> None:
        self._order += 1
        heappush(self._due, _Due(self._now_s + after_s, self._order, what, number, run))

    def _happen(self, due: _Due) -> None:
        if due.what == "warned":
            self._try(StopVictims(number=due.number))
        elif due.what == "kept":
            self._try(DropEviction(number=due.number))
        else:
            record = self.state.allocations[due.number]
            if record.run != due.run or not record.is_holding:
                return  # another run of it, or none: this one was stopped
            if due.what == "saved":
                self._save(record)
            else:
                self._finish(record, is_stopped=due.what == "stop")

    def _begin(self, number: int) -> None:
        record = self.state.allocations[number]
        self._report(record, PartPhase.RUNNING)
        self._first_s.setdefault(number, self._now_s)
        self._saved_s[number] = 0
        restart_s = self._scenario.checkpoints.restart_s if record.checkpoints.newest is not None else 0
        self._later(restart_s + self._run_s[number], "end", number, record.run)

    def _save(self, record: Allocation) -> None:
        """The open checkpoint of the work is written, by all of its nodes at once."""
        checkpoint = record.checkpoints.open
        if checkpoint is None:
            return
        elapsed_s = self._now_s - (checkpoint.asked_at - FIRST_DAY_MS) / 1000
        self._saved_s[record.number] = (checkpoint.asked_at - record.started_at) // 1000
        done = ReportCheckpoint(
            number=record.number,
            run=record.run,
            n=checkpoint.n,
            node=record.nodes[0],
            phase=CheckpointPhase.DONE,
            elapsed_s=elapsed_s,
        )
        for node in record.nodes:
            self._do(structs.replace(done, node=node))
        self._do(structs.replace(done, phase=CheckpointPhase.SEALED))

    def _finish(self, record: Allocation, *, is_stopped: bool) -> None:
        ran_s = self._now_s - (record.started_at - FIRST_DAY_MS) // 1000
        own = frozenset(self.state.vclusters[record.vcluster].nodes)
        foreign = sum(node not in own for node in record.nodes) if own else 0
        self.moves.used_s += ran_s * len(record.nodes)
        self.moves.borrowed_s += ran_s * foreign
        self._report(record, PartPhase.ENDED, Cause.SIGNAL if is_stopped else Cause.EXIT, stopped=is_stopped)
        if is_stopped:
            saved_s = min(self._saved_s[record.number], self._run_s[record.number])
            self._run_s[record.number] -= saved_s
            self.moves.lost_s += (ran_s - saved_s) * len(record.nodes)
        else:
            self._leave(self.state.allocations[record.number])

    def _leave(self, record: Allocation) -> None:
        nodes = self.state.nodes
        parts = (1.0 if s.whole else s.cpus / nodes[s.node].hardware.cpus for s in record.shares)
        self.stays.append(
            Stay(
                number=record.number,
                vcluster=record.vcluster,
                tenant=record.tenant,
                preemption_class=record.preemption_class,
                submit_s=(record.submitted_at - FIRST_DAY_MS) // 1000,
                start_s=self._first_s[record.number],
                end_s=(record.ended_at - FIRST_DAY_MS) // 1000,
                nodes=len(record.shares),
                node_parts=sum(parts),
                preempted=record.preempted,
            )
        )

    def _report(
        self, record: Allocation, phase: PartPhase, cause: Cause | None = None, *, stopped: bool = False
    ) -> None:
        elapsed_s = (self._now_ms - record.started_at) / 1000 if phase is PartPhase.ENDED else 0.0
        for part in record.parts:
            report = ReportPart(
                number=record.number,
                run=record.run,
                node=part.node,
                seq=part.seq + 1,
                phase=phase,
                cause=cause,
                signal=15 if stopped else 0,
                stopped=stopped,
                elapsed_s=elapsed_s,
            )
            self._do(report)

    def _do(self, command: AnyCommand) -> Accepted:
        outcome = self._try(command)
        if isinstance(outcome, Rejected):
            raise ReplayStuck(f"{self._scenario.name}: {type(command).__name__} refused: {outcome.message}")
        return outcome

    def _try(self, command: AnyCommand) -> Outcome:
        outcome = apply(self.state, Envelope(at=self._now_ms, command=command, actor=ACTOR))
        if isinstance(outcome, Accepted):
            self._cycle.note(self.state, outcome.events)
            for event in outcome.events:
                self._obey(event)
        return outcome

    def _obey(self, event: ev.AnyEvent) -> None:
        """What nodes and the leader's loops do about an event."""
        match event:
            case ev.AllocationPlaced():
                self._begin(event.number)
            case ev.CheckpointRequested():
                self.moves.checkpoints += 1
                run = self.state.allocations[event.number].run
                self._later(self._scenario.checkpoints.write_s, "saved", event.number, run)
            case ev.AllocationStopping() if event.intent is StopIntent.PREEMPT:
                self._later(0, "stop", event.number, self.state.allocations[event.number].run)
            case ev.EvictionBegan():
                self._count(event.eviction)
                self._watch(event.eviction)
            case ev.EvictionChanged():
                self._watch(event.eviction)
            case _:
                return

    def _count(self, eviction: Eviction) -> None:
        if eviction.reason is EvictionReason.RECLAIM:
            self.moves.returned += len(eviction.victims)
        else:
            self.moves.preemptions += len(eviction.victims)

    def _watch(self, eviction: Eviction) -> None:
        """Warnings that end, and nodes that are kept in vain."""
        for victim in eviction.victims:
            if victim.phase is VictimPhase.WARNED:
                self._later(-(-max(0, victim.due_at - self._now_ms) // 1000), "warned", eviction.number)
        if eviction.freed_at:
            self._later(KEEP_MS // 1000, "kept", eviction.number)


def node_seconds(stays: Iterable[Stay], first_s: int, last_s: int) -> float:
    """What the stays used of the machine between two moments, in node-seconds."""
    return sum(max(0, min(stay.end_s, last_s) - max(stay.start_s, first_s)) * stay.node_parts for stay in stays)


def percentile(values: Iterable[int], percent: float) -> int:
    """The given percentile; 0 of nothing."""
    ordered = sorted(values)
    place = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(place) - 1)] if ordered else 0
