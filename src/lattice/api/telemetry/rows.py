"""Windows of several nodes and devices become the rows of an answer. Pure: nothing is asked, nothing is interpolated."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lattice.core.model.telemetry.catalogue import METRICS, merged
from lattice.core.model.telemetry.windows import Window
from lattice.ports.nodes.telemetry import MetricSeries
from lattice.wire.text.times import rfc3339


class MetricPoint(Struct, frozen=True, kw_only=True, gc=False):
    """A window. Percentiles are null where figures of several nodes or devices were put together: they cannot be known."""

    at: str
    length_s: float
    mean: float
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None
    count: int


class MetricRow(Struct, frozen=True, kw_only=True):
    """One metric over the period: `now` is the mean of the newest window. Of all nodes unless it names one.

    `max` is null for a sum over several nodes or devices, whose maxima need not have come together.
    """

    metric: str
    unit: str
    node: str | None
    device: str | None
    now: float
    mean: float
    max: float | None
    count: int
    points: tuple[MetricPoint, ...] = ()


class Measured(Struct, frozen=True, kw_only=True):
    """The windows of one metric on one node and, where it has devices, of one of them."""

    metric: str
    node: str
    device: str
    windows: tuple[Window, ...]


def measured_of(node: str, series: MetricSeries) -> Measured:
    columns = (
        series.at_ms,
        series.length_ms,
        series.mean,
        series.p50,
        series.p95,
        series.p99,
        series.max,
        series.count,
    )
    windows = tuple(Window(*row) for row in zip(*columns, strict=True) if row[-1] > 0)
    return Measured(metric=series.metric, node=node, device=series.device, windows=windows)


def rows_of(
    measured: Iterable[Measured], *, per_node: bool = False, per_device: bool = False, points: bool = False
) -> tuple[MetricRow, ...]:
    """By metric in the order of the catalogue, then by node and device."""
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for each in measured:
        if each.windows:
            node = each.node if per_node or per_device else ""
            groups.setdefault((each.metric, node, each.device if per_device else ""), []).append(each)
    order = {name: at for at, name in enumerate(METRICS)}
    keys = sorted(groups, key=lambda key: (order.get(key[0], len(order)), key[1:]))
    return tuple(_row(metric, node, device, groups[metric, node, device], points) for metric, node, device in keys)


def _row(metric: str, node: str, device: str, group: list[Measured], points: bool) -> MetricRow:
    is_one = len(group) == 1
    means = [_mean(each.windows) for each in group]
    return MetricRow(
        metric=metric,
        unit=METRICS[metric].unit,
        node=node or None,
        device=device or None,
        now=_known(merged(metric, (each.windows[-1].mean for each in group))),
        mean=_known(merged(metric, means)),
        max=max(window.max for window in group[0].windows) if is_one else None,
        count=sum(window.count for each in group for window in each.windows),
        points=_points(metric, group) if points else (),
    )


def _known(value: float | None) -> float:
    """Of a group that has windows there is a figure."""
    return 0.0 if value is None else value


def _mean(windows: Iterable[Window]) -> float:
    """Over all samples, not over windows: the first and the last are often shorter."""
    several = tuple(windows)
    return sum(window.mean * window.count for window in several) / sum(window.count for window in several)


def _points(metric: str, group: list[Measured]) -> tuple[MetricPoint, ...]:
    if len(group) == 1:
        return tuple(_point(window) for window in group[0].windows)
    return tuple(
        MetricPoint(
            at=rfc3339(at_ms) or "",
            length_s=length_ms / 1000,
            mean=_known(merged(metric, (window.mean for window in windows))),
            p50=None,
            p95=None,
            p99=None,
            max=None,
            count=sum(window.count for window in windows),
        )
        for (at_ms, length_ms), windows in _together(group)
    )


def _together(group: Iterable[Measured]) -> list[tuple[tuple[int, int], list[Window]]]:
    """By time. Windows begin at multiples of their length on every node."""
    found: dict[tuple[int, int], list[Window]] = {}
    for each in group:
        for window in each.windows:
            found.setdefault((window.at_ms, window.length_ms), []).append(window)
    return sorted(found.items())


def means_over_time(measured: Iterable[Measured]) -> dict[str, list[tuple[int, int, float]]]:
    """Of each metric, over all nodes and devices: where a window begins, how long it is, and the mean in it."""
    groups: dict[str, list[Measured]] = {}
    for each in measured:
        groups.setdefault(each.metric, []).append(each)
    return {
        metric: [
            (at_ms, length_ms, _known(merged(metric, (window.mean for window in windows))))
            for (at_ms, length_ms), windows in _together(group)
        ]
        for metric, group in groups.items()
    }


def _point(window: Window) -> MetricPoint:
    return MetricPoint(
        at=rfc3339(window.at_ms) or "",
        length_s=window.length_ms / 1000,
        mean=window.mean,
        p50=window.p50,
        p95=window.p95,
        p99=window.p99,
        max=window.max,
        count=window.count,
    )


def newest_ms(measured: Iterable[Measured], now_ms: Mapping[str, int]) -> int:
    """When the newest figure was measured, by the clocks of its nodes: the window that is open ends now."""
    ends = [
        min(each.windows[-1].at_ms + each.windows[-1].length_ms, now_ms.get(each.node, 1 << 62))
        for each in measured
        if each.windows
    ]
    return max(ends, default=0)
