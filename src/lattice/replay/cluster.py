"""A whole cluster in simulated time: the same state machine, cycle and plan as in production, nodes that obey at once.

At one instant come all ends, then all arrivals, then one cycle. Runs start in the instant in which they
are placed and end after the time that the scenario, not the scheduler, knows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from lattice.core.cycle import Cycle, commands
from lattice.core.machine.apply import apply
from lattice.core.machine.commands import (
    AnyCommand,
    ConfirmNode,
    Envelope,
    RegisterNode,
    ReportPart,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.events import AllocationPlaced
from lattice.core.machine.outcomes import Accepted, Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Cause, PartPhase
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
class Scenario:
    """`arrivals` in the order of their time."""

    name: str
    nodes: dict[str, Hardware]
    tenants: tuple[Tenant, ...]
    vclusters: tuple[Vcluster, ...]
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stay:
    """One allocation from submission to end; seconds since the beginning."""

    number: int
    vcluster: str
    tenant: str
    preemption_class: int
    submit_s: int
    start_s: int
    end_s: int
    nodes: int
    node_parts: float  # of whole nodes: a share counts by its CPUs

    @property
    def wait_s(self) -> int:
        return self.start_s - self.submit_s


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
        self._cycle = Cycle(profiles)
        self._clock = clock
        self._scenario = scenario
        self._now_s = 0
        self._run_s: dict[int, int] = {}
        self._ends: list[tuple[int, int]] = []
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
        while arrivals or self._ends or wake_s is not None:
            ahead = [arrivals[-1].at_s] if arrivals else []
            ahead += [self._ends[0][0]] if self._ends else []
            ahead += [wake_s] if wake_s is not None else []
            self._now_s = max(self._now_s, min(ahead))
            while self._ends and self._ends[0][0] <= self._now_s:
                self._end(heappop(self._ends)[1])
            while arrivals and arrivals[-1].at_s <= self._now_s:
                arrival = arrivals.pop()
                self._run_s[self._do(arrival.submission).number] = arrival.run_s
            wake_s = self._schedule()
        return self.stays

    def _schedule(self) -> int | None:
        """One cycle; when the next is due although nothing happens."""
        before = self._clock()
        plan = self._cycle.plan(None, FIRST_DAY_MS + self._now_s * 1000)
        self.cycle_s.append(self._clock() - before)
        for command in commands(plan):
            for event in self._do(command).events:
                if isinstance(event, AllocationPlaced):
                    self._begin(event.number)
        return None if plan.wake_at is None else max(self._now_s + 1, -(-(plan.wake_at - FIRST_DAY_MS) // 1000))

    def _begin(self, number: int) -> None:
        self._report(number, PartPhase.RUNNING, None)
        heappush(self._ends, (self._now_s + self._run_s[number], number))

    def _end(self, number: int) -> None:
        self._report(number, PartPhase.ENDED, Cause.EXIT)
        record = self.state.allocations[number]
        nodes = self.state.nodes
        parts = (1.0 if s.whole else s.cpus / nodes[s.node].hardware.cpus for s in record.shares)
        self.stays.append(
            Stay(
                number=number,
                vcluster=record.vcluster,
                tenant=record.tenant,
                preemption_class=record.preemption_class,
                submit_s=(record.submitted_at - FIRST_DAY_MS) // 1000,
                start_s=(record.started_at - FIRST_DAY_MS) // 1000,
                end_s=(record.ended_at - FIRST_DAY_MS) // 1000,
                nodes=len(record.shares),
                node_parts=sum(parts),
            )
        )

    def _report(self, number: int, phase: PartPhase, cause: Cause | None) -> None:
        record = self.state.allocations[number]
        elapsed_s = float(self._run_s[number]) if phase is PartPhase.ENDED else 0.0
        for part in record.parts:
            report = ReportPart(
                number=number,
                run=record.run,
                node=part.node,
                seq=part.seq + 1,
                phase=phase,
                cause=cause,
                elapsed_s=elapsed_s,
            )
            self._do(report)

    def _do(self, command: AnyCommand) -> Accepted:
        at = FIRST_DAY_MS + self._now_s * 1000
        outcome = apply(self.state, Envelope(at=at, command=command, actor=ACTOR))
        if isinstance(outcome, Rejected):
            raise ReplayStuck(f"{self._scenario.name}: {type(command).__name__} refused: {outcome.message}")
        self._cycle.note(self.state, outcome.events)
        return outcome


def node_seconds(stays: Iterable[Stay], first_s: int, last_s: int) -> float:
    """What the stays used of the machine between two moments, in node-seconds."""
    return sum(max(0, min(stay.end_s, last_s) - max(stay.start_s, first_s)) * stay.node_parts for stay in stays)


def percentile(values: Iterable[int], percent: float) -> int:
    """The given percentile; 0 of nothing."""
    ordered = sorted(values)
    place = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(place) - 1)] if ordered else 0
