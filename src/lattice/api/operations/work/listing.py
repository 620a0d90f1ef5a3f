"""Lists of allocations: those of now, those of the past, how many, and the queue of a vCluster."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace

from msgspec import Struct, json

from lattice.api.answers import Page, Shared
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.auth.scope import Scope
from lattice.api.context import Context
from lattice.api.find.cursors import make_cursor, page_size, read_cursor
from lattice.api.find.lookup import Found, find_tasks, view_of
from lattice.api.find.selection import Selection, archived_records, count_tasks, hot_records, pick
from lattice.api.find.states import parse_states
from lattice.api.find.visibility import find_vcluster
from lattice.api.kept_listings import MIN_KEPT_ROWS
from lattice.api.limits import DEFAULT_PAGE, MAX_PAGE
from lattice.api.operations.operation import row
from lattice.api.pacing import Pace
from lattice.core.model.ids import parse_allocation_id, parse_task_id
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import QUEUED, TERMINAL, Allocation, AllocationState, TaskGroup
from lattice.wire.bounds import NodeSet, Short, TagFilters
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.tasks import parse_task_set
from lattice.wire.text.texts import parse_tag
from lattice.wire.text.times import parse_moment
from lattice.wire.work.allocations import AllocationView, group_state


class AllocationQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The filters described in docs/architecture/api.md."""

    state: list[str] = []
    user: str = ""
    tenant: str = ""
    vcluster: str = ""
    project: str = ""
    name: str = ""
    group: str = ""
    tag: TagFilters = []
    node: NodeSet = ""  # held by it now, or at its end; tasks then stand for themselves
    all: bool = False
    tasks: bool = False
    since: Short = ""
    until: Short = ""
    limit: int | None = None
    cursor: str = ""


class QueueQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    limit: int | None = None
    cursor: str = ""


class Counts(Struct, frozen=True, kw_only=True):
    total: int
    states: dict[str, int]


async def list_allocations(
    context: Context, request: AllocationQuery
) -> Page[AllocationView] | Shared[Page[AllocationView]]:
    """List the allocations that the caller may see, newest first."""
    wanted = await _selection(context, request)
    if request.all or (request.limit or 0) < MIN_KEPT_ROWS:
        return await _page(context, wanted, request, with_archive=request.all)

    async def written() -> Shared[Page[AllocationView]]:
        return Shared(await _page(context, wanted, request, with_archive=False))

    key = json.encode(request), _sight(context, wanted.scope)
    return await context.services.pages.answer(key, context.services.stamp, written)


def _sight(context: Context, scope: Scope) -> Hashable:
    """Callers of whom this is equal see the same of the same records."""
    tenants = context.identity.tenants
    details = [context.reach(Permission.READ_DETAILS)]
    details += [context.reach_in(Permission.READ_DETAILS, name) for name in tenants]
    user = context.user if scope.own or Reach.OWN in details else ""
    return scope.whole, scope.own, tenants, tuple(details), user


async def history(context: Context, request: AllocationQuery) -> Page[AllocationView]:
    """List finished allocations, newest first."""
    wanted = await _selection(context, request)
    ended = wanted.states & TERMINAL if wanted.states else TERMINAL
    if not ended:
        return Page(items=[])
    return await _page(context, _with_states(wanted, ended), request, with_archive=True)


async def count_allocations(context: Context, request: AllocationQuery) -> Counts:
    """Count allocations by state."""
    wanted = await _selection(context, request)
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    if wanted.shows_tasks:
        counts.update(count_tasks(context.state, wanted))
        # Ended tasks of groups are counted there, whether they are rows yet or not.
        records: list[Allocation | TaskGroup] = [
            record
            for record in context.state.allocations.values()
            if not (record.is_terminal and record.group in context.state.groups)
        ]
    else:
        singles = [record for record in context.state.allocations.values() if not record.group]
        records = [*singles, *context.state.groups.values()]
    pace = Pace()
    takes_all = wanted.takes_all
    for record in records:
        if takes_all or wanted.takes(record):
            seen.add(record.number)
            counts[group_state(record) if isinstance(record, TaskGroup) else record.state] += 1
        if pace.is_due():
            await pace.rest()
    if request.all:
        async for archived in archived_records(context, wanted, None):
            if archived.number not in seen:
                counts[Found(archived).state] += 1
    return Counts(total=counts.total(), states=dict(counts))


