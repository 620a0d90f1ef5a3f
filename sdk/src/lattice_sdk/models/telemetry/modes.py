"""How closely an allocation is measured."""

from msgspec import Struct


class TelemetryRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`mode`: prod or debug. Debug takes a sample each `interval` (1s, or as in 100ms) for `duration` (30m, at most 24h)."""

    mode: str
    duration: str | int | None = None
    interval: str | int | None = None


class TelemetryMode(Struct, frozen=True, kw_only=True):
    """The mode at this moment; `until` is when debug is over, None before the run has started."""

    mode: str
    interval_s: float = 1.0
    duration_s: int = 0
    until: str | None = None


class NodeTelemetry(Struct, frozen=True, kw_only=True):
    """How a node measures itself now."""

    node: str
    mode: str
    interval_s: float = 1.0
