"""What is true of dependencies, mutexes and DAGs after every command; part of `invariants.check`.

See docs/architecture/dependencies.md.
"""

from collections import Counter
from collections.abc import Iterator

from lattice.core.machine.parts.dependencies import MutexKey, mutex_key
from lattice.core.machine.rules.work.standings import standing
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id, dag_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.dependencies import is_hopeless, numbers_in


def check_dependencies(state: State) -> Iterator[str]:
    yield from _check_indexes(state)
    yield from _check_waits(state)
    yield from _check_mutexes(state)
    yield from _check_dags(state)


def _live_heads(state: State) -> Iterator[tuple[int, Allocation]]:
    for number, record in state.allocations.items():
        if not record.is_terminal:
            yield number, record
    for number, group in state.groups.items():
        if not group.is_done:
            yield number, group.template


def _check_indexes(state: State) -> Iterator[str]:
    waiting: dict[int, set[int]] = {}
    live: dict[MutexKey, list[int]] = {}
    for number, head in _live_heads(state):
        predecessors = numbers_in(head.waits_for)
        if number in state.groups:
            predecessors += [wait.number for wait in state.groups[number].task_waits if wait.blocked]
        for predecessor in predecessors:
            waiting.setdefault(predecessor, set()).add(number)
        if head.mutex and (number in state.groups or not head.group):
            live.setdefault(mutex_key(head), []).append(number)
    if waiting != {number: set(successors) for number, successors in state.dependencies.dependents.items()}:
        yield "the index of who waits for whom is wrong"
    if {key: sorted(numbers) for key, numbers in live.items()} != state.dependencies.mutexes:
        yield "the index of mutexes is wrong"


def _check_waits(state: State) -> Iterator[str]:
    """Nothing waits for what has ended or can never be: both are settled in the command in which they came about, so that no loop
    has to look for work that can never start."""
    for number, head in _live_heads(state):
        label = allocation_id(number)
        if number not in state.groups and head.waits_for and not head.is_waiting:
            yield f"{label} is {head.state} though it waits for others"
        if is_hopeless(head.waits_for) and not head.keep_on_invalid_dependency:
            yield f"{label} waits for what can never be"
        for each in (each for clause in head.waits_for for each in clause):
            now = standing(state, each.number)
            if now is None or now.ending is not None:
                yield f"{label} waits for {each.label}, which has ended"
            if each.is_dag != (each.number in state.dependencies.dags):
                yield f"{label} takes {each.label} for something else than it is"
    for group in state.groups.values():
        if group.blocked != group.blocked_now():
            yield f"group {allocation_id(group.number)} does not know which of its tasks are blocked"


def _check_mutexes(state: State) -> Iterator[str]:
    held = Counter(mutex_key(record) for record in state.allocations.values() if record.mutex and record.is_holding)
    for key in sorted(key for key, count in held.items() if count > 1):
        yield f"mutex {key} is held {held[key]} times"


def _check_dags(state: State) -> Iterator[str]:
    """A DAG has ended exactly when all its members have, and keeps them in the state until then: the archive takes it last."""
    for dag in state.dependencies.dags.values():
        ends = [standing(state, member) for member in dag.members]
        has_ended = all(now is None or now.ending is not None for now in ends)
        if has_ended != dag.is_ended:
            yield f"{dag_id(dag.number)} is {dag.state} though its members say otherwise"
        if not dag.is_ended and None in ends:
            yield f"{dag_id(dag.number)} has lost a member"
    if state.dependencies.running != sum(not dag.is_ended for dag in state.dependencies.dags.values()):
        yield "running DAGs are counted wrongly"
