"""Nodes over time: what ran, what runs, what is expected to start, and what is reserved."""

from collections.abc import AsyncIterator, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.prospects import is_queued
from lattice.api.find.selection import Selection, archived_records, hot_records
from lattice.api.find.visibility import visible_reservations
from lattice.api.operations.web.folding import BarKind, Span, folded
from lattice.api.pacing import Pace
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.work.allocations import QUEUED, TERMINAL, Allocation, AllocationState, TaskGroup
from lattice.slurm.text.hostlists import fold
from lattice.wire.bounds import NodeSet, Short
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import parse_moment, rfc3339

DEFAULT_BARS, MAX_BARS = 2000, 10_000
BACK_MS, AHEAD_MS = 6 * 3600_000, 6 * 3600_000
LONGEST_MS = 400 * 86400_000
MAX_OCCURRENCES = 100  # of one reservation
FOLDED_PARTS = 200  # tasks of a group that are closer than this part of the period are one bar

_BEGUN = frozenset(AllocationState) - QUEUED
_WAITING = QUEUED | {AllocationState.RUNNING}  # of a group that runs, tasks may wait


class TimelineQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Default: six hours back and six hours ahead, all nodes. With `tasks`, the tasks of a group are not folded."""

    since: Short = ""
    until: Short = ""
    nodes: NodeSet = ""
    user: str = ""
    limit: int | None = None
    tasks: bool = False


class TimelineBar(Struct, frozen=True, kw_only=True):
    """`end` of what runs or is expected is that of its walltime, null where it has none. `nodes` is folded, as in n[1-4].

    Tasks of a group that follow one another on a node are one bar: `id` is the group's, `tasks` counts them, `failed` those that failed.
    """

    id: str
    name: str
    user: str
    own: bool
    kind: BarKind
    state: str
    group_id: str | None
    start: str | None
    end: str | None
    nodes: str
    tasks: int | None = None
    failed: int | None = None


class TimelineReservation(Struct, frozen=True, kw_only=True):
    """Without nodes it is about all of them."""

    name: str
    start: str | None
    end: str | None
    nodes: str
    maintenance: bool


class TimelineNode(Struct, frozen=True, gc=False):
    name: str
    state: str


class TimelineView(Struct, frozen=True, kw_only=True):
    """`left_out` counts bars beyond the limit."""

    now: str | None
    since: str | None
    until: str | None
    nodes: tuple[TimelineNode, ...]
    bars: tuple[TimelineBar, ...]
    reservations: tuple[TimelineReservation, ...]
    left_out: int


class _Window(Struct, frozen=True):
    now: int
    since: int
    until: int

    def overlaps(self, start: int, end: int) -> bool:
        return start < self.until and (not end or end > self.since)


async def timeline(context: Context, request: TimelineQuery) -> TimelineView:
    """Nodes over time: past and running allocations that the caller may see, predicted starts, and reservations."""
    window = _window(context, request)
    limit = DEFAULT_BARS if request.limit is None else request.limit
    if not 1 <= limit <= MAX_BARS:
        raise BadField("limit", f"{limit} is not between 1 and {MAX_BARS:,}")
    chosen = _chosen_nodes(context, request.nodes)
    spans: Iterable[Span] = [span async for span in _spans(context, request.user, window, chosen)]
    if not request.tasks:
        spans = folded(spans, (window.until - window.since) // FOLDED_PARTS)
    bars = [_bar(context, span) for span in spans]
    bars.sort(key=lambda bar: (bar.start or "", bar.id))
    # What runs and what comes is worth more than what was.
    kept = sorted(bars, key=lambda bar: bar.kind == "past")[:limit] if len(bars) > limit else bars
    return TimelineView(
        now=rfc3339(window.now),
        since=rfc3339(window.since),
        until=rfc3339(window.until),
        nodes=tuple(TimelineNode(name, str(context.state.nodes[name].state)) for name in chosen),
        bars=tuple(kept),
        reservations=tuple(_reservations(context, window)),
        left_out=len(bars) - len(kept),
    )


def _window(context: Context, request: TimelineQuery) -> _Window:
    now = context.services.clock.now_ms()
    since = parse_moment(request.since, "since") if request.since else now - BACK_MS
    until = parse_moment(request.until, "until") if request.until else max(now, since) + AHEAD_MS
    if not since < until <= since + LONGEST_MS:
        raise ApiError("invalid", "until: has to be after since, and within 400 days of it")
    return _Window(now, since, until)


def _chosen_nodes(context: Context, text: str) -> list[str]:
    known = context.state.nodes
    if not text:
        return sorted(known, key=_natural)
    return sorted({name for name in node_names(text, "nodes") if name in known}, key=_natural)


def _natural(name: str) -> tuple[str, int, str]:
    """So that n2 comes before n10."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head, int(digits[:18] or 0), name