async def vcluster_queue(context: Context, request: QueueQuery) -> Page[AllocationView]:
    """List the queue of a vCluster in scheduling order; submissions that no cycle has seen yet come last."""
    find_vcluster(context, request.name)
    limit = page_size(request.limit, DEFAULT_PAGE, MAX_PAGE)
    after = read_cursor(request.cursor, tuple[int, int, int, int]) if request.cursor else None
    wanted = Selection(
        states=QUEUED | {AllocationState.RUNNING},  # of a group that runs, tasks may wait
        scope=context.scope(Permission.READ),
        vcluster=request.name,
    )
    places = {number: place for place, number in enumerate(context.services.scheduling.queue())}
    waiting = [
        (_rank(record, places), record) async for record in hot_records(context.state, wanted) if _is_waiting(record)
    ]
    waiting.sort(key=lambda pair: pair[0])
    rest = [pair for pair in waiting if after is None or pair[0] > after]
    shown = rest[:limit]
    cursor = make_cursor(*shown[-1][0]) if len(rest) > limit else None
    return Page(items=await _views(context, [Found(record) for _, record in shown]), next_cursor=cursor)


def _is_waiting(record: Allocation | TaskGroup) -> bool:
    if isinstance(record, TaskGroup):
        return record.pending_count > 0
    return record.is_queued


def _rank(record: Allocation | TaskGroup, places: Mapping[int, int]) -> tuple[int, int, int, int]:
    head = record.template if isinstance(record, TaskGroup) else record
    place = places.get(record.number, len(places))
    return (place, -head.preemption_class, head.submitted_at, record.number)


async def _page(
    context: Context, wanted: Selection, request: AllocationQuery, *, with_archive: bool
) -> Page[AllocationView]:
    limit = page_size(request.limit, DEFAULT_PAGE, MAX_PAGE)
    before = read_cursor(request.cursor, tuple[int])[0] if request.cursor else None
    found, more = await pick(context, wanted, before, limit, with_archive=with_archive)
    cursor = make_cursor(found[-1].number) if more else None
    return Page(items=await _views(context, found), next_cursor=cursor)


async def _views(context: Context, found: list[Found]) -> list[AllocationView]:
    pace, views = Pace(), list[AllocationView]()
    for each in found:
        views.append(view_of(context, each))
        if pace.is_due():
            await pace.rest()
    return views


def _with_states(wanted: Selection, states: frozenset[AllocationState]) -> Selection:
    return replace(wanted, states=states)


async def _selection(context: Context, request: AllocationQuery) -> Selection:
    if request.vcluster:
        find_vcluster(context, request.vcluster)
    group, positions = await _group(context, request.group)
    return Selection(
        states=parse_states(request.state),
        scope=context.scope(Permission.READ, request.tenant),
        user=request.user,
        vcluster=request.vcluster,
        project=request.project,
        name=request.name,
        group=group,
        positions=positions,
        tags=tuple(parse_tag(text) for text in request.tag),
        tasks=request.tasks or bool(request.node),
        nodes=frozenset(node_names(request.node, "node")) if request.node else frozenset(),
        since=parse_moment(request.since, "since") if request.since else 0,
        until=parse_moment(request.until, "until") if request.until else 0,
    )


async def _group(context: Context, text: str) -> tuple[int, Intervals]:
    """The group, and which of its tasks when the text names only some."""
    if not text:
        return 0, ()
    task = parse_task_id(text)
    if task is None and parse_task_set(text) is None:
        number = parse_allocation_id(text)
        if number is None:
            raise BadField("group", f'"{text[:60]}" is not the id of a task group', hint="for example a17")
        return number, ()
    found, positions = await find_tasks(context, text, Permission.READ)
    if isinstance(found.record, TaskGroup):
        return found.number, positions
    place = found.number - found.record.group - 1
    return found.record.group, ((place, place + 1),)


# These need the state and nothing else: a server that starts answers them first.
LISTS = (
    row("GET", "/allocations", list_allocations, AllocationQuery, Permission.READ),
    row("GET", "/allocations/count", count_allocations, AllocationQuery, Permission.READ),
)
