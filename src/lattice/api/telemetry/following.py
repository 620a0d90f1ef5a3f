"""The streams of several nodes as one: windows as they end, and alerts."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from msgspec import UNSET, Struct, UnsetType

from lattice.api.answers import ServerEvent
from lattice.api.telemetry.rows import Measured
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.core.model.telemetry.modes import Mode
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.ports.nodes.telemetry import MetricAlert, MetricSeries, TelemetryAsk, TelemetryLinks, TelemetryTold
from lattice.wire.text.times import rfc3339

QUEUED = 1024
AGAIN_S = 1.0
TRIES = 5  # of a node that is not connected, or does not measure the run yet


class FigureView(Struct, frozen=True, kw_only=True, gc=False):
    """One metric in one window."""

    metric: str
    unit: str
    device: str | None
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    count: int


class FiguresView(Struct, frozen=True, kw_only=True):
    """What a node measured in one window; event `figures`. `mode` is how it measures now."""

    node: str
    at: str
    length_s: float
    mode: str
    figures: tuple[FigureView, ...]


class AlertView(Struct, frozen=True, kw_only=True):
    """A threshold that was crossed, or with `over` no longer is; event `alert`."""

    node: str
    at: str
    rule: str
    text: str
    metric: str
    device: str | None
    value: float
    over: bool


class Followed(Struct, frozen=True, kw_only=True):
    """A run whose figures follow; event `run`, or `end` after the last one. With a node and a `problem`: this node cannot say them."""

    run: int
    nodes: tuple[str, ...] = ()
    problem: str | UnsetType = UNSET


Event = ServerEvent[FiguresView | AlertView | Followed]


async def followed(
    links: TelemetryLinks, nodes: tuple[str, ...], ask: TelemetryAsk, *, alerts_only: bool
) -> AsyncGenerator[Event, None]:
    """What all of the nodes say, until each of them has said that the run is over there."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUED)
    tasks = [asyncio.create_task(_follow(links, node, ask, queue, alerts_only=alerts_only)) for node in nodes]
    left = len(tasks)
    try:
        while left:
            event = await queue.get()
            if event is None:
                left -= 1
            else:
                yield event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    links: TelemetryLinks, node: str, ask: TelemetryAsk, queue: asyncio.Queue[Event | None], *, alerts_only: bool
) -> None:
    run = ask.key.run if ask.key is not None else 0
    try:
        problem = ""
        for _ in range(TRIES):
            try:
                async for told in links.follow_telemetry(node, ask):
                    problem = told.error
                    for event in events_of(node, told, alerts_only=alerts_only):
                        await queue.put(event)
                    if told.ended:
                        return
            except AgentUnreachable as unreachable:
                problem = str(unreachable)
            await asyncio.sleep(AGAIN_S)
        await queue.put(ServerEvent(Followed(run=run, nodes=(node,), problem=problem), event="run"))
    finally:
        await queue.put(None)


def events_of(node: str, told: TelemetryTold, *, alerts_only: bool) -> list[Event]:
    events: list[Event] = [ServerEvent(_alert(node, alert), event="alert") for alert in told.alerts]
    if alerts_only:
        return events
    windows: dict[tuple[int, int], list[FigureView]] = {}
    for series in told.series:
        for at, (at_ms, length_ms) in enumerate(zip(series.at_ms, series.length_ms, strict=True)):
            windows.setdefault((at_ms, length_ms), []).append(_figure(series, at))
    for (at_ms, length_ms), figures in sorted(windows.items()):
        view = FiguresView(
            node=node,
            at=rfc3339(at_ms) or "",
            length_s=length_ms / 1000,
            mode=told.mode.value,
            figures=tuple(figures),
        )
        events.append(ServerEvent(view, event="figures"))
    return events


def past_events(measured: Iterable[Measured], mode: Mode, now_ms: int) -> list[Event]:
    """Windows that have ended, oldest first, each with all that a node measured in it."""
    windows: dict[tuple[int, int, str], list[FigureView]] = {}
    for each in measured:
        for window in each.windows:
            if window.at_ms + window.length_ms <= now_ms:
                figure = FigureView(
                    metric=each.metric,
                    unit=METRICS[each.metric].unit,
                    device=each.device or None,
                    **{name: getattr(window, name) for name in ("mean", "p50", "p95", "p99", "max", "count")},
                )
                windows.setdefault((window.at_ms, window.length_ms, each.node), []).append(figure)
    return [
        ServerEvent(
            FiguresView(
                node=node, at=rfc3339(at_ms) or "", length_s=length_ms / 1000, mode=mode.value, figures=tuple(figures)
            ),
            event="figures",
        )
        for (at_ms, length_ms, node), figures in sorted(windows.items())
    ]


def _figure(series: MetricSeries, at: int) -> FigureView:
    return FigureView(
        metric=series.metric,
        unit=METRICS[series.metric].unit,
        device=series.device or None,
        mean=series.mean[at],
        p50=series.p50[at],
        p95=series.p95[at],
        p99=series.p99[at],
        max=series.max[at],
        count=series.count[at],
    )


def _alert(node: str, alert: MetricAlert) -> AlertView:
    return AlertView(
        node=node,
        at=rfc3339(alert.at_ms) or "",
        rule=alert.rule,
        text=alert.text,
        metric=alert.metric,
        device=alert.device or None,
        value=alert.value,
        over=alert.is_over,
    )
