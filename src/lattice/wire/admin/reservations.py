"""Advance reservations on the wire: the view, and the request that makes one."""

from typing import Literal

from msgspec import Struct

from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.wire.bounds import NodeSet, Short
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line, check_name, check_names
from lattice.wire.text.times import parse_moment, rfc3339

MAX_REASON = 1024


class ReservationView(Struct, frozen=True, kw_only=True):
    """`start` and `end` as requested; `next_start` and `next_end` are those of the current or next window."""

    name: str
    start: str | None
    end: str | None
    nodes: tuple[str, ...]
    tenants: tuple[str, ...]
    users: tuple[str, ...]
    repeat_s: int
    until: str | None
    reason: str
    created_by: str
    created_at: str | None
    state: Literal["upcoming", "active", "over"]
    next_start: str | None
    next_end: str | None


class ReservationFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /reservations. Either `end` or `duration`."""

    name: str
    start: Short
    request_id: str = ""
    end: Short | None = None
    duration: Short | int | None = None
    nodes: list[str] | NodeSet = []
    tenants: list[str] = []
    users: list[str] = []
    repeat: Short | int | None = None
    until: Short | None = None
    reason: str = ""


def reservation_view(record: AdvanceReservation, now_ms: int) -> ReservationView:
    window = record.occurrence(now_ms)
    return ReservationView(
        name=record.name,
        start=rfc3339(record.start_at),
        end=rfc3339(record.end_at),
        nodes=record.nodes,
        tenants=record.tenants,
        users=record.users,
        repeat_s=record.repeat_s,
        until=rfc3339(record.until),
        reason=record.reason,
        created_by=record.created_by,
        created_at=rfc3339(record.created_at),
        state="over" if window is None else "active" if window[0] <= now_ms else "upcoming",
        next_start=None if window is None else rfc3339(window[0]),
        next_end=None if window is None else rfc3339(window[1]),
    )


def reservation_of(wanted: ReservationFields) -> AdvanceReservation:
    """The record behind a request. Raises BadField."""
    start_at = parse_moment(wanted.start, "start")
    until = parse_moment(wanted.until, "until") if wanted.until is not None else 0
    repeat_s = _seconds(wanted.repeat, "repeat") if wanted.repeat is not None else 0
    if until and not repeat_s:
        raise BadField("until", "only a reservation that repeats has a last time", hint='give "repeat" as well')
    return AdvanceReservation(
        name=_name(wanted.name),
        start_at=start_at,
        end_at=_end(wanted, start_at),
        nodes=node_names(wanted.nodes, "nodes"),
        tenants=check_names(wanted.tenants, "tenants"),
        users=check_names(wanted.users, "users"),
        repeat_s=repeat_s,
        until=until,
        reason=check_line(wanted.reason, "reason", MAX_REASON),
    )


def _name(text: str) -> str:
    """It is a part of the reservation's address, so it cannot be one that addresses take apart."""
    if "/" in text or text in (".", ".."):
        raise BadField("name", f'"{text[:60]}" cannot be part of an address', hint="leave out slashes")
    return check_name(text, "name")


def _end(wanted: ReservationFields, start_at: int) -> int:
    if (wanted.end is None) == (wanted.duration is None):
        what = "neither an end nor a duration" if wanted.end is None else "both an end and a duration"
        raise BadField("", f"the reservation has {what}", hint='give either "end" or "duration"')
    if wanted.end is not None:
        return parse_moment(wanted.end, "end")
    return start_at + _seconds(wanted.duration or 0, "duration") * 1000


def _seconds(value: str | int, field: str) -> int:
    try:
        return parse_duration_s(str(value))
    except BadUnit as error:
        raise BadField(field, str(error)) from None
