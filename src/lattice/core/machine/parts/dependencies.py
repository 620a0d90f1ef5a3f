"""The part of the state that is about dependencies: DAGs, who waits for whom, and whose turn it is under a mutex.

The records of DAGs are replicated; the two indexes are derived from allocations and groups, which report every change.
See docs/architecture/dependencies.md.
"""

from bisect import bisect_left, insort

from lattice.core.machine.digest import Digest
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.dependencies import numbers_in

MutexKey = tuple[str, str, str]  # tenant, user, name


class DependencyRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.dags: dict[int, Dag] = {}
        self.running = 0  # DAGs that have not ended
        self.dependents: dict[int, dict[int, None]] = {}  # predecessor -> allocations and groups that wait for it
        self.mutexes: dict[MutexKey, list[int]] = {}  # what has not ended, by number

    def put_dag(self, dag: Dag) -> None:
        old = self.dags.get(dag.number)
        if old is not None:
            self._digest.remove(b"dag", old)
            self.running -= not old.is_ended
        self._digest.add(b"dag", dag)
        self.dags[dag.number] = dag
        self.running += not dag.is_ended

    def drop_dag(self, number: int) -> None:
        old = self.dags.pop(number)
        self._digest.remove(b"dag", old)
        self.running -= not old.is_ended

    def note(self, old: Allocation | None, new: Allocation | None) -> None:
        """An allocation's record was put in the place of another."""
        before = old.waits_for if old is not None and not old.is_terminal else ()
        after = new.waits_for if new is not None and not new.is_terminal else ()
        if before != after:
            number = new.number if new is not None else old.number if old is not None else 0
            self._index(number, numbers_in(before), numbers_in(after))
        self._note_mutex(_key(old), _key(new))

    def note_group(self, old: TaskGroup | None, new: TaskGroup | None) -> None:
        before, after = _predecessors(old), _predecessors(new)
        if before != after:
            number = new.number if new is not None else old.number if old is not None else 0
            self._index(number, before, after)
        self._note_mutex(_group_key(old), _group_key(new))

    def before_under_mutex(self, key: MutexKey, number: int) -> int:
        """The newest that has not ended before this one; 0 when it is this one's turn."""
        live = self.mutexes.get(key, [])
        place = bisect_left(live, number)
        return live[place - 1] if place else 0

    def _index(self, number: int, before: list[int], after: list[int]) -> None:
        for predecessor in before:
            waiting = self.dependents[predecessor]
            del waiting[number]
            if not waiting:
                del self.dependents[predecessor]
        for predecessor in after:
            self.dependents.setdefault(predecessor, {})[number] = None

    def _note_mutex(self, before: tuple[MutexKey, int] | None, after: tuple[MutexKey, int] | None) -> None:
        if before == after:
            return
        if before is not None:
            live = self.mutexes[before[0]]
            live.remove(before[1])
            if not live:
                del self.mutexes[before[0]]
        if after is not None:
            insort(self.mutexes.setdefault(after[0], []), after[1])


def mutex_key(record: Allocation) -> MutexKey:
    return (record.tenant, record.user, record.mutex)


def _key(record: Allocation | None) -> tuple[MutexKey, int] | None:
    """Tasks stand under the mutex of their group, which is one entry."""
    if record is None or not record.mutex or record.group or record.is_terminal:
        return None
    return mutex_key(record), record.number


def _group_key(group: TaskGroup | None) -> tuple[MutexKey, int] | None:
    if group is None or not group.template.mutex or group.is_done:
        return None
    return mutex_key(group.template), group.number


def _predecessors(group: TaskGroup | None) -> list[int]:
    if group is None or group.is_done:
        return []
    numbers = numbers_in(group.template.waits_for)
    return list(dict.fromkeys((*numbers, *(wait.number for wait in group.task_waits if wait.blocked))))
