"""When to plan, and what becomes of a plan.

The first change that may let something start begins a cycle immediately; further ones are gathered, the longer the more a cycle
costs and the busier the server is, up to the merge time. Placements are proposals: what no longer holds is counted and tried again in a later cycle.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.loop import Alarm, keep_turning, rest_by_load
from lattice.control.services.replacing import Replacing
from lattice.control.settings import seconds_setting
from lattice.control.work.predictions import Predictions
from lattice.control.work.wanted_images import NOTHING_WANTED, Wanted
from lattice.core.cycle import Cycle, commands
from lattice.core.machine.commands import Envelope
from lattice.core.machine.events import (
    AllocationEnded,
    AllocationHeld,
    AllocationReleased,
    AllocationRequeued,
    AllocationStaged,
    AllocationSubmitted,
    AllocationUpdated,
    AnyEvent,
    EvictionChanged,
    EvictionEnded,
    InstancesWanted,
    NodeLeft,
    NodeMeasured,
    NodeMoved,
    NodeRegistered,
    NodeSpecified,
    ProjectSet,
    RecordDeleted,
    ReservationDeleted,
    ReservationSet,
    SettingSet,
    TaskGroupHeld,
    TaskGroupSubmitted,
    TasksCancelled,
    TasksUnblocked,
    TenantSet,
    VclusterSet,
    WaitChanged,
)
from lattice.core.machine.outcomes import Accepted, Outcome
from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.nodes.at_hand import NO_SETS, GpuSets
from lattice.core.model.nodes.fitness import GpuFitness
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.budgets import Remaining
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import QUEUED, Allocation, Hold, TaskGroup
from lattice.core.scheduler.plan import arrange, plan
from lattice.core.scheduler.proposals import Explanation, Placement, Plan
from lattice.core.scheduler.score.budget import Use, uses
from lattice.core.scheduler.score.score import score
from lattice.core.scheduler.tables.snapshot import Snapshot
from lattice.ports.clock import Clock
from lattice.ports.nodes.conformance import NO_STANDING, ConformanceStatus
from lattice.ports.quorum.replica import Replica
from lattice.ports.scheduling import CycleReport, Outlook, Prediction, SchedulingStatus, VclusterCycle

_log = logging.getLogger(__name__)

ACTOR = "scheduler"
FAILED = "the scheduler's last cycle failed; an administrator finds the cause in `lattice admin scheduler status`"
# What may let something start, or change why it waits.
_WAKING = (
    AllocationSubmitted,
    AllocationEnded,
    TaskGroupSubmitted,
    NodeMoved,
    NodeLeft,
    InstancesWanted,
    AllocationRequeued,
    AllocationReleased,
    AllocationHeld,
    AllocationUpdated,
    TaskGroupHeld,
    TasksCancelled,
    WaitChanged,
    TasksUnblocked,
    AllocationStaged,
    NodeRegistered,
    NodeSpecified,
    NodeMeasured,
    TenantSet,
    ProjectSet,
    VclusterSet,
    ReservationSet,
    ReservationDeleted,
    RecordDeleted,
    SettingSet,
    EvictionChanged,
    EvictionEnded,
)
# What never makes room for anything.
_ARRIVING = (AllocationSubmitted, TaskGroupSubmitted)
_OF_NODES = (NodeMoved, NodeRegistered, NodeSpecified, NodeMeasured)
_WAKING_AN_EMPTY_QUEUE = tuple(kind for kind in _WAKING if kind not in _OF_NODES)
# A plan this small is made on the event loop: handing it to a thread would cost more than it takes.
_SMALL_PLAN_S = 0.002
_SMALL_QUEUE = 2000
_SMALL_CLUSTER = 200
# One that ends leaves little idle where many run, so the next plan may wait until more have ended; a plan for each costs more than that.
_SHARES_PER_REST = 4


class SchedulingSettings(Struct, frozen=True, kw_only=True):
    cycle_interval_s: float = 5.0
    merge_s: float = 0.05


class Scheduling:
    """Implements `SchedulingView`.

    `on_cycle` gets the report of every cycle; `energy_price` gives the normalised price of a moment.
    """

    def __init__(
        self,
        replica: Replica,
        observations: Observations,
        clock: Clock,
        settings: SchedulingSettings,
        on_cycle: Callable[[CycleReport], None] = lambda report: None,
        energy_price: Callable[[int], float | None] = lambda now: None,
        standing: Callable[[], ConformanceStatus] = lambda: NO_STANDING,
        gpu_fitness: Callable[[], Mapping[tuple[str, int], GpuFitness]] = dict,
        data_readiness: Callable[[], Mapping[int, float]] = dict,
        checkpoint_minutes: Callable[[], Mapping[int, float]] = dict,
        budgets: Callable[[], Mapping[str, Remaining]] = dict,
        congestion: Callable[[], float | None] = lambda: None,
        storage_gbps: Callable[[], Mapping[int, float]] = dict,
        gpu_use: Callable[[], Mapping[int, float]] = dict,
        wanted_images: Callable[[Iterable[int]], Wanted] = lambda numbers: NOTHING_WANTED,
        gpu_sets: Callable[[], GpuSets] = lambda: NO_SETS,
    ) -> None:
        self._replica = replica
        self._observations = observations
        self._clock = clock
        self._settings = settings
        self._on_cycle = on_cycle
        self._energy_price = energy_price
        self._standing = standing
        self._gpu_fitness = gpu_fitness
        self._data_readiness = data_readiness
        self._checkpoint_minutes = checkpoint_minutes
        self._budgets = budgets
        self._congestion = congestion
        self._storage_gbps = storage_gbps
        self._gpu_use = gpu_use
        self._wanted_images = wanted_images
        self._gpu_sets = gpu_sets
        self._cycle = Cycle()
        self._replacing = Replacing()
        self._alarm = Alarm()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="plan")
        self._plan: Plan | None = None
        self._predictions = Predictions()
        self._plan_s = 1.0
        self._cycle_s = 0.0
        self._shares = 0  # shares of nodes that are held since the last plan, its own placements included
        self._scoring_s = 0.0
        self._is_full = False  # as far as the last plan knew, and no node changed since
        self._ring_later: asyncio.TimerHandle | None = None
        self._status = SchedulingStatus()
        self.stale = 0
        self.reset()
        replica.subscribe(self._note)

    def reset(self) -> None:
        """Takes the whole state over; for the start, and when the state was replaced."""
        self._cycle.load(self._replica.state)
        self._replacing.load(self._replica.state)
        self._alarm.ring()

    def node_opened(self, node: str) -> None:
        """The node takes orders from now on."""
        self._is_full = False
        if self._is_anybody_waiting():
            self._alarm.ring()

    def wake(self) -> None:
        """Something changed that a plan looks at and the log does not know of."""
        if self._is_anybody_waiting():
            self._alarm.ring()

    def reason_for(self, number: int) -> str:
        if self._status.last_error:
            return FAILED
        explanation = None if self._plan is None else self._plan.explain(number)
        return "" if explanation is None else explanation.reason

    def behind(self) -> frozenset[int]:
        return frozenset() if self._plan is None or self._status.last_error else self._plan.explanations.behind_others()

    def outlook(self, number: int) -> Outlook | None:
        explanation = None if self._plan is None else self._plan.explain(number)
        return None if explanation is None else _outlook(explanation)

    def predictions(self, number: int) -> tuple[Prediction, ...]:
        return self._predictions.of(number)

    def candidates(self, number: int) -> Candidates | None:
        return None if self._plan is None else self._plan.candidates(number)

    def queue(self) -> list[int]:
        return [] if self._plan is None else list(self._plan.explanations)

    async def predict(self, record: Allocation | TaskGroup) -> Outlook:
        snapshot = self._cycle.snapshot_with(record, self._observations)
        now = self._clock.now_ms()
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._executor, plan, snapshot, self._cycle.profiles, now)
        last = record.number + (record.size if isinstance(record, TaskGroup) else 0)
        for placement in made.placements:
            if record.number <= placement.number <= last:
                nodes = tuple(share.node for share in placement.shares)
                return Outlook(predicted_start=now, predicted_nodes=nodes, starts_now=True)
        explanation = made.explain(record.number)
        if explanation is None:
            return Outlook()
        return replace(_outlook(explanation), candidates=made.candidates(record.number))

    def status(self) -> SchedulingStatus:
        return self._status

    async def run(self) -> None:
        try:
            await keep_turning("scheduling", self._turn)
        finally:
            self._executor.shutdown(wait=False)

    async def _turn(self) -> None:
        await self._alarm.wait(self._longest_wait_s())
        try:
            await self.run_cycle()
        except Exception as error:
            self._note_failure(error)
            raise
        await rest_by_load(self._cycle_s, self._settings.merge_s, least=self._shares // _SHARES_PER_REST)

    def _longest_wait_s(self) -> float:
        interval_s = seconds_setting(self._replica.state, "scheduler.cycle_interval_s", self._settings.cycle_interval_s)
        if self._plan is None or self._plan.wake_at is None:
            return interval_s
        return min(interval_s, max(0.0, (self._plan.wake_at - self._clock.now_ms()) / 1000))

    def budget_uses(self) -> dict[str, list[Use]]:
        """Of each tenant with a budget, what it has used of each: hours, budget and unit."""
        state, now = self._replica.state, self._clock.now_ms()
        self._cycle.signals = self._signals(now)
        snapshot = self._cycle.snapshot(self._observations)
        found = {name: uses(snapshot, name, now) for name in (*state.tenants, *snapshot.signals.budgets)}
        return {name: used for name, used in found.items() if used}

    async def run_cycle(self) -> int:
        """Plans once and proposes what follows; returns how many placements took effect."""
        if self._ring_later is not None:
            self._ring_later.cancel()
            self._ring_later = None
        started = self._clock.monotonic_s()
        now = self._clock.now_ms()
        self._cycle.signals = signals = self._signals(now)
        waiting = self._replacing.proposals(self._replica.state, self._observations.connected(), signals.excluded)
        if waiting:
            await self._replica.propose_many(waiting, ACTOR)
        based_on = self._replica.applied_index
        snapshot = self._cycle.snapshot(self._observations)
        made = await self._planned(snapshot, now)
        self._plan = made
        self._cycle.remember(made)
        planned_s = self._clock.monotonic_s() - started
        outcomes: Sequence[Outcome] = ()
        if made.placements or made.takings:
            outcomes = await self._replica.propose_many(commands(made), ACTOR, based_on=based_on)
        self._predictions.forget(self._no_longer_waiting(made.placements, outcomes))
        self._predictions.note(now, made.reservations)
        report = _report(planned_s, self._scoring_s, snapshot, made.placements, outcomes[: len(made.placements)])
        self._is_full = made.is_full and report.placed == len(made.placements)
        self._shares = len(snapshot.held) + report.placed
        self._note_cycle(report)
        _log.debug("a cycle of %.1f ms considered %d and started %d", planned_s * 1000, made.considered, report.placed)
        return report.placed

    def _no_longer_waiting(self, placements: Iterable[Placement], outcomes: Iterable[Outcome]) -> Iterator[int]:
        """What was placed, and the groups whose next task is now another one."""
        for placement, outcome in zip(placements, outcomes, strict=False):
            if not isinstance(outcome, Accepted):
                continue
            yield placement.number
            record = self._replica.state.allocations.get(placement.number)
            if record is not None and record.group:
                yield record.group

    def _signals(self, now: int) -> Signals:
        known, wanted = self._standing(), self._wanted_images(self._cycle.with_images())
        return Signals(
            energy_price=self._energy_price(now),
            congestion=self._congestion(),
            storage_gbps=self._storage_gbps() if self._limits_storage() else {},
            gpu_use=self._gpu_use(),
            fingerprints=known.fingerprints,
            drifted=known.drifted,
            excluded=known.excluded,
            gpu_fitness=self._gpu_fitness(),
            data_readiness=self._data_readiness(),
            checkpoint_minutes=self._checkpoint_minutes(),
            budgets=self._budgets(),
            images=wanted.images,
            cached=wanted.cached,
            gpu_sets=self._gpu_sets(),
        )

    def _limits_storage(self) -> bool:
        return float(setting_value(self._replica.state.settings, "scheduler.storage_bandwidth_gbps")) > 0

    async def _planned(self, snapshot: Snapshot, now: int) -> Plan:
        is_small = len(snapshot.queue.number) <= _SMALL_QUEUE and len(snapshot.nodes.ids) <= _SMALL_CLUSTER
        started = self._clock.monotonic_s()
        if is_small and self._plan_s <= _SMALL_PLAN_S:
            made = self._scored_plan(snapshot, now)
        else:
            loop = asyncio.get_running_loop()
            made = await loop.run_in_executor(self._executor, self._scored_plan, snapshot, now)
        self._plan_s = self._clock.monotonic_s() - started
        return made

    def _scored_plan(self, snapshot: Snapshot, now: int) -> Plan:
        """Runs in the executor's only thread, or on the event loop while that thread has nothing to plan."""
        started = self._clock.monotonic_s()
        scores = score(snapshot, self._cycle.profiles, now)
        self._scoring_s = self._clock.monotonic_s() - started
        return arrange(snapshot, scores, now)

    def _note_cycle(self, report: CycleReport) -> None:
        self._cycle_s = report.seconds
        self.stale += report.stale
        self._status = SchedulingStatus(
            cycles=self._status.cycles + 1,
            last_cycle_at=self._clock.now_ms(),
            last_cycle_ms=report.seconds * 1000,
            last_placements=report.placed,
            placements=self._status.placements + report.placed,
            failed_cycles=self._status.failed_cycles,
        )
        self._on_cycle(report)

    def _note_failure(self, error: Exception) -> None:
        """Drop the previous explanations: no client is looking at the queue."""
        failed, text = self._status.failed_cycles + 1, f"{type(error).__name__}: {error}"
        self._status = replace(self._status, failed_cycles=failed, last_error=text)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        if not events:
            return
        self._cycle.note(self._replica.state, events)
        self._replacing.note(self._replica.state, events)
        # A node that came since the last plan may have room: the next submission does not wait for others.
        if self._is_full and any(isinstance(event, _OF_NODES) for event in events):
            self._is_full = False
        # Ten thousand nodes that come up beside an empty queue need no ten thousand plans.
        waking = _WAKING if self._is_anybody_waiting() else _WAKING_AN_EMPTY_QUEUE
        ringing = [event for event in events if isinstance(event, waking) and not _cannot_start(event)]
        if ringing and self._is_full and all(isinstance(event, _ARRIVING) for event in ringing):
            self._plan_soon()
        elif ringing:
            self._alarm.ring()

    def _plan_soon(self) -> None:
        """For submissions to a full cluster, which cannot start anyway: one plan for all that come within the merge time."""
        if self._ring_later is None:
            loop = asyncio.get_running_loop()
            self._ring_later = loop.call_later(self._settings.merge_s, self._alarm.ring)

    def _is_anybody_waiting(self) -> bool:
        state = self._replica.state
        return bool(state.groups or self._replacing.numbers) or not QUEUED.isdisjoint(state.state_counts)


