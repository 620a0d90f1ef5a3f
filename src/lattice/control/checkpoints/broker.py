"""Asks running work for checkpoints when they are worth what they cost (`worth.py`), and says how long one takes.

Owns no truth: what was asked and what came of it is in the log; figures of nodes are this leader's own. A new leader measures
again and asks at most for what is worth it at that moment. Work with the strategy `manual` is never asked here.
See docs/architecture/checkpoints.md.
"""

import math
from collections.abc import Callable, Mapping

from lattice.control.checkpoints.worth import (
    BANDWIDTH,
    Climate,
    Estimate,
    Standing,
    chosen,
    estimate_of,
    is_near_walltime,
    rate_of,
)
from lattice.control.loop import Alarm, Guard, Slices, keep_turning
from lattice.core.machine.commands import Envelope, RequestCheckpoint
from lattice.core.machine.events import AnyEvent, SettingSet
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.checkpoints import (
    EVERY_S,
    MAX_BANDWIDTH,
    MIN_INTERVAL_S,
    NODE_MTBF_S,
    ROOT,
    CheckpointReason,
    CheckpointStrategy,
)
from lattice.core.model.work.evictions import ends_at, saved_at, units_of
from lattice.ports.clock import Clock
from lattice.ports.nodes.checkpoints import CheckpointLinks, CheckpointOrder, CheckpointReport
from lattice.ports.nodes.run_keys import RunKey
from lattice.ports.quorum.replica import Replica

ACTOR = "checkpoint-broker"
LOOP = "checkpoint broker"
OFF_S = 60.0  # between two looks at the setting while the broker is off
UNKNOWN_LENGTH_S = 3600.0  # of work without a walltime
RECENT_S = 3600.0  # memory errors that rose within this time make a node sick
LEARNING = 0.3  # weight of the newest measured bandwidth
MINUTE_S = 60.0
PROBE_EVERY_S = 3600.0
SLOWEST, FASTEST = 1e5, 1e12  # bytes a second that a probe may say


