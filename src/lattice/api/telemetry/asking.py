"""Asks the nodes of an allocation what they measured of it."""

import asyncio

from msgspec import Struct

from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.running.step_launch import single
from lattice.api.telemetry.rows import Measured, measured_of
from lattice.core.model.ids import allocation_id
from lattice.core.model.telemetry.catalogue import UnknownMetric, choose
from lattice.core.model.telemetry.modes import Mode
from lattice.core.model.units import format_duration, parse_duration_s
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import AgentUnreachable, RunKey
from lattice.ports.nodes.telemetry import TelemetryAsk, TelemetryTold
from lattice.wire.text.problems import BadField

CONCURRENCY = 64  # nodes that are asked at the same time
DEFAULT_S = 300
MAX_S = 7 * 86_400
KEPT_S = 3600  # by the nodes
MAX_METRICS = 64


class Heard(Struct, kw_only=True):
    """What the nodes or the store answered. `sources` is what nodes read, `note` why it is they who answer."""

    source: str = "agents"
    note: str = ""
    resolution_ms: int = 0  # of the store's answer

    measured: list[Measured] = []
    unreachable: list[str] = []
    refusals: list[str] = []
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    mode: Mode = Mode.PROD
    interval_ms: int = 0
    now_ms: dict[str, int] = {}


async def find_measured(context: Context, text: str) -> Allocation:
    """The allocation, for those who may see what it uses; raises ApiError. Reading sensitive work is recorded."""
    found = single(await find(context, text, Permission.READ_OUTPUT))
    refuse_sensitive(context, found)
    await record_access(context, "allocation.metrics", found)
    return found


def refuse_sensitive(context: Context, allocation: Allocation) -> None:
    """What sensitive work uses is for its owner alone."""
    if allocation.vcluster in context.state.audit.sensitive and allocation.user != context.user:
        raise ApiError(
            "forbidden",
            f"{allocation_id(allocation.number)} is sensitive work",
            hint="only its owner may see what it uses",
        )


def parse_period(text: str, default_s: int = DEFAULT_S) -> int:
    """Seconds; raises BadField."""
    if not text:
        return default_s
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise BadField("duration", str(error), hint="write 5m, 1h or 00:30:00") from None
    if not 1 <= seconds <= MAX_S:
        raise BadField("duration", f'"{text[:60]}" is too short or too long', limit=f"1s to {format_duration(MAX_S)}")
    return seconds


def chosen(names: list[str], *, of_node: bool = False) -> tuple[str, ...]:
    """Metrics by name, several in one word divided by commas; raises BadField."""
    words = [word.strip() for text in names for word in text.split(",") if word.strip()]
    if len(words) > MAX_METRICS:
        raise BadField("metric", "too many", current=str(len(words)), limit=str(MAX_METRICS))
    try:
        return choose(words, of_node=of_node)
    except UnknownMetric as error:
        raise BadField("metric", str(error)) from None


async def ask_nodes(
    context: Context, nodes: tuple[str, ...], key: RunKey | None, since_ms: int, metrics: tuple[str, ...]
) -> Heard:
    """What the nodes have of the run, all of them at once; one that does not answer is named."""
    links = context.services.links
    gate = asyncio.Semaphore(CONCURRENCY)
    ask = TelemetryAsk(key=key, since_ms=since_ms, metrics=metrics)

    async def one(node: str) -> TelemetryTold | None:
        async with gate:
            try:
                return await links.ask_telemetry(node, ask)
            except AgentUnreachable:
                return None

    answers = await asyncio.gather(*(one(node) for node in nodes))
    return heard_of(dict(zip(nodes, answers, strict=True)))


def heard_of(answers: dict[str, TelemetryTold | None]) -> Heard:
    heard = Heard(measured=[], unreachable=[], refusals=[], now_ms={})
    sources: dict[str, None] = {}
    missing: dict[str, None] = {}
    for node, told in answers.items():
        if told is None:
            heard.unreachable.append(node)
        elif told.error:
            heard.refusals.append(f"{node}: {told.error}")
        else:
            heard.measured += [measured_of(node, series) for series in told.series]
            heard.now_ms[node] = told.now_ms
            sources |= dict.fromkeys(told.sources)
            missing |= dict.fromkeys(told.missing)
            if told.mode is not Mode.PROD or not heard.interval_ms:
                heard.mode, heard.interval_ms = told.mode, told.interval_ms
    heard.sources, heard.missing = tuple(sources), tuple(missing)
    return heard