async def _spans(context: Context, user: str, window: _Window, chosen: list[str]) -> AsyncIterator[Span]:
    scope = context.scope(Permission.READ)
    seen, names = set[int](), frozenset(chosen)
    begun = Selection(scope=scope, user=user, tasks=True, states=_BEGUN)
    async for record in hot_records(context.state, begun):
        if isinstance(record, Allocation) and record.number not in seen:
            seen.add(record.number)
            span = _held(record, window, names)
            if span is not None:
                yield span
    async for waiting in hot_records(context.state, Selection(scope=scope, user=user, states=_WAITING)):
        span = _predicted(context, waiting, window, names)
        if span is not None:
            yield span
    ended = Selection(scope=scope, user=user, tasks=True, states=TERMINAL, since=window.since)
    pace = Pace()
    async for archived in archived_records(context, ended, None):
        if isinstance(archived, Allocation) and archived.number not in seen:
            span = _held(archived, window, names)
            if span is not None:
                yield span
        if pace.is_due():
            await pace.rest()


def _held(record: Allocation, window: _Window, names: frozenset[str]) -> Span | None:
    """Where it runs or ran."""
    start = record.started_at
    if not start:
        return None
    end = record.ended_at or (max(start + record.walltime_s * 1000, window.now) if record.walltime_s else 0)
    kind: BarKind = "past" if record.is_terminal else "running"
    return _span(record, kind, (start, end), record.nodes, window, names)


def _predicted(context: Context, record: Allocation | TaskGroup, window: _Window, names: frozenset[str]) -> Span | None:
    """Where the last cycle expects it; of a group its next task."""
    outlook = context.services.scheduling.outlook(record.number)
    head = replace(record.template, number=record.number) if isinstance(record, TaskGroup) else record
    is_waiting = record.pending_count > 0 if isinstance(record, TaskGroup) else not record.started_at
    if outlook is None or outlook.predicted_start is None or not is_waiting or not is_queued(head, window.now):
        return None
    start = outlook.predicted_start
    end = start + head.walltime_s * 1000 if head.walltime_s else 0
    return _span(head, "predicted", (start, end), outlook.predicted_nodes, window, names)


def _span(
    record: Allocation,
    kind: BarKind,
    period: tuple[int, int],
    nodes: tuple[str, ...],
    window: _Window,
    names: frozenset[str],
) -> Span | None:
    shown = tuple(name for name in nodes if name in names)
    return Span(record, kind, *period, shown) if shown and window.overlaps(*period) else None


def _bar(context: Context, span: Span) -> TimelineBar:
    record = span.record
    is_folded = span.tasks is not None
    return TimelineBar(
        id=allocation_id(record.group if is_folded else record.number),
        name=record.name,
        user=record.user,
        own=record.user == context.user,
        kind=span.kind,
        state=_state(span),
        group_id=allocation_id(record.group) if record.group else None,
        start=rfc3339(span.start),
        end=rfc3339(span.end) if span.end else None,
        nodes=fold(span.nodes),
        tasks=span.tasks,
        failed=span.failed,
    )


def _state(span: Span) -> str:
    """Of several tasks that ended: Failed only if all of them did."""
    if span.tasks is None or span.kind != "past":
        return str(span.record.state)
    return str(AllocationState.FAILED if span.failed == span.tasks else AllocationState.COMPLETED)


def _reservations(context: Context, window: _Window) -> Iterator[TimelineReservation]:
    for record in sorted(visible_reservations(context).values(), key=lambda each: (each.start_at, each.name)):
        for start, end in _occurrences(record, window):
            yield TimelineReservation(
                name=record.name,
                start=rfc3339(start),
                end=rfc3339(end),
                nodes=fold(record.nodes),
                maintenance=not record.tenants and not record.users,
            )


def _occurrences(record: AdvanceReservation, window: _Window) -> Iterator[tuple[int, int]]:
    moment = window.since
    for _ in range(MAX_OCCURRENCES):
        found = record.occurrence(moment)
        if found is None or found[0] >= window.until:
            return
        yield found
        moment = found[1]
