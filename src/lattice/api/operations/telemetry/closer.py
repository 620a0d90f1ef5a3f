"""A closer look at a node itself, for a while."""

from msgspec import Struct

from lattice.api.auditing import record
from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.core.model.telemetry.modes import Mode, RunMode
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.ports.nodes.telemetry import TelemetryAsk
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.work.telemetry import TelemetryFields, read_telemetry


class NodeTelemetryRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mode`: prod or debug. Debug takes a sample each `interval` (1s, or as in 100ms) for `duration` (30m, at most 24h)."""

    id: str
    mode: Short
    duration: Short | int | None = None
    interval: Short | int | None = None


class NodeTelemetryView(Struct, frozen=True, kw_only=True):
    """How the node measures itself now."""

    node: str
    mode: str
    interval_s: float


async def set_node_telemetry(context: Context, request: NodeTelemetryRequest) -> NodeTelemetryView:
    """Measure a node more closely for a while, or as usual again. The node returns to mode prod by its own clock."""
    fields = TelemetryFields(mode=request.mode, duration=request.duration, interval=request.interval)
    asked = read_telemetry(fields)
    if request.id not in context.state.nodes:
        raise unknown("node", request.id, context.state.nodes)
    if asked is None:
        raise ApiError("invalid", "no mode")
    if asked.mode is Mode.AUDIT:
        raise BadField("mode", "audit is for sensitive work, not for nodes", hint="prod or debug")
    await record(context, "node.telemetry", request.id, detail=f"mode {asked.mode.value}")
    left_s = float(asked.duration_s) if asked.mode is Mode.DEBUG else 0.0
    mode = RunMode(mode=asked.mode, interval_ms=asked.interval_ms, left_s=left_s)
    ask = TelemetryAsk(since_ms=context.services.wall_ms(), metrics=("load1",), mode=mode)
    try:
        told = await context.services.links.ask_telemetry(request.id, ask)
    except AgentUnreachable:
        raise ApiError(
            "conflict", f"node {request.id} is not connected", hint="try again when the node is connected"
        ) from None
    if told.mode is not asked.mode:
        raise ApiError("conflict", told.error or f"the agent of {request.id} cannot change its mode", hint="upgrade it")
    return NodeTelemetryView(node=request.id, mode=told.mode.value, interval_s=told.interval_ms / 1000)