def _cannot_start(event: AnyEvent) -> bool:
    """Whether it submits work that something else has to happen to first: a release, or the end of other work. That wakes, too."""
    match event:
        case AllocationSubmitted():
            return event.allocation.hold is not Hold.NONE or bool(event.allocation.waits_for)
        case TaskGroupSubmitted():
            return event.group.template.hold is not Hold.NONE or not event.group.startable
        case _:
            return False


def _report(
    seconds: float,
    scoring_s: float,
    snapshot: Snapshot,
    placements: Iterable[Placement],
    outcomes: Iterable[Outcome],
) -> CycleReport:
    queued = snapshot.waiting()
    accepted: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    backfilled: Counter[str] = Counter()
    for placement, outcome in zip(placements, outcomes, strict=True):
        if not isinstance(outcome, Accepted):
            rejected[placement.vcluster] += 1
            continue
        accepted[placement.vcluster] += 1
        backfilled[placement.vcluster] += placement.is_backfill
    vclusters = {
        name: VclusterCycle(
            waiting=max(0, queued.get(name, 0) - accepted[name]),
            accepted=accepted[name],
            rejected=rejected[name],
            backfilled=backfilled[name],
        )
        for name in dict.fromkeys([*snapshot.vclusters, *queued])
    }
    return CycleReport(seconds=seconds, scoring_s=scoring_s, vclusters=vclusters, took_part=frozenset(queued))


def _outlook(explanation: Explanation) -> Outlook:
    return Outlook(
        reason=explanation.reason,
        scores=dict(explanation.scores),
        penalty=explanation.penalty,
        ahead=explanation.rank,
        predicted_start=explanation.predicted_start,
        predicted_nodes=explanation.predicted_nodes,
        images=explanation.images,
    )
