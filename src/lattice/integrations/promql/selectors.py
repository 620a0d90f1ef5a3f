"""The queries that a store is asked, and what its answers mean. Pure. Users' words reach no query except as escaped label values."""

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from lattice.core.model.telemetry.catalogue import METRICS
from lattice.core.model.telemetry.windows import WINDOW_MS, Window, figure_of
from lattice.ports.site.metric_store import Selector, StoreAsk, StoredRun, StoredSeries

OF_RUN, OF_NODE = "lattice_allocation_", "lattice_node_"
STATS = ("mean", "p50", "p95", "p99", "max", "count")
MAX_DEVICE = 256
LATEST_S = 120  # an older sample is not known any more
# How each statistic of several windows becomes one; percentiles of several cannot be known.
_OVER = {"mean": "avg_over_time", "max": "max_over_time", "count": "sum_over_time"}
# Agents close windows at multiples of their length: steps that end between two of them share none.
_BETWEEN_MS = WINDOW_MS // 2


class Sampled(Struct, frozen=True):
    """One series of an answer: its labels, and pairs of seconds and text."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None  # of an answer for one moment


def quoted(value: str) -> str:
    """A label value inside a query."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _any_of(values: Iterable[str]) -> str:
    """A matcher for one of several values; RE2 takes a backslash before any punctuation."""
    several = sorted(set(values))
    if len(several) == 1:
        return f"={quoted(several[0])}"
    escaped = (
        "".join(char if char.isalnum() else f"\\{char}" if char.isascii() else char for char in text)
        for text in several
    )
    return f"=~{quoted('|'.join(escaped))}"


def _labels(ask: StoreAsk) -> str:
    if not ask.runs:
        return f"node={quoted(ask.node)}"
    return ",".join(
        (
            f"allocation{_any_of(run.allocation for run in ask.runs)}",
            f"run{_any_of(str(run.run) for run in ask.runs)}",
            f"tenant{_any_of(run.tenant for run in ask.runs)}",
        )
    )


def raw_query(ask: StoreAsk) -> str:
    """Every sample between the two moments, asked at the second one."""
    prefix = OF_RUN if ask.runs else OF_NODE
    seconds = max(1, math.ceil((ask.end_ms - ask.begin_ms) / 1000))
    names = _any_of(prefix + metric for metric in ask.metrics)
    return f"{{__name__{names},{_labels(ask)}}}[{seconds}s]"


def stepped_query(ask: StoreAsk, metric: str) -> str:
    """The windows of each step put together."""
    name = (OF_RUN if ask.runs else OF_NODE) + metric
    labels, seconds = _labels(ask), ask.step_ms // 1000
    return " or ".join(f'{over}({name}{{{labels},stat="{stat}"}}[{seconds}s])' for stat, over in _OVER.items())


def latest_query(selector: Selector, nodes: tuple[str, ...], allocation: str) -> str:
    """The mean over what is labelled with these nodes, and with this allocation or none.

    A matcher of the user never widens that: all of them must hold.
    """
    matchers = [f"{each.label}{each.operator}{quoted(each.value)}" for each in selector.matchers]
    labels = ",".join([*matchers, f"node{_any_of(nodes)}", f'allocation=~"{allocation}|"'])
    return f"avg(last_over_time({selector.name}{{{labels}}}[{LATEST_S}s]))"


def newest_value(found: Iterable[Sampled]) -> float | None:
    values = [figure_of(each.value[1]) for each in found if each.value is not None]
    return next((value for value in values if value is not None), None)


def step_ends(ask: StoreAsk) -> tuple[int, int]:
    """The first and the last moment at which a step ends."""
    first = (ask.begin_ms // ask.step_ms + 1) * ask.step_ms + _BETWEEN_MS
    steps = max(0, math.ceil((ask.end_ms + _BETWEEN_MS - first) / ask.step_ms))
    return first, first + steps * ask.step_ms


def series_of(ask: StoreAsk, answers: Iterable[tuple[str, Sampled]]) -> tuple[StoredSeries, ...]:
    """Series as they were sent, from answers with the name of their metric; what was not asked for is left out."""
    wanted, runs = frozenset(ask.metrics), frozenset(ask.runs)
    found: dict[tuple[StoredRun | None, str, str, str], dict[int, dict[str, float]]] = {}
    for metric, sampled in answers:
        run, stat = _run_of(sampled.metric), sampled.metric.get("stat", "")
        if metric not in wanted or stat not in STATS or (run not in runs if ask.runs else run is not None):
            continue
        device = sampled.metric.get(METRICS[metric].device or "device", "")[:MAX_DEVICE]
        times = found.setdefault((run, sampled.metric.get("node", "")[:MAX_DEVICE], metric, device), {})
        for at_s, text in sampled.values:
            value = figure_of(text)
            if value is not None and math.isfinite(at_s):
                times.setdefault(round(at_s * 1000), {})[stat] = value
    return tuple(
        StoredSeries(run=run, node=node, metric=metric, device=device, windows=windows)
        for (run, node, metric, device), times in found.items()
        if (windows := tuple(_windows(times, ask.step_ms)))
    )


def _run_of(labels: Mapping[str, str]) -> StoredRun | None:
    allocation, run = labels.get("allocation", ""), labels.get("run", "")
    if not allocation or not run.isdecimal() or len(run) > 18:
        return None
    return StoredRun(allocation, int(run), labels.get("tenant", ""))


def _windows(times: Mapping[int, Mapping[str, float]], step_ms: int) -> Iterable[Window]:
    """Samples lie at the ends of their windows. A lone figure is a sample of mode debug, as long as the time since the one before."""
    before_ms = 0
    for end_ms, stats in sorted(times.items()):
        mean = stats.get("mean")
        if mean is None:
            continue
        length_ms = step_ms or (WINDOW_MS if "count" in stats else min(WINDOW_MS, max(1, end_ms - before_ms)))
        before_ms = end_ms
        yield Window(
            end_ms - length_ms,
            length_ms,
            mean,
            stats.get("p50", mean),
            stats.get("p95", mean),
            stats.get("p99", mean),
            stats.get("max", mean),
            max(1, int(min(stats.get("count", 1.0), 2**31))),
        )
