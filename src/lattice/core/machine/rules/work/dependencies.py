"""Dependencies: what a new allocation has to wait for, and what follows for others when one starts or ends.

`settle` runs inside the command in which a predecessor started or ended, after its events were folded: successors are released
or given up in the same log entry, and again those that depend on them, until nothing follows. Successors are taken by number,
so that the order does not depend on how the index came about. See docs/architecture/dependencies.md.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.parts.dependencies import mutex_key
from lattice.core.machine.rules.work.standings import (
    Indices,
    PredecessorState,
    counterparts,
    delayed_until,
    ending_of,
    size_of,
    standing,
    task_endings,
)
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger
from lattice.core.model import intervals
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, TaskGroup
from lattice.core.model.work.dags import Dag, caught, end_state
from lattice.core.model.work.dependencies import (
    Clauses,
    Condition,
    Dependency,
    EndedWork,
    Ending,
    TaskWait,
    is_hopeless,
    is_met,
    renumbered,
    without,
)

Events = tuple[ev.AnyEvent, ...]


BROKEN_BEFORE = "what it depends on had ended otherwise before"


# what a new one waits for


class Waits(NamedTuple):
    waits_for: Clauses = ()
    task_waits: tuple[TaskWait, ...] = ()
    eligible_at: int = 0


def open_waits(
    state: State,
    clauses: Clauses,
    ended: tuple[EndedWork, ...],
    successor: TaskGroup | None,
    planned: Mapping[int, TaskGroup | None],
) -> Waits | Rejected:
    """What is still open of the clauses of a submission. `planned` are members of the same DAG, which come with it.

    `successor` is the group that is being submitted, None for a single allocation.
    """
    left, task_waits, eligible_at = clauses, [], 0
    known = {each.number: each for each in ended}
    for clause in clauses:
        for each in clause:
            is_planned = each.number in planned
            if is_planned and (successor is None or each.condition is not Condition.CORRESPONDING):
                continue  # it comes with this one, so everything about it is open
            gone = known.get(each.number)
            now = PredecessorState() if is_planned else _standing_of(state, each)
            if now is None and gone is not None:
                now = PredecessorState(gone.ending, is_started=True)
            if now is None:
                return _unknown(each)
            other = planned.get(each.number) if is_planned else state.groups.get(each.number)
            if each.condition is Condition.CORRESPONDING and successor is not None:
                tasks = _tasks_of(state, other, gone, is_planned=is_planned)
            else:
                tasks = None
            if successor is not None and tasks is not None:
                if len(clause) > 1:
                    return _alone(each)
                task_waits.append(_task_wait(successor, each.number, *tasks))
                left = without(left, each, verdict=True)
                continue
            verdict = is_met(each.condition, now.ending, is_started=now.is_started)
            eligible_at = max(eligible_at, delayed_until(state, each, verdict))
            left = without(left, each, verdict)
    return Waits(left, tuple(task_waits), eligible_at)


def _standing_of(state: State, dependency: Dependency) -> PredecessorState | None:
    """None also when the number is that of something else than the dependency says."""
    is_dag = dependency.number in state.dependencies.dags
    return standing(state, dependency.number) if is_dag == dependency.is_dag else None


def _task_wait(successor: TaskGroup, number: int, indices: Indices, completed: Intervals) -> TaskWait:
    """Indices that the other group does not have wait for nothing."""
    matched = counterparts(successor, indices, ((0, size_of(indices)),))
    blocked = intervals.difference(matched, counterparts(successor, indices, completed))
    return TaskWait(number=number, indices=indices, blocked=blocked)


def _tasks_of(
    state: State, other: TaskGroup | None, gone: EndedWork | None, *, is_planned: bool
) -> tuple[Indices, Intervals] | None:
    """Indices of the group that tasks may correspond to, and which of its tasks completed; None when it is no group."""
    if other is not None:
        return other.indices, () if is_planned else task_endings(state, other)[0]
    return (gone.indices, gone.completed) if gone is not None and gone.indices else None


def _unknown(dependency: Dependency) -> Rejected:
    label = dependency.label
    return Rejected(
        code="not_found",
        message=f"unknown dependency: there is no {'DAG' if dependency.is_dag else 'allocation'} {label}",
        requested=f"{label}:{dependency.condition}",
        hint="`lattice status --all` lists yours; names work only between allocations of one DAG.",
    )


def _alone(dependency: Dependency) -> Rejected:
    return Rejected(
        code="invalid",
        message=f"{dependency.label}:corresponding cannot be one of several alternatives",
        hint="Join it to other dependencies with a comma instead.",
    )


# what follows


def settle(state: State, events: Events, at: int) -> Events:
    """What follows for successors and DAGs from events that were just folded. Empty when nothing does."""
    registry = state.dependencies
    follow = _Follow(state, at)
    dags: dict[int, None] = {}
    for event in events:
        match event:
            # The most frequent comes first, and is not compared with all the others.
            case ev.AllocationSubmitted():
                if event.allocation.waits_for:
                    follow.look_at(event.allocation.number)
            case ev.AllocationStarted() if registry.dependents:
                follow.moved(event.number)
            case ev.AllocationEnded():
                if registry.dependents:
                    follow.moved(event.number)
                record = state.find(event.number)
                dags[record.dag if record is not None else 0] = None
            case ev.TasksCancelled():
                if registry.dependents:
                    follow.given_up(state.groups[event.group])
                dags[state.groups[event.group].template.dag] = None
            case ev.DagEnded() if registry.dependents:
                follow.moved(event.dag)
            case ev.TaskGroupSubmitted() | ev.AllocationUpdated():
                follow.came_to_wait(event)
            case ev.TaskReleased() if state.groups[event.group].task_waits:
                follow.became_record(event.group + 1 + event.position)
            case _:
                pass
    return (*follow.events(), *_ended_dags(state, dags))


class _Follow:
    """Gathers what changes for each successor, so that several predecessors in one command make one event of it."""

    def __init__(self, state: State, at: int) -> None:
        self._state = state
        self._at = at
        self._clauses: dict[int, Clauses] = {}
        self._eligible_at: dict[int, int] = {}
        self._why: dict[int, str] = {}
        self._completed: dict[tuple[int, int], Intervals] = {}  # (successor, predecessor) -> positions of the successor
        self._bad: dict[tuple[int, int], Intervals] = {}

    def moved(self, number: int) -> None:
        """An allocation or task started or ended."""
        self._tell(number)
        group = self._state.group_of(number)
        if group is None or group.number not in self._state.dependencies.dependents:
            return
        self._tell(group.number)
        record = self._state.find(number)
        ending = None if record is None else ending_of(record)
        if ending is not None:
            position = number - group.number - 1
            self._tell_tasks(group, ((position, position + 1),), is_good=ending is Ending.COMPLETED)

    def given_up(self, group: TaskGroup) -> None:
        """Tasks of the group ended together without having run."""
        for number in [n for n in self._state.dependencies.dependents if 0 < n - group.number <= group.size]:
            self._tell(number)
        if group.number in self._state.dependencies.dependents:
            self._tell(group.number)
            gone = intervals.union(tuple((each.start, each.stop) for each in group.given_up), ())
            self._tell_tasks(group, gone, is_good=False)

    def came_to_wait(self, event: ev.TaskGroupSubmitted | ev.AllocationUpdated) -> None:
        """A group was submitted, or something waits for something else than before."""
        match event:
            case ev.TaskGroupSubmitted() if event.group.blocked:
                self.new_group(event.group)
            case ev.AllocationUpdated() if event.revised is not None and event.number in self._state.groups:
                self.new_group(self._state.groups[event.number])
            case ev.AllocationUpdated() if event.revised is not None:
                self.look_at(event.number)
            case _:
                pass

    def new_group(self, group: TaskGroup) -> None:
        """What it waits for may have ended badly before it came."""
        self.look_at(group.number)
        for wait in group.task_waits:
            other = self._state.groups.get(wait.number)
            if other is None:  # archived: whatever has not completed never will
                self._bad[group.number, wait.number] = wait.blocked
                continue
            _, bad = task_endings(self._state, other)
            self._note_tasks(group, other, bad, is_good=False)

    def look_at(self, number: int) -> None:
        """One that was just submitted: what it depends on may have ended badly before."""
        head = self._head(number)
        self._clauses.setdefault(number, head.waits_for)
        if is_hopeless(head.waits_for):
            self._why.setdefault(number, _broken_before(self._state, head))

    def became_record(self, number: int) -> None:
        """A task of a group may depend on a counterpart that failed, and may be archived by now."""
        clauses = self._state.allocations[number].waits_for
        for each in [each for clause in clauses for each in clause]:
            now = standing(self._state, each.number)
            verdict = False if now is None else is_met(each.condition, now.ending, is_started=now.is_started)
            clauses = without(clauses, each, verdict)
        self._clauses.setdefault(number, clauses)

    def _head(self, number: int) -> Allocation:
        group = self._state.groups.get(number)
        return self._state.allocations[number] if group is None else group.template

    def _tell(self, number: int) -> None:
        now = standing(self._state, number)
        for successor in sorted(self._state.dependencies.dependents.get(number, ())):
            head = self._head(successor)
            clauses = self._clauses.get(successor, head.waits_for)
            for each in [each for clause in clauses for each in clause if each.number == number]:
                verdict = is_met(each.condition, now.ending, is_started=now.is_started) if now else None
                if verdict and each.condition is Condition.MUTEX:
                    before = self._state.dependencies.before_under_mutex(mutex_key(head), successor)
                    clauses = renumbered(clauses, each, before) if before else without(clauses, each, verdict=True)
                    continue
                self._note_delay(successor, each, verdict)
                if verdict is False and now is not None:
                    self._why[successor] = _broken(each, now)
                clauses = without(clauses, each, verdict)
            self._clauses[successor] = clauses

    def _note_delay(self, successor: int, dependency: Dependency, verdict: bool | None) -> None:
        until = delayed_until(self._state, dependency, verdict)
        if until:
            self._eligible_at[successor] = max(until, self._eligible_at.get(successor, 0))

    def _tell_tasks(self, group: TaskGroup, theirs: Intervals, *, is_good: bool) -> None:
        for number in sorted(self._state.dependencies.dependents.get(group.number, ())):
            successor = self._state.groups.get(number)
            if successor is not None:
                self._note_tasks(successor, group, theirs, is_good=is_good)

    def _note_tasks(self, successor: TaskGroup, group: TaskGroup, theirs: Intervals, *, is_good: bool) -> None:
        if all(wait.number != group.number for wait in successor.task_waits):
            return
        key = (successor.number, group.number)
        noted = self._completed if is_good else self._bad
        noted[key] = intervals.union(noted.get(key, ()), counterparts(successor, group.indices, theirs))

    def events(self) -> Events:
        events: list[ev.AnyEvent] = []
        tasks = {successor for successor, _ in (*self._completed, *self._bad)}
        for number in sorted({*self._clauses, *tasks}):
            given_up = self._whole(number, events) if number in self._clauses else False
            if number in tasks and not given_up:
                self._tasks(self._state.groups[number], events)
        return tuple(events)

    def _whole(self, number: int, events: list[ev.AnyEvent]) -> bool:
        """Adds what becomes of a successor by its clauses; True when it is given up."""
        head, clauses = self._head(number), self._clauses[number]
        if is_hopeless(clauses) and not head.keep_on_invalid_dependency:
            events += self._skipped(number)
            return True
        if clauses != head.waits_for:
            eligible_at = max(head.eligible_at, self._eligible_at.get(number, 0), 0 if clauses else self._at)
            events.append(ev.WaitChanged(number=number, waits_for=clauses, eligible_at=eligible_at))
        return False

    def _skipped(self, number: int) -> Events:
        group = self._state.groups.get(number)
        if group is not None:
            count = group.pending_count
            return (ev.TasksCancelled(group=number, count=count, cause=Cause.DEPENDENCY),) if count else ()
        ended = ev.AllocationEnded(
            number=number,
            trigger=AllocationTrigger.CANCEL,
            state=AllocationState.CANCELLED,
            cause=Cause.DEPENDENCY,
            message=self._why.get(number, BROKEN_BEFORE),
        )
        return (ended,)

    def _tasks(self, group: TaskGroup, events: list[ev.AnyEvent]) -> None:
        waits: list[TaskWait] = []
        bad: Intervals = ()
        for wait in group.task_waits:
            key = (group.number, wait.number)
            gone = self._completed.get(key, ())
            if not group.template.keep_on_invalid_dependency:
                failed = intervals.intersection(self._bad.get(key, ()), wait.blocked)
                bad = intervals.union(bad, intervals.intersection(failed, group.pending))
                gone = intervals.union(gone, failed)
            blocked = intervals.difference(wait.blocked, gone)
            waits.append(TaskWait(number=wait.number, indices=wait.indices, blocked=blocked))
        if bad:
            count = intervals.count(bad)
            events.append(ev.TasksCancelled(group=group.number, count=count, positions=bad, cause=Cause.DEPENDENCY))
        if tuple(waits) != group.task_waits:
            events.append(ev.TasksUnblocked(group=group.number, waits=tuple(waits)))


def _broken(dependency: Dependency, now: PredecessorState) -> str:
    return f"{dependency.label} was to end with {dependency.condition}, it {_ended(now)}"


def _broken_before(state: State, head: Allocation) -> str:
    """Which of its dependencies had ended otherwise, as far as that is still known here."""
    for clause in head.depends_on:
        known = [(each, now) for each in clause if (now := standing(state, each.number)) is not None]
        if known and all(is_met(each.condition, now.ending) is False for each, now in known):
            return _broken(*known[0])
    return BROKEN_BEFORE


def _ended(now: PredecessorState) -> str:
    return "was skipped" if now.ending is Ending.SKIPPED else f"{now.ending}" if now.ending else "has not"


def _ended_dags(state: State, dags: Mapping[int, None]) -> Events:
    found: list[ev.AnyEvent] = []
    for number in dags:
        dag = state.dependencies.dags.get(number)
        if dag is not None and not dag.is_ended:
            endings = _endings(state, dag)
            if endings is not None:
                edges = (_edges(state, member) for member in dag.members)
                ended = end_state(endings, caught(edges), is_cancelled=bool(dag.cancelled_by))
                found.append(ev.DagEnded(dag=number, state=ended, counts=_counts(endings)))
    return tuple(found)


def _counts(endings: Mapping[int, Ending]) -> tuple[int, ...]:
    found = list(endings.values())
    completed, failed = found.count(Ending.COMPLETED), found.count(Ending.FAILED)
    return completed, failed, len(found) - completed - failed


def _endings(state: State, dag: Dag) -> dict[int, Ending] | None:
    """How the members ended; None while one has not. The last ones are asked first, for they take longest as a rule."""
    endings: dict[int, Ending] = {}
    for member in reversed(dag.members):
        now = standing(state, member)
        if now is None or now.ending is None:
            return None
        endings[member] = now.ending
    return endings


def _edges(state: State, member: int) -> Clauses:
    group = state.groups.get(member)
    return state.allocations[member].depends_on if group is None else group.template.depends_on
