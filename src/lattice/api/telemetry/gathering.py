"""Figures of runs and nodes: from the store where one is configured and answers, otherwise from the nodes; the answer says which."""

import asyncio
import math
from collections.abc import Sequence

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.telemetry.asking import KEPT_S, Heard, ask_nodes
from lattice.api.telemetry.rows import Measured
from lattice.core.model.ids import allocation_id
from lattice.core.model.telemetry.catalogue import CATALOGUE
from lattice.core.model.telemetry.modes import in_force
from lattice.core.model.telemetry.windows import WINDOW_MS
from lattice.core.model.units import format_duration
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import RunKey
from lattice.ports.site.metric_store import StoreAsk, StoredRun, StoredSeries, StoreUnavailable

AGENTS = "agents"
STORE = "store"
RAW_S = KEPT_S  # up to here every window is asked for
STEPS = 240  # into which a longer period is divided
SETTLE_MS = WINDOW_MS + 10_000  # until the last window of ended work has reached the store


async def figures_of(context: Context, found: Allocation, period_s: int, metrics: tuple[str, ...]) -> Heard:
    """What an allocation uses or used at its end; raises ApiError when there is nothing."""
    name = allocation_id(found.number)
    if not found.run or not found.nodes:
        raise ApiError("conflict", f"{name} has not started", hint=f"`lattice explain {name}` says why it waits")
    (heard,) = await figures_of_several(context, [found], period_s, metrics)
    if not heard.measured and found.is_terminal:
        raise ApiError(
            "not_found",
            f"{name} has ended, and its nodes keep figures for {format_duration(KEPT_S)} only",
            hint=f"`lattice status {name}` shows what it used",
        )
    if not heard.measured and len(heard.unreachable) == len(found.nodes):
        raise ApiError("unavailable", f"no node of {name} can be reached", hint="try again when they are connected")
    return heard


async def figures_of_several(
    context: Context, several: Sequence[Allocation], period_s: int, metrics: tuple[str, ...]
) -> list[Heard]:
    """In their order. One question to the store for all that run, one for each that has ended; nodes are asked for the rest."""
    ended = [each for each in several if each.is_terminal]
    alive = [each for each in several if not each.is_terminal]
    stored: dict[int, Heard] = {}
    notes: dict[int, str] = {}
    for together in ([alive] if alive else []) + [[each] for each in ended]:
        found, note = await _stored(context, together, period_s, metrics)
        stored |= found
        notes |= {each.number: note for each in together if each.number not in found}
    asked = [each for each in several if each.number not in stored]
    answers = await asyncio.gather(*(_of_nodes(context, each, period_s, metrics, notes[each.number]) for each in asked))
    stored |= {each.number: heard for each, heard in zip(asked, answers, strict=True)}
    return [stored[each.number] for each in several]


async def _of_nodes(context: Context, found: Allocation, period_s: int, metrics: tuple[str, ...], note: str) -> Heard:
    since_ms = _since_ms(_end_ms(context, found), period_s)
    heard = await ask_nodes(context, found.nodes, RunKey(found.number, found.run), since_ms, metrics)
    heard.note = note or (heard.refusals[0] if heard.refusals and not heard.measured else "")
    return heard


async def _stored(
    context: Context, several: Sequence[Allocation], period_s: int, metrics: tuple[str, ...]
) -> tuple[dict[int, Heard], str]:
    """What the store has, by number, and why the rest has to come from nodes."""
    store = context.services.metric_store
    if store is None or not several:
        return {}, ""
    runs = {StoredRun(allocation_id(each.number), each.run, each.tenant): each for each in several}
    ask = _ask(_end_ms(context, several[0]), period_s, metrics, runs=tuple(runs))
    try:
        series = await store.read(ask)
    except StoreUnavailable as error:
        return {}, f"{error}; the nodes answer"
    found: dict[int, Heard] = {}
    for run, allocation in runs.items():
        # The store believes every label: what it has under other nodes is not of this allocation.
        own = [each for each in series if each.run == run and each.node in allocation.run_nodes]
        if own:
            now_ms = context.services.wall_ms()
            heard = found[allocation.number] = _heard(own, ask, now_ms)
            heard.mode = in_force(allocation.telemetry, now_ms, allocation.started_at)
    return found, "" if len(found) == len(runs) else "the store has nothing of it yet; the nodes answer"


async def figures_of_node(context: Context, node: str, period_s: int, metrics: tuple[str, ...]) -> Heard:
    """What a node uses; raises ApiError when it cannot be asked."""
    store, note = context.services.metric_store, ""
    end_ms = context.services.wall_ms()
    if store is not None:
        names = metrics or tuple(metric.name for metric in CATALOGUE if metric.of_node)
        ask = _ask(end_ms, period_s, names, node=node)
        try:
            series = await store.read(ask)
        except StoreUnavailable as error:
            note = f"{error}; the node answers"
        else:
            own = [each for each in series if each.run is None and each.node == node]
            if own:
                return _heard(own, ask, end_ms)
            note = "the store has nothing of it yet; the node answers"
    heard = await ask_nodes(context, (node,), None, _since_ms(end_ms, period_s), metrics)
    if heard.unreachable:
        raise ApiError("conflict", f"node {node} is not connected", hint="try again when the node is connected")
    if heard.refusals:
        raise ApiError("conflict", heard.refusals[0])
    heard.note = note
    return heard


def _end_ms(context: Context, found: Allocation) -> int:
    """Of ended work, when it ended: its last minutes are asked for, whenever that was."""
    now_ms = context.services.wall_ms()
    return min(now_ms, found.ended_at + SETTLE_MS) if found.is_terminal and found.ended_at else now_ms


def _since_ms(end_ms: int, period_s: int) -> int:
    """The window in which the period begins is whole."""
    return max(0, end_ms - period_s * 1000 - WINDOW_MS)


def _ask(
    end_ms: int, period_s: int, metrics: tuple[str, ...], *, runs: tuple[StoredRun, ...] = (), node: str = ""
) -> StoreAsk:
    windows = math.ceil(period_s * 1000 / STEPS / WINDOW_MS)
    return StoreAsk(
        metrics=metrics,
        begin_ms=_since_ms(end_ms, period_s),
        end_ms=end_ms,
        runs=runs,
        node=node,
        step_ms=0 if period_s <= RAW_S else windows * WINDOW_MS,
    )


def _heard(series: Sequence[StoredSeries], ask: StoreAsk, now_ms: int) -> Heard:
    """By the server's clock: the store does not say what that of the nodes is."""
    measured = [
        Measured(metric=each.metric, node=each.node, device=each.device, windows=each.windows) for each in series
    ]
    last = [each.windows[-1].length_ms for each in measured]
    return Heard(
        source=STORE,
        measured=measured,
        resolution_ms=ask.step_ms or min(last, default=WINDOW_MS),
        now_ms=dict.fromkeys({each.node for each in measured}, now_ms),
    )
