"""Evaluates services that follow their load: asks for the metric of each, decides, and proposes one node more or less.

No metric, no action: a store that does not answer, a node that has not reported, a metric that is not there leave the size as it is. Windows
are kept here, so after a change of leader they start again, which only delays a step. See docs/architecture/scaling.md.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import AnyCommand, Envelope, GrowAllocation, RequestCheckpoint, ShrinkAllocation
from lattice.core.machine.events import AllocationEnded, AllocationRequeued, AllocationStarted, AnyEvent
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import Node
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.services.scaling import ScalePolicy, ScaleStanding
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, PartPhase
from lattice.core.model.work.checkpoints import ROOT, CheckpointReason, CheckpointStrategy
from lattice.core.replacements import open_nodes, share_for
from lattice.core.scheduler.autoscale import MAX_REJECTIONS, Sample, Verdict, alternates, judge
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica

LOOP = "autoscaling"
LOOK_EVERY_S = 1.0
REST_S = 3600.0
_STEPS_KEPT = 8
_HEARD = (AllocationStarted, AllocationRequeued, AllocationEnded)
Values = Mapping[int, float]
ReadMetrics = Callable[[Sequence[Allocation]], Awaitable[Values]]


class ScalingCounts(Protocol):
    """What is counted for operators."""

    def query_failed(self, in_a_row: int) -> None: ...

    def scaled(self, step: int) -> None: ...

    def alternating(self, count: int) -> None: ...


@dataclass(slots=True)
class _Known:
    """What was seen of one run."""

    run: int
    due_ms: int
    samples: deque[Sample] = field(default_factory=deque)
    steps: deque[int] = field(default_factory=lambda: deque(maxlen=_STEPS_KEPT))
    failures: int = 0  # of the metric, in a row
    rejections: int = 0  # of steps up, in a row
    rests_until: int = 0
    saving: int | None = None  # the checkpoint after which it gives a node back

    def keep(self, sample: Sample, policy: ScalePolicy) -> None:
        self.samples.append(sample)
        oldest = sample.at - (max(policy.up_window_s, policy.down_window_s) + 2 * policy.interval_s) * 1000
        while self.samples[0].at < oldest:
            self.samples.popleft()


class _Nodes:
    """What one evaluation can give: the candidates are looked for when the first service grows."""

    def __init__(self, look: Callable[[], list[Node]]) -> None:
        self._look = look
        self.taken: set[str] = set()

    @cached_property
    def candidates(self) -> list[Node]:
        return self._look()


class Autoscaling:
    """`evaluate_due` does the work of one turn; `read` asks for the metrics of several services at once."""

    def __init__(
        self, replica: Replica, observations: Observations, clock: Clock, read: ReadMetrics, counts: ScalingCounts
    ) -> None:
        self._replica = replica
        self._observations = observations
        self._clock = clock
        self._read = read
        self._counts = counts
        self._alarm = Alarm()
        self._guard = Guard(LOOP)
        self._known: dict[int, _Known] = {}
        for record in replica.state.allocations.values():
            self._follow(record)
        replica.subscribe(self._note, of=_HEARD)

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(LOOK_EVERY_S if self._known else REST_S)
        await self.evaluate_due()

    async def evaluate_due(self) -> None:
        """Evaluates every service whose interval is over."""
        now = self._clock.now_ms()
        due = [record for number in sorted(self._known) if (record := self._due(number, now)) is not None]
        if not due:
            return
        values = await self._read(due)
        nodes = _Nodes(lambda: open_nodes(self._replica.state, self._observations.connected()))
        proposals: list[tuple[_Known, Allocation, Verdict, AnyCommand]] = []
        for record in due:
            with self._guard.item(allocation_id(record.number)):
                found = self._evaluated(record, values.get(record.number), now, nodes)
                if found is not None:
                    proposals.append(found)
        if proposals:
            outcomes = await self._replica.propose_many([each[3] for each in proposals], LOOP)
            for (known, record, verdict, _), outcome in zip(proposals, outcomes, strict=True):
                self._settle(known, record, verdict, outcome, now)
        self._counts.alternating(sum(alternates(tuple(known.steps)) for known in self._known.values()))

    def _due(self, number: int, now: int) -> Allocation | None:
        known, record = self._known[number], self._replica.state.allocations.get(number)
        if record is None or record.scaling is None or not record.is_running or record.run != known.run:
            return None
        if now < known.due_ms:
            return None
        known.due_ms = now + record.scaling.interval_s * 1000
        return record

    def _evaluated(
        self, record: Allocation, value: float | None, now: int, nodes: _Nodes
    ) -> tuple[_Known, Allocation, Verdict, AnyCommand] | None:
        """The proposal for a service, if there is one; says what it decided."""
        known, policy = self._known[record.number], record.scaling
        if policy is None:
            return None
        if value is None:
            known.failures += 1
            self._counts.query_failed(known.failures)
            known.samples.clear()
        else:
            known.failures = 0
            known.keep(Sample(now, value), policy)
        verdict = judge(policy, record.size, max(record.started_at, record.scaled_at), tuple(known.samples), now)
        verdict = self._held_back(known, record, verdict, now)
        verdict, command = self._saved_first(known, record, verdict)
        if verdict.step:
            command = self._command(record, verdict, nodes)
        if verdict.step and command is None:
            verdict = Verdict(0, f"{verdict.reason}; no free node suits it")
        self._tell(record, value, verdict, now)
        return None if command is None else (known, record, verdict, command)

    def _held_back(self, known: _Known, record: Allocation, verdict: Verdict, now: int) -> Verdict:
        """What is under way already comes first."""
        if not verdict.step:
            return verdict
        if record.rollout is not None and record.rollout.is_open:
            return Verdict(0, f"{verdict.reason}; it is being updated")
        if record.missing or any(part.phase in (PartPhase.LEAVING, PartPhase.ASSIGNED) for part in record.parts):
            return Verdict(0, f"{verdict.reason}; an instance is still coming or leaving")
        if verdict.step > 0 and now < known.rests_until:
            left_s = (known.rests_until - now) // 1000
            return Verdict(0, f"{verdict.reason}; refused {MAX_REJECTIONS} times, {left_s} s until the next try")
        return verdict

    def _saved_first(self, known: _Known, record: Allocation, verdict: Verdict) -> tuple[Verdict, AnyCommand | None]:
        """Work that writes checkpoints writes one before it gives a node back; one that is being written serves.

        Complete or failed, the step follows it.
        """
        if verdict.step >= 0 or not self._can_save(record):
            known.saving = None
            return verdict, None
        is_open, last_n = record.checkpoints.open, record.checkpoints.last_n
        if is_open is None and known.saving is not None and last_n >= known.saving:
            return verdict, None
        waits = Verdict(0, f"{verdict.reason}; it writes a checkpoint first")
        known.saving = last_n + 1 if is_open is None else is_open.n
        if is_open is not None:
            return waits, None
        return waits, RequestCheckpoint(number=record.number, run=record.run, reason=CheckpointReason.BROKER)

    def _can_save(self, record: Allocation) -> bool:
        checkpoints = record.checkpoints
        is_asked = checkpoints.way is not None and checkpoints.way.strategy is CheckpointStrategy.AUTO
        has_place = bool(setting_value(self._replica.state.settings, ROOT))
        return is_asked and has_place and not record.paused_at and not checkpoints.unheard

    def _command(self, record: Allocation, verdict: Verdict, nodes: _Nodes) -> AnyCommand | None:
        if verdict.step < 0:
            # The most recently added goes, never the first one.
            last = record.parts[-1].node
            reason = f"scaled down: {verdict.reason}"
            return ShrinkAllocation(number=record.number, run=record.run, node=last, reason=reason)
        share = share_for(self._replica.state, record, nodes.candidates, nodes.taken, is_more=True)
        if share is None:
            return None
        nodes.taken.add(share.node)
        return GrowAllocation(number=record.number, run=record.run, share=share, size=record.size + 1)

    def _settle(self, known: _Known, record: Allocation, verdict: Verdict, outcome: object, now: int) -> None:
        if not verdict.step:
            if isinstance(outcome, Rejected):
                known.saving = record.checkpoints.last_n  # no checkpoint is to come: the step follows
            return
        if not isinstance(outcome, Rejected):
            known.rejections = 0
            known.steps.append(verdict.step)
            known.samples.clear()  # those of another size
            self._counts.scaled(verdict.step)
            return
        self._tell(record, None, Verdict(0, f"{verdict.reason}; {outcome.message}"), now, keeps_value=True)
        if verdict.step > 0 and outcome.code == "stale" and record.scaling is not None:
            known.rejections += 1
            if known.rejections >= MAX_REJECTIONS:
                known.rejections = 0
                known.rests_until = now + 2 * record.scaling.cooldown_s * 1000

    def _tell(
        self, record: Allocation, value: float | None, verdict: Verdict, now: int, *, keeps_value: bool = False
    ) -> None:
        board = self._observations.scaling
        before = board.get(record.number) if keeps_value else None
        standing = ScaleStanding(
            run=record.run,
            at=now,
            value=value if before is None else before.value,
            decision={1: "up", -1: "down"}.get(verdict.step, "hold"),
            reason=verdict.reason,
        )
        board.note(record.number, standing)

    def _follow(self, record: Allocation) -> None:
        if record.scaling is None or not record.is_running:
            if self._known.pop(record.number, None) is not None:
                self._observations.scaling.forget(record.number)
            return
        if record.number not in self._known or self._known[record.number].run != record.run:
            self._known[record.number] = _Known(run=record.run, due_ms=self._clock.now_ms())
            self._alarm.ring()

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, _HEARD):
                record = self._replica.state.allocations.get(event.number)
                if record is not None:
                    self._follow(record)
