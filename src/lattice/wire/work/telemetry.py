"""How closely an allocation is measured, as users ask for it and as it is shown."""

import re

from msgspec import Struct

from lattice.core.model.telemetry.modes import (
    DEFAULT_DURATION_S,
    DEFAULT_INTERVAL_MS,
    BadMode,
    Mode,
    Telemetry,
    check_mode,
    in_force,
)
from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.core.model.work.allocations import Allocation
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

_MILLISECONDS = re.compile(r"(\d{1,6})ms")


class TelemetryFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mode`: prod, debug or, for sensitive work, audit. Debug takes a sample each `interval` (1s, or as in 100ms) for `duration` (30m, at most 24h)."""

    mode: Short
    duration: Short | int | None = None
    interval: Short | int | None = None


class TelemetryView(Struct, frozen=True, kw_only=True):
    """The mode at this moment; `until` is when debug is over, null before the run has started."""

    mode: str
    interval_s: float
    duration_s: int
    until: str | None


def read_telemetry(asked: TelemetryFields | None, field: str = "telemetry") -> Telemetry | None:
    """What was asked for, checked. Raises BadField."""
    if asked is None:
        return None
    modes = [mode.value for mode in Mode]
    if asked.mode not in modes:
        raise BadField(f"{field}.mode", f'no mode "{asked.mode}"', hint=f"one of {', '.join(modes)}")
    mode = Mode(asked.mode)
    if mode is not Mode.DEBUG and (asked.duration is not None or asked.interval is not None):
        name = "duration" if asked.duration is not None else "interval"
        raise BadField(f"{field}.{name}", f"is for mode debug; mode {mode.value} has none", hint="leave it out")
    found = Telemetry(
        mode=mode,
        interval_ms=_interval_ms(asked.interval, f"{field}.interval"),
        duration_s=DEFAULT_DURATION_S if asked.duration is None else _seconds(asked.duration, f"{field}.duration"),
    )
    try:
        check_mode(found)
    except BadMode as error:
        raise BadField(field, str(error)) from None
    return found


def _seconds(value: str | int, field: str) -> int:
    try:
        return parse_duration_s(str(value))
    except BadUnit as error:
        raise BadField(field, str(error)) from None


def _interval_ms(value: str | int | None, field: str) -> int:
    if value is None:
        return DEFAULT_INTERVAL_MS
    short = _MILLISECONDS.fullmatch(str(value).strip())
    return int(short[1]) if short else 1000 * _seconds(value, field)


def telemetry_view(record: Allocation, now_ms: int) -> TelemetryView | None:
    """None where mode prod is all there ever was."""
    asked = record.telemetry
    if asked is None:
        return None
    begun = asked.since_ms or record.started_at
    is_debug = asked.mode is Mode.DEBUG
    return TelemetryView(
        mode=(asked.mode if not begun else in_force(asked, now_ms, record.started_at)).value,
        interval_s=asked.interval_ms / 1000,
        duration_s=asked.duration_s if is_debug else 0,
        until=rfc3339(begun + asked.duration_s * 1000) if is_debug and begun else None,
    )
