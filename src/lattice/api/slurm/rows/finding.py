"""Finds the jobs of a listing: by id, or all that match; in the hot state and, for what has ended, in the archive."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from lattice.api.auth.rbac import Permission
from lattice.api.auth.scope import EVERYTHING, Scope
from lattice.api.context import Context
from lattice.api.find.lookup import find_number
from lattice.api.find.selection import Selection, archived_records
from lattice.api.pacing import FEW, Pace
from lattice.core.machine.parts.folded_tasks import ended_tasks, task_record
from lattice.core.model import intervals
from lattice.core.model.work.allocations import TERMINAL, Allocation, AllocationState, TaskGroup

MIN_JOB_AGE_S = 300
_ID = re.compile(r"(\d{1,18})(?:\+\d+)?(?:_(?:(\d{1,18})|\[([\d,\-:%]*)\]|\*))?(?:\.(\w+))?$", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobId:
    """`17`, `17_3`, `17_[2-3]` (which names the line of all that wait), each perhaps with a step."""

    number: int
    task: int | None = None
    is_folded: bool = False
    step: str = ""


def parse_job_id(text: str) -> JobId | None:
    found = _ID.match(text)
    if found is None:
        return None
    number, task, several, step = found.groups()
    return JobId(int(number), None if task is None else int(task), several is not None, step or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What to list; None and empty take everything. `since_ms` is for what has ended: not before."""

    states: frozenset[AllocationState] = frozenset()
    users: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    names: frozenset[str] | None = None
    accounts: frozenset[str] | None = None
    scope: Scope = EVERYTHING  # what the caller may see
    since_ms: int = 0
    is_spread: bool = False  # every waiting task for itself

    @property
    def wants_pending(self) -> bool:
        return not self.states or AllocationState.PENDING in self.states

    @property
    def wants_ended(self) -> bool:
        return not self.states or bool(self.states & TERMINAL)

    def takes(self, record: Allocation, partition: Callable[[Allocation], str]) -> bool:
        return (
            (not self.states or record.state in self.states)
            and self.takes_owner(record)
            and (self.names is None or record.name in self.names)
            and (self.partitions is None or partition(record) in self.partitions)
            and (not record.ended_at or record.ended_at >= self.since_ms or record.state not in TERMINAL)
        )

    def takes_owner(self, record: Allocation) -> bool:
        return (
            (self.scope.whole is None or self.scope.takes(record.user, record.tenant))
            and (self.users is None or record.account in self.users or record.user in self.users)
            and (self.accounts is None or record.tenant in self.accounts)
        )


Entry = Allocation | TaskGroup  # a group stands for its tasks that wait


def partition_reader(context: Context) -> Callable[[Allocation], str]:
    """The name under which a job's partition is shown."""
    names, known = context.services.slurm, dict[str, str]()

    def read(record: Allocation) -> str:
        if record.asked is not None and record.asked.partition:
            return record.asked.partition
        if record.vcluster not in known:
            known[record.vcluster] = names.partition_of(record.vcluster)
        return known[record.vcluster]

    return read


async def matching(context: Context, wanted: JobFilter, *, with_archive: bool = False) -> AsyncIterator[Entry]:
    """All that match, the hot state first. What moves to the archive meanwhile is met once."""
    partition = partition_reader(context)
    seen: set[int] = set()
    pace = Pace()
    for place, record in enumerate(_hot(context, wanted)):
        head = record.template if isinstance(record, TaskGroup) else record
        if wanted.takes(head, partition):
            seen.add(record.number)
            yield record
        if not place % FEW and pace.is_due():
            await pace.rest()
    if not with_archive or not wanted.wants_ended:
        return
    states = (wanted.states or TERMINAL) & TERMINAL
    rough = Selection(states=frozenset(states), scope=wanted.scope, tasks=True, since=wanted.since_ms)
    async for archived in archived_records(context, rough, None):
        if isinstance(archived, Allocation) and archived.number not in seen and wanted.takes(archived, partition):
            yield archived
        if pace.is_due():
            await pace.rest()


def _hot(context: Context, wanted: JobFilter) -> Iterator[Entry]:
    state = context.state
    # A copy, because others may change the state between two rows.
    groups = list(state.groups.values())
    yield from list(state.allocations.values())
    for group in groups:
        if group.pending and wanted.wants_pending:
            yield from _waiting(group, spread=wanted.is_spread)
        if wanted.wants_ended:
            yield from ended_tasks(group, state.folded.get(group.number), group.size)


def _waiting(group: TaskGroup, *, spread: bool) -> Iterator[Entry]:
    if not spread:
        yield group
        return
    for position in intervals.positions(group.pending):
        yield task_record(group, position)


async def _listed(entries: Iterator[Entry]) -> list[Entry]:
    pace, listed = Pace(), list[Entry]()
    for entry in entries:
        listed.append(entry)
        if pace.is_due():
            await pace.rest()
    return listed


async def behind(context: Context, wanted: JobId, *, spread: bool = False, since_ms: int = 0) -> list[Entry] | None:
    """The job, or the task, or all of the array; None when there is no such id, or none that the caller may see.

    Jobs that ended before `since_ms` count as unknown.
    """
    found = await find_number(context, wanted.number)
    if found is None or not context.covers(Permission.READ, user=found.head.user, tenant=found.head.tenant):
        return None
    record = found.record
    if isinstance(record, Allocation):
        return [record] if wanted.task is None and not _is_old(record, since_ms) else None
    if record.is_done and record.ended_at < since_ms:
        return None
    if wanted.task is not None:
        return await _task(context, record, wanted.task)
    if wanted.is_folded:
        return await _listed(_waiting(record, spread=spread)) if record.pending else []
    return await _array(context, record, spread=spread)


def _is_old(record: Allocation, since_ms: int) -> bool:
    return record.is_terminal and record.ended_at < since_ms


async def _task(context: Context, group: TaskGroup, index: int) -> list[Entry]:
    position = group.position_of(index)
    found = None if position is None else await find_number(context, group.number + 1 + position)
    return [] if found is None else [found.record]


async def _array(context: Context, group: TaskGroup, *, spread: bool) -> list[Entry]:
    """What waits, then its tasks by index."""
    state = context.state
    entries: dict[int, Entry] = {}
    waiting = await _listed(_waiting(group, spread=spread)) if group.pending else []
    pace = Pace()
    for number in range(group.number + 1, group.number + group.size + 1):
        record = state.allocations.get(number)
        if record is not None:
            entries[number] = record
        if pace.is_due():
            await pace.rest()
    for record in ended_tasks(group, state.folded.get(group.number), group.size):
        entries.setdefault(record.number, record)
        if pace.is_due():
            await pace.rest()
    if group.number not in state.groups:
        wanted = Selection(group=group.number, tasks=True)
        async for archived in archived_records(context, wanted, None):
            entries.setdefault(archived.number, archived)
            if pace.is_due():
                await pace.rest()
    return [*waiting, *(entries[number] for number in sorted(entries))]