class CheckpointBroker:
    """`figures` gives what nodes reported of a run; `storage_away` whether nothing can be written now."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        observations: Observations,
        figures: Callable[[int, int], Mapping[str, float]],
        storage_away: Callable[[], bool] = lambda: False,
        links: CheckpointLinks | None = None,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._observations = observations
        self._figures = figures
        self._storage_away = storage_away
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._links = links
        self._probed = 0.0  # bytes a second, by the last probe
        self._prober = ""  # the node that was asked last
        self._probe_s = -math.inf
        self._bandwidth = 0.0  # bytes a second, measured; 0 = not yet
        self._measured: dict[int, int] = {}  # by allocation, the number of the last checkpoint that was measured
        self._errors: dict[str, tuple[int, float]] = {}  # by node: memory errors, and when they last rose
        self._minutes: dict[int, float] = {}
        replica.subscribe(self._note, of=(SettingSet,))

    def probed(self, node: str, report: CheckpointReport) -> None:
        """What the node measured that was asked; checkpoints that were written say more, and count before it."""
        if node == self._prober and report.elapsed_s > 0:
            self._probed = min(FASTEST, max(SLOWEST, report.bytes / report.elapsed_s))

    def _probe(self, survey: "Survey", root: str) -> None:
        """While nothing was written that could be measured: how fast the storage is, asked of a node that has such work."""
        now_s = self._clock.monotonic_s()
        if self._links is None or self._bandwidth or now_s - self._probe_s < PROBE_EVERY_S:
            return
        for record in survey.asked:
            if record.is_running and record.nodes:
                order = CheckpointOrder(
                    key=RunKey(record.number, record.run), n=0, root=root, path=root, user=record.account, probe=True
                )
                if self._links.ask_checkpoint(record.nodes[0], order):
                    self._prober, self._probe_s = record.nodes[0], now_s
                    return

    def minutes(self) -> Mapping[int, float]:
        """How long a checkpoint takes, by allocation; only where that is known. What f8 and the cost of a preemption go by."""
        return self._minutes

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        every_s = float(setting_value(self._replica.state.settings, EVERY_S))
        if not every_s:
            self._minutes = {}  # estimates end here; the last ones would hold for good
        await self._alarm.wait(every_s or OFF_S)
        if every_s:
            await self.look()

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        """Another setting may make other work worth asking at once."""
        self._alarm.ring()

    async def look(self) -> list[int]:
        """Asks for what is worth it now; returns the numbers of the allocations."""
        state, now = self._replica.state, self._clock.now_ms()
        if not setting_value(state.settings, ROOT):
            self._minutes = {}
            return []
        slices = Slices()
        survey = Survey()
        for number, record in list(state.allocations.items()):
            with self._guard.item(allocation_id(number)):
                survey.add(record, state)
            await slices.pause()
        for group in list(state.groups.values()):
            survey.add_waiting(group.template, group.pending_count)
            await slices.pause()
        self._learn(survey.written)
        self._probe(survey, setting_value(state.settings, ROOT))
        self._watch_memory()
        standings: list[Standing] = []
        minutes: dict[int, float] = {}
        busy = 0.0  # bytes a second that the open checkpoints take
        for record in survey.asked:
            with self._guard.item(allocation_id(record.number)):
                estimate = self._estimate(record)
                if record.is_holding or record.checkpoints.newest is not None:
                    minutes[record.number] = min(estimate.seconds, 1e9) / MINUTE_S
                busy += rate_of(estimate) if record.checkpoints.open is not None else 0.0
                if _may_be_asked(record, state):
                    standings.append(self._standing(record, state, estimate, survey, now))
            await slices.pause()
        self._minutes = minutes
        mtbf_s, least_s, most = (
            float(setting_value(state.settings, key)) for key in (NODE_MTBF_S, MIN_INTERVAL_S, MAX_BANDWIDTH)
        )
        climate = Climate(backlog=survey.backlog, node_mtbf_s=mtbf_s, least_s=least_s)
        wanted = chosen(standings, climate, busy=busy, most=most)
        if wanted:
            await self._replica.propose_many([_request(each) for each in wanted], ACTOR)
        return [each.number for each in wanted]

    def _estimate(self, record: Allocation) -> Estimate:
        newest = record.checkpoints.newest
        figures = self._figures(record.number, record.run) if record.is_running else {}
        memory = figures.get("gpu_memory_used") or figures.get("memory_used")
        bandwidth = 0.0 if self._storage_away() else self._bandwidth or self._probed or BANDWIDTH
        if newest is None:
            return estimate_of(0, 0, memory, bandwidth)
        return estimate_of(newest.bytes, newest.elapsed_s, memory, bandwidth)

    def _standing(self, record: Allocation, state: State, estimate: Estimate, survey: "Survey", now: int) -> Standing:
        end, failed = ends_at(record), record.checkpoints.failed
        return Standing(
            number=record.number,
            run=record.run,
            units=units_of(record.shares, state.nodes),
            nodes=len(record.shares),
            since_s=max(0.0, (now - saved_at(record)) / 1000),
            left_s=None if end is None else (end - now) / 1000,
            estimate=estimate,
            sick_nodes=sum(self._is_sick(state, node) for node in record.nodes),
            demand=survey.demand(record),
            failures=record.checkpoints.failures,
            failed_s=math.inf if failed is None else (now - failed.ended_at) / 1000,
        )

    def _is_sick(self, state: State, node: str) -> bool:
        record, seen = state.nodes.get(node), self._observations.get(node)
        if record is not None and record.state is NodeState.DEGRADED:
            return True
        risen_at = self._errors.get(node, (0, -math.inf))[1]
        is_rising = self._clock.monotonic_s() - risen_at < RECENT_S
        return is_rising or (seen is not None and seen.beat.failing_checks > 0)

    def _watch_memory(self) -> None:
        """Errors of a node that is first heard of are old ones."""
        now_s = self._clock.monotonic_s()
        for node, seen in self._observations.nodes().items():
            count = seen.beat.memory_errors
            before, risen_at = self._errors.get(node, (count, -math.inf))
            self._errors[node] = (count, now_s if count > before else risen_at)

    def _learn(self, written: list[Allocation]) -> None:
        """What complete checkpoints say of the storage, each once."""
        for record in written:
            newest = record.checkpoints.newest
            if newest is None or self._measured.get(record.number, 0) >= newest.n or newest.elapsed_s <= 0:
                continue
            self._measured[record.number] = newest.n
            speed = newest.bytes / newest.elapsed_s
            if speed > 0:
                self._bandwidth = (
                    speed if not self._bandwidth else self._bandwidth + LEARNING * (speed - self._bandwidth)
                )
        known = {record.number for record in written}
        self._measured = {number: n for number, n in self._measured.items() if number in known}


class Survey:
    """One look through all work: who can be asked, who waits for nodes, how deep the queue is."""

    def __init__(self) -> None:
        self.asked: list[Allocation] = []  # all work that writes checkpoints and has not ended
        self.written: list[Allocation] = []  # those with a complete one
        self._waiting: dict[tuple[str, int], float] = {}  # nodes that are asked for, by vCluster and class
        self._running: dict[tuple[str, int], float] = {}  # nodes that are held, likewise
        self._queued_s = self._running_s = 0.0  # node-seconds

    def add(self, record: Allocation, state: State) -> None:
        if record.is_terminal:
            return
        if record.checkpoints.way is not None:
            self.asked.append(record)
            if record.checkpoints.newest is not None:
                self.written.append(record)
        if record.is_queued:
            self.add_waiting(record, 1)
        elif record.is_holding:
            key = (record.vcluster, record.preemption_class)
            self._running[key] = self._running.get(key, 0.0) + len(record.shares)
            self._running_s += len(record.shares) * (record.walltime_s or UNKNOWN_LENGTH_S)

    def add_waiting(self, record: Allocation, count: int) -> None:
        if record.hold or record.waits_for or not count:
            return
        key, nodes = (record.vcluster, record.preemption_class), record.request.nodes * count
        self._waiting[key] = self._waiting.get(key, 0.0) + nodes
        self._queued_s += nodes * (record.walltime_s or UNKNOWN_LENGTH_S)

    @property
    def backlog(self) -> float:
        """As f6: what waits against what runs."""
        if not self._queued_s:
            return 0.0
        return min(1.0, self._queued_s / self._running_s) if self._running_s else 1.0

    def demand(self, record: Allocation) -> float:
        """The part of the work of its class and below, in its vCluster, that work of higher classes could take; weighted by how much higher."""
        wanted = sum(
            nodes * (klass - record.preemption_class) / 10
            for (vcluster, klass), nodes in self._waiting.items()
            if vcluster == record.vcluster and klass > record.preemption_class
        )
        held = sum(
            nodes
            for (vcluster, klass), nodes in self._running.items()
            if vcluster == record.vcluster and klass <= record.preemption_class
        )
        return min(1.0, wanted / held) if held else 0.0


def _may_be_asked(record: Allocation, state: State) -> bool:
    """Work that writes by itself, runs, could answer when it was last asked, and is not on its way off its nodes."""
    way = record.checkpoints.way
    return (
        way is not None
        and way.strategy is CheckpointStrategy.AUTO
        and record.state is AllocationState.RUNNING
        and not record.paused_at
        and not record.checkpoints.unheard
        and record.number not in state.evictions.takers
    )


def _request(standing: Standing) -> RequestCheckpoint:
    reason = CheckpointReason.WALLTIME if is_near_walltime(standing) else CheckpointReason.BROKER
    return RequestCheckpoint(number=standing.number, run=standing.run, reason=reason)
