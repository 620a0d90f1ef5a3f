"""What running work and nodes use: figures over the last minutes, and as they come."""

from collections.abc import AsyncGenerator

from msgspec import Struct

from lattice.api.answers import EventAnswer, ServerEvent
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.telemetry.asking import Heard, chosen, find_measured, parse_period, refuse_sensitive
from lattice.api.telemetry.following import AlertView, FiguresView, Followed, followed, past_events
from lattice.api.telemetry.gathering import AGENTS, STORE, figures_of, figures_of_node, figures_of_several
from lattice.api.telemetry.rows import MetricRow, newest_ms, rows_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.telemetry.catalogue import METRICS, SHOWN
from lattice.core.model.telemetry.modes import Mode
from lattice.core.model.telemetry.windows import WINDOW_MS
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import TelemetryAsk
from lattice.wire.bounds import Condition, Short
from lattice.wire.text.problems import BadField

SHAPES = ("summary", "per_node", "per_gpu", "wide")
MAX_LISTED = 100
LOOK_AGAIN_S = 5.0


class MetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mode`: summary (default), per_node, per_gpu, wide (every metric). `metric` chooses by name; `points` adds the single windows."""

    id: str
    mode: Short = "summary"
    duration: Short = ""
    metric: list[Condition] = []
    points: bool = False


class NodeMetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    duration: Short = ""
    metric: list[Condition] = []
    points: bool = False


class RunningMetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the caller's running allocations; with `all` of every running allocation whose figures the caller may see."""

    all: bool = False
    duration: Short = ""
    metric: list[Condition] = []


class MetricsStreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`history` is how far back it begins: with the windows of the last 10m, for example."""

    id: str
    metric: list[Condition] = []
    alerts_only: bool = False
    history: Short = ""


class MetricsView(Struct, frozen=True, kw_only=True):
    """`source` is where the figures come from (agents, store), `read` what nodes read them from, `age_s` how old the newest is.

    `missing` are sources that nodes cannot read, each with the reason; `unreachable` are nodes that did not answer.
    What is not measured is not in `items`.
    """

    id: str
    source: str
    note: str
    read: tuple[str, ...]
    missing: tuple[str, ...]
    mode: str
    resolution_s: float
    age_s: float | None
    items: tuple[MetricRow, ...]
    unreachable: tuple[str, ...]


class RunningMetrics(Struct, frozen=True, kw_only=True):
    """One allocation that runs; its figures are of all its nodes."""

    id: str
    name: str
    user: str
    nodes: int
    age_s: float | None
    items: tuple[MetricRow, ...]


class RunningMetricsView(Struct, frozen=True, kw_only=True):
    """`left_out` counts allocations beyond those that are listed, `note` says why it is the nodes that answered."""

    source: str
    note: str
    items: tuple[RunningMetrics, ...]
    left_out: int


async def query_metrics(context: Context, request: MetricsQuery) -> MetricsView:
    """Get what an allocation uses, over the last minutes: by metric, for all its nodes, by node or by GPU."""
    if request.mode not in SHAPES:
        raise BadField("mode", f'no mode "{request.mode}"', hint=f"one of {', '.join(SHAPES)}")
    period_s = parse_period(request.duration)
    metrics = chosen(request.metric) or shown(request.mode)
    found = await find_measured(context, request.id)
    heard = await figures_of(context, found, period_s, metrics)
    rows = rows_of(
        heard.measured,
        per_node=request.mode == "per_node",
        per_device=request.mode == "per_gpu",
        points=request.points,
    )
    return _view(allocation_id(found.number), heard, rows)


def shown(mode: str) -> tuple[str, ...]:
    """The metrics of a mode that names none."""
    match mode:
        case "wide":
            return tuple(name for name, metric in METRICS.items() if metric.of_run)
        case "per_gpu":
            return tuple(name for name, metric in METRICS.items() if metric.device == "gpu")
        case _:
            return SHOWN


def _view(name: str, heard: Heard, rows: tuple[MetricRow, ...]) -> MetricsView:
    return MetricsView(
        id=name,
        source=heard.source,
        note=heard.note,
        read=heard.sources,
        missing=heard.missing,
        mode=heard.mode.value,
        resolution_s=resolution_s(heard),
        age_s=_age_s(heard),
        items=rows,
        unreachable=tuple(heard.unreachable),
    )


def resolution_s(heard: Heard) -> float:
    """How long the newest windows are."""
    if heard.resolution_ms:
        return heard.resolution_ms / 1000
    return heard.interval_ms / 1000 if heard.mode is Mode.DEBUG else WINDOW_MS / 1000


def _age_s(heard: Heard) -> float | None:
    """By the nodes' own clocks, so that it says nothing of how these differ from ours."""
    newest = newest_ms(heard.measured, heard.now_ms)
    return round(max(0, max(heard.now_ms.values()) - newest) / 1000, 3) if newest and heard.now_ms else None


async def running_metrics(context: Context, request: RunningMetricsQuery) -> RunningMetricsView:
    """Get what running allocations use: the caller's own, or all that the caller may see."""
    period_s = parse_period(request.duration)
    metrics = chosen(request.metric) or SHOWN
    numbers = sorted({number for node in context.state.nodes.values() for number in node.holders()})
    held = (context.state.find(number) for number in numbers)
    running = [each for each in held if each is not None and _is_listed(context, each, everybody=request.all)]
    several = running[:MAX_LISTED]
    heard = await figures_of_several(context, several, period_s, metrics)
    return RunningMetricsView(
        source=STORE if heard and all(each.source == STORE for each in heard) else AGENTS,
        note=next((each.note for each in heard if each.note), ""),
        items=tuple(_running(each, figures) for each, figures in zip(several, heard, strict=True)),
        left_out=max(0, len(running) - MAX_LISTED),
    )


def _is_listed(context: Context, allocation: Allocation, *, everybody: bool) -> bool:
    if not allocation.is_running:
        return False
    if allocation.user == context.user and not everybody:
        return allocation.tenant in context.identity.tenants or context.covers(
            Permission.READ_OUTPUT, user=allocation.user, tenant=allocation.tenant
        )
    if not everybody or allocation.vcluster in context.state.audit.sensitive:
        return False
    return context.covers(Permission.READ_OUTPUT, user=allocation.user, tenant=allocation.tenant)


def _running(found: Allocation, heard: Heard) -> RunningMetrics:
    return RunningMetrics(
        id=allocation_id(found.number),
        name=found.name,
        user=found.user,
        nodes=len(found.nodes),
        age_s=_age_s(heard),
        items=rows_of(heard.measured),
    )


async def node_metrics(context: Context, request: NodeMetricsQuery) -> MetricsView:
    """Get what a node uses, over the last minutes: CPUs, memory, disks, network interfaces, power."""
    if request.id not in context.state.nodes:
        raise unknown("node", request.id, context.state.nodes)
    metrics = chosen(request.metric, of_node=True)
    heard = await figures_of_node(context, request.id, parse_period(request.duration), metrics)
    return _view(request.id, heard, rows_of(heard.measured, per_device=True, points=request.points))


async def stream_metrics(
    context: Context, request: MetricsStreamQuery
) -> EventAnswer[FiguresView | AlertView | Followed]:
    """Stream what an allocation uses, window by window as its nodes measure it, and the alerts about it."""
    metrics = chosen(request.metric)
    history_s = parse_period(request.history, 0)
    if history_s and request.alerts_only:
        raise BadField("history", "alerts have no history", hint="leave out history or alerts_only")
    found = await find_measured(context, request.id)
    if found.is_terminal:
        name = allocation_id(found.number)
        raise ApiError("conflict", f"{name} has ended", hint=f"`lattice top {name}` shows its last figures")
    before = await _history(context, found, history_s, metrics) if history_s and found.run and found.nodes else []
    return EventAnswer(_events(context, found.number, metrics, before, alerts_only=request.alerts_only))


async def _history(
    context: Context, found: Allocation, period_s: int, metrics: tuple[str, ...]
) -> list[ServerEvent[FiguresView | AlertView | Followed]]:
    """The windows that have ended, by time, as the stream would have shown them."""
    names = metrics or tuple(name for name, metric in METRICS.items() if metric.of_run)
    heard = await figures_of(context, found, period_s, names)
    return past_events(heard.measured, heard.mode, context.services.wall_ms())


async def _events(
    context: Context,
    number: int,
    metrics: tuple[str, ...],
    before: list[ServerEvent[FiguresView | AlertView | Followed]],
    *,
    alerts_only: bool,
) -> AsyncGenerator[ServerEvent[FiguresView | AlertView | Followed], None]:
    """Run after run, until the allocation has ended."""
    last = (0, frozenset[str]())
    while True:
        found = context.state.find(number)
        if found is None or found.is_terminal:
            # Without it a client would take the stream up again.
            yield ServerEvent(Followed(run=last[0]), event="end")
            return
        refuse_sensitive(context, found)
        run = (found.run, frozenset(found.nodes))
        if run == last or not found.run or not found.is_holding:
            if context.services.feed.is_closed:
                return
            await context.services.feed.next_change_of(number, LOOK_AGAIN_S)
            continue
        last = run
        yield ServerEvent(Followed(run=found.run, nodes=found.nodes), event="run")
        while before:
            yield before.pop(0)
        ask = TelemetryAsk(
            key=RunKey(number, found.run),
            since_ms=context.services.wall_ms(),
            metrics=metrics,
            follow=True,
        )
        async for event in followed(context.services.links, found.nodes, ask, alerts_only=alerts_only):
            yield event
