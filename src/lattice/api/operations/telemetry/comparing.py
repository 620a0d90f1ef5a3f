"""What several allocations used, side by side and counted from the start of each."""

import math

from msgspec import Struct

from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.operations.telemetry.metrics import resolution_s
from lattice.api.running.step_launch import single
from lattice.api.telemetry.asking import MAX_S, Heard, chosen, refuse_sensitive
from lattice.api.telemetry.gathering import AGENTS, STORE, figures_of
from lattice.api.telemetry.rows import means_over_time, rows_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.telemetry.catalogue import METRICS, SHOWN
from lattice.core.model.work.allocations import Allocation
from lattice.wire.bounds import Condition, Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

MAX_COMPARED = 10


class CompareQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ids` names two allocations or more, several in one word divided by commas. `align` is `relative`: all begin at 0."""

    ids: list[Condition] = []
    metrics: list[Condition] = []
    align: Short = "relative"


class ComparedPoint(Struct, frozen=True, kw_only=True, gc=False):
    """The mean of one window, `t_s` seconds after the allocation started."""

    t_s: float
    length_s: float
    mean: float


class ComparedSeries(Struct, frozen=True, kw_only=True):
    """One metric of one allocation, of all its nodes."""

    id: str
    mean: float
    max: float | None
    count: int
    points: tuple[ComparedPoint, ...]


class ComparedMetric(Struct, frozen=True, kw_only=True):
    """One metric; allocations of which it is not known are not in `series`."""

    metric: str
    unit: str
    series: tuple[ComparedSeries, ...]


class Compared(Struct, frozen=True, kw_only=True):
    """One of the allocations: since when and how long it ran, and where its figures come from."""

    id: str
    name: str
    state: str
    started_at: str | None
    elapsed_s: float
    source: str
    note: str
    resolution_s: float


class CompareView(Struct, frozen=True, kw_only=True):
    """`source` is the store if all figures come from there."""

    align: str
    source: str
    allocations: tuple[Compared, ...]
    items: tuple[ComparedMetric, ...]


async def compare(context: Context, request: CompareQuery) -> CompareView:
    """Compare what allocations used, counted from the start of each."""
    if request.align != "relative":
        raise BadField("align", f'no alignment "{request.align}"', hint="relative: each begins at 0")
    metrics = chosen(request.metrics) or SHOWN
    several = await _found(context, request.ids)
    heard = [await figures_of(context, each, _period_s(context, each), metrics) for each in several]
    sources = {each.source for each in heard}
    return CompareView(
        align="relative",
        source=STORE if sources == {STORE} else AGENTS,
        allocations=tuple(_compared(context, *pair) for pair in zip(several, heard, strict=True)),
        items=tuple(_metrics(metrics, several, heard)),
    )


async def _found(context: Context, texts: list[str]) -> list[Allocation]:
    """Those that the caller may see; raises ApiError. Sensitive work is compared with its like alone, and that is recorded."""
    words = list(dict.fromkeys(word.strip() for text in texts for word in text.split(",") if word.strip()))
    if len(words) > MAX_COMPARED:
        raise BadField("ids", "too many", current=str(len(words)), limit=str(MAX_COMPARED))
    several = {}
    for word in words:
        found = single(await find(context, word, Permission.READ_OUTPUT))
        several[found.number] = found
    if len(several) < 2:
        raise BadField("ids", "a comparison needs at least two allocations", hint="lattice compare a17 a18")
    sensitive = [each for each in several.values() if each.vcluster in context.state.audit.sensitive]
    for each in sensitive:
        refuse_sensitive(context, each)
    if sensitive and len(sensitive) < len(several):
        name = allocation_id(sensitive[0].number)
        raise ApiError("forbidden", f"{name} is sensitive work", hint="it is compared with sensitive work alone")
    if len({each.tenant for each in sensitive}) > 1:
        raise ApiError(
            "forbidden", "sensitive work of several tenants is not compared", hint="compare within one tenant"
        )
    for each in sensitive:
        await record_access(context, "allocation.metrics", each, detail="comparison")
    return list(several.values())


def _period_s(context: Context, found: Allocation) -> int:
    """Its whole life, as far as figures reach back."""
    return min(MAX_S, max(1, math.ceil(_elapsed_ms(context, found) / 1000)))


def _elapsed_ms(context: Context, found: Allocation) -> int:
    if not found.started_at:
        return 0
    end_ms = found.ended_at if found.is_terminal and found.ended_at else context.services.wall_ms()
    return max(0, end_ms - found.started_at)


def _compared(context: Context, found: Allocation, heard: Heard) -> Compared:
    return Compared(
        id=allocation_id(found.number),
        name=found.name,
        state=found.state.value,
        started_at=rfc3339(found.started_at) if found.started_at else None,
        elapsed_s=_elapsed_ms(context, found) / 1000,
        source=heard.source,
        note=heard.note,
        resolution_s=resolution_s(heard),
    )


def _metrics(metrics: tuple[str, ...], several: list[Allocation], heard: list[Heard]) -> list[ComparedMetric]:
    found: dict[str, list[ComparedSeries]] = {name: [] for name in metrics}
    for allocation, figures in zip(several, heard, strict=True):
        means = means_over_time(figures.measured)
        for row in rows_of(figures.measured):
            if row.metric not in found:
                continue  # a node may answer more than it was asked
            found[row.metric].append(
                ComparedSeries(
                    id=allocation_id(allocation.number),
                    mean=row.mean,
                    max=row.max,
                    count=row.count,
                    points=_since_start(allocation.started_at, means[row.metric]),
                )
            )
    return [
        ComparedMetric(metric=name, unit=METRICS[name].unit, series=tuple(series))
        for name, series in found.items()
        if series
    ]


def _since_start(started_ms: int, means: list[tuple[int, int, float]]) -> tuple[ComparedPoint, ...]:
    """The window in which it started began before it."""
    return tuple(
        ComparedPoint(t_s=max(0, at_ms - started_ms) / 1000, length_s=length_ms / 1000, mean=mean)
        for at_ms, length_ms, mean in means
        if at_ms + length_ms > started_ms
    )
