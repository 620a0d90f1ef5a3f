"""Picks allocations by filters from the hot state and the archive, newest number first."""

import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from heapq import merge

from msgspec.structs import replace

from lattice.api.auth.scope import EVERYTHING, Scope
from lattice.api.context import Context
from lattice.api.find.lookup import Found
from lattice.api.pacing import Pace
from lattice.core.machine.parts.folded_tasks import ended_tasks, task_record
from lattice.core.machine.rules.work.tasks import task_records
from lattice.core.machine.state import State
from lattice.core.model.intervals import Intervals, contains
from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveFilter
from lattice.wire.work.allocations import group_state

_ARCHIVE_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to pick; an empty field takes everything."""

    states: frozenset[AllocationState] = frozenset()
    scope: Scope = EVERYTHING
    user: str = ""
    vcluster: str = ""
    project: str = ""
    name: str = ""
    group: int = 0  # only the tasks of this group
    tags: tuple[tuple[str, str], ...] = ()
    tasks: bool = False  # single tasks instead of their groups
    positions: Intervals = ()  # of the group's tasks only these
    since: int = 0
    until: int = 0
    sessions: bool = False  # nothing else
    nodes: frozenset[str] = frozenset()  # that run or ran on one of these

    @property
    def shows_tasks(self) -> bool:
        return self.tasks or self.group > 0

    @property
    def takes_all(self) -> bool:
        """Whether nothing is left out; asked before many records are looked at."""
        return self == _ALL

    def takes(self, record: Allocation | TaskGroup) -> bool:
        if isinstance(record, TaskGroup):
            ended_at = record.ended_at if record.is_done else 0
            return self._takes(record.template, group_state(record), ended_at)
        return self._takes(record, record.state, record.ended_at)

    def _takes(self, head: Allocation, state: AllocationState, ended_at: int) -> bool:
        return (
            (not self.states or state in self.states)
            and self.scope.takes(head.user, head.tenant)
            and (not self.user or head.user == self.user)
            and (not self.vcluster or head.vcluster == self.vcluster)
            and (not self.project or head.project == self.project)
            and (not self.name or head.name == self.name)
            and (not self.group or (head.group == self.group and self._takes_position(head)))
            and (not self.tags or all(tag in head.tags for tag in self.tags))
            and (not self.since or not ended_at or ended_at >= self.since)
            and (not self.until or 0 < ended_at < self.until)
            and (not self.sessions or head.session)
            and (not self.nodes or not self.nodes.isdisjoint(head.nodes))
        )

    def _takes_position(self, head: Allocation) -> bool:
        return not self.positions or contains(self.positions, head.number - head.group - 1)


_ALL = Selection()


async def hot_records(
    state: State, wanted: Selection, before: int | None = None
) -> AsyncIterator[Allocation | TaskGroup]:
    """Matching records of the hot state with numbers below `before`, as they were at the first step."""
    source = _single_records if wanted.shows_tasks else _folded_records
    pace = Pace()
    for record in source(state, wanted, before):
        if record is not None:
            yield record
        if pace.is_due():
            await pace.rest()


def _folded_records(state: State, wanted: Selection, before: int | None) -> Iterator[Allocation | TaskGroup | None]:
    """Allocations and groups; None for one that does not match."""
    allocations, groups = state.allocations.copy(), state.groups.copy()
    for number in _below((*allocations, *groups), before):
        single = allocations.get(number)
        if single is not None and single.group:
            yield None
            continue
        record = single or groups[number]
        yield record if wanted.takes(record) else None


def _single_records(state: State, wanted: Selection, before: int | None) -> Iterator[Allocation | None]:
    """Allocations and tasks; tasks that are no records are made up from their group as they are reached."""
    allocations = state.allocations.copy()
    groups = [state.groups[wanted.group]] if wanted.group in state.groups else list(state.groups.values())
    hot = (allocations[number] for number in _below(tuple(allocations), before))
    pending = (_pending_tasks(group, before) for group in pending_groups(state, wanted))
    ended = (_ended_tasks(state, group, before) for group in groups)
    for record in merge(hot, *pending, *ended, key=_number, reverse=True):
        yield record if wanted.takes(record) else None


def _number(record: Allocation) -> int:
    return record.number


def pending_groups(state: State, wanted: Selection) -> Iterator[TaskGroup]:
    """Groups whose pending tasks match; those tasks are alike in everything that can be asked for but their place."""
    anywhere = dataclasses.replace(wanted, positions=())
    for group in state.groups.values():
        if group.pending and anywhere.takes(replace(group.template, group=group.number)):
            yield group


def count_tasks(state: State, wanted: Selection) -> Counter[str]:
    """How many tasks of groups wait as entries or have ended, by state; those that match, one by one only where they may differ."""
    counts: Counter[str] = Counter()
    is_alike = not (wanted.nodes or wanted.name or wanted.tags or wanted.since or wanted.until or wanted.positions)
    plain = dataclasses.replace(
        wanted, states=frozenset(), name="", tags=(), since=0, until=0, positions=(), nodes=frozenset()
    )
    for group in state.groups.values():
        if not plain.takes(replace(group.template, group=group.number)):
            continue
        if is_alike:
            counts.update(_counted(group))
        else:
            counts.update(record.state for record in _all_tasks(state, group) if wanted.takes(record))
    return Counter(
        {name: count for name, count in counts.items() if count and (not wanted.states or name in wanted.states)}
    )


def _counted(group: TaskGroup) -> dict[str, int]:
    return {  # partial: tasks that hold nodes are records of their own and counted there
        AllocationState.PENDING: group.pending_count,
        AllocationState.COMPLETED: group.completed,
        AllocationState.FAILED: group.failed,
        AllocationState.CANCELLED: group.cancelled,
    }


def _all_tasks(state: State, group: TaskGroup) -> Iterator[Allocation]:
    """Those that wait as entries, and those that have ended."""
    yield from _pending_tasks(group, None)
    yield from ended_tasks(group, state.folded.get(group.number), group.size)
    yield from (task for task in task_records(state, group) if task.is_terminal)


def _below(numbers: tuple[int, ...], before: int | None) -> list[int]:
    """The numbers below `before`, highest first."""
    return sorted(
        numbers if before is None else [number for number in numbers if number < before],
        reverse=True,
    )


def _ended_tasks(state: State, group: TaskGroup, before: int | None) -> Iterator[Allocation]:
    """Those that are rows or entries of their group. What is folded meanwhile may be met twice."""
    below = group.size if before is None else max(0, before - group.number - 1)
    return ended_tasks(group, state.folded.get(group.number), below)


def _pending_tasks(group: TaskGroup, before: int | None) -> Iterator[Allocation]:
    for start, stop in reversed(group.pending):
        highest = group.number + stop
        if before is not None:
            highest = min(highest, before - 1)
        for number in range(highest, group.number + start, -1):
            yield task_record(group, number - group.number - 1)


async def archived_records(
    context: Context, wanted: Selection, before: int | None, page: int = _ARCHIVE_PAGE
) -> AsyncIterator[ArchivedRecord]:
    """Matching records of the archive with numbers below `before`."""
    if wanted.scope.is_empty:
        return
    rough = ArchiveFilter(
        user=wanted.user or wanted.scope.only_user,
        tenant=wanted.scope.only_tenant,
        vcluster=wanted.vcluster,
        name=wanted.name,
        states=tuple(sorted(wanted.states)),
        since=wanted.since,
        until=wanted.until,
        group=wanted.group,
        with_groups=not wanted.shows_tasks,
        with_tasks=wanted.shows_tasks,
    )
    page = min(page, _ARCHIVE_PAGE)
    while True:
        records = await context.services.replica.archived_page(rough, before, page)
        for record in records:
            if wanted.takes(record):
                yield record
        if len(records) < page:
            return
        before = records[-1].number
        page = _ARCHIVE_PAGE


async def pick(
    context: Context, wanted: Selection, before: int | None, limit: int, *, with_archive: bool
) -> tuple[list[Found], bool]:
    """Up to `limit` matches with numbers below `before`, and whether there are more.

    The hot state is read first: what moves to the archive meanwhile is met twice and taken once.
    """
    found: dict[int, Found] = {}
    async for record in hot_records(context.state, wanted, before):
        found[record.number] = Found(record)
        if len(found) > limit:
            break
    if with_archive:
        taken = 0
        async for archived in archived_records(context, wanted, before, limit + 1):
            found.setdefault(archived.number, Found(archived, is_archived=True))
            taken += 1
            if taken > limit:
                break
        numbers = sorted(found, reverse=True)
    else:
        numbers = list(found)
    return [found[number] for number in numbers[:limit]], len(numbers) > limit
