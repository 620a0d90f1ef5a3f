"""`lattice admin reservation`: nodes reserved for tenants, users or maintenance."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.constraints import expand_names
from lattice.cli.input.fields import chosen_name
from lattice.cli.output import Column, show_list, show_one, structured
from lattice.cli.times import parse_moment, stamp_text
from lattice_sdk.models.records import Reservation

SHOWN_NODES = 8


@dataclass(frozen=True, kw_only=True)
class Options:
    names: tuple[str, ...] = ()
    name: str = ""
    start: str = ""
    end: str = ""
    duration: str = ""
    nodes: str = ""
    user: tuple[str, ...] = ()
    repeat: str = ""
    until: str = ""
    reason: str = ""


def fill_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of the reservation")
    parser.add_argument("--name", metavar="NAME", help="same as the positional NAME")


def fill_create(parser: argparse.ArgumentParser) -> None:
    fill_name(parser)
    add = parser.add_argument
    add("--start", metavar="TIME", help="start time: RFC 3339, now or +2h")
    add("--duration", metavar="TIME", help="length: 30m, 4h, 2d")
    add("--end", metavar="TIME", help="end time, instead of --duration")
    add("--nodes", metavar="NODES", help="nodes to reserve: n1,n[3-5] (default: all)")
    add("--user", action="append", metavar="NAME", help="reserve for this user; may be repeated")
    add("--repeat", metavar="TIME", help="repeat at this interval, e.g. 7d")
    add("--until", metavar="TIME", help="last time a repetition may start")
    add("--reason", metavar="TEXT", help="reason, shown to users whose work waits for it")


def run_create(options: Options, context: Context) -> int:
    name = chosen_name(options.names, options.name, "reservation")
    if not options.start or bool(options.end) == bool(options.duration):
        raise UsageError(
            "a reservation needs --start, and either --duration or --end", hint="--start=+1h --duration=4h"
        )
    reservation = context.client.create_reservation({"name": name, **_fields(options, context)})
    if not structured(context, reservation):
        context.say(f"Created reservation {reservation.name}: {_window(reservation)}, {_whom(reservation)}")
    return OK


def _fields(options: Options, context: Context) -> dict[str, object]:
    now = context.clock.now()
    fields: dict[str, object] = {
        "start": parse_moment(options.start, now),
        "end": parse_moment(options.end, now) if options.end else None,
        "duration": options.duration or None,
        "nodes": expand_names(options.nodes),
        "tenants": [name for name in (context.flags.tenant or "").split(",") if name],
        "users": [name for text in options.user for name in text.split(",") if name],
        "repeat": options.repeat or None,
        "until": parse_moment(options.until, now) if options.until else None,
        "reason": options.reason,
    }
    return {key: value for key, value in fields.items() if value}


def _window(reservation: Reservation) -> str:
    start, end = reservation.next_start or reservation.start, reservation.next_end or reservation.end
    return f"{start} to {end}"


def _whom(reservation: Reservation) -> str:
    admitted = [*(f"tenant {name}" for name in reservation.tenants), *(f"user {name}" for name in reservation.users)]
    return f"for {', '.join(admitted)}" if admitted else "maintenance"


def _nodes(reservation: Reservation) -> str:
    shown = ",".join(reservation.nodes[:SHOWN_NODES])
    more = len(reservation.nodes) - SHOWN_NODES
    return (f"{shown},+{more}" if more > 0 else shown) or "all"


def _repeat(reservation: Reservation) -> str:
    if not reservation.repeat_s:
        return ""
    until = f" until {reservation.until}" if reservation.until else ""
    return f"every {_period(int(reservation.repeat_s))}{until}"


def _period(seconds: int) -> str:
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"


COLUMNS: tuple[Column[Reservation], ...] = (
    Column("RESERVATION", lambda r: r.name),
    Column("STATE", lambda r: r.state),
    Column("START", lambda r: r.next_start or r.start or ""),
    Column("END", lambda r: r.next_end or r.end or ""),
    Column("NODES", _nodes),
    Column("TENANTS", lambda r: ",".join(r.tenants)),
    Column("USERS", lambda r: ",".join(r.users)),
    Column("REPEAT", _repeat, is_sparse=True),
    Column("REASON", lambda r: r.reason, is_sparse=True),
    Column("CREATED_BY", lambda r: r.created_by, is_wide=True),
    Column("CREATED", lambda r: stamp_text(r.created_at), is_wide=True),
)


def run_list(_options: Options, context: Context) -> int:
    show_list(context, context.client.list_reservations(), COLUMNS, name=lambda reservation: reservation.name)
    return OK


def run_show(options: Options, context: Context) -> int:
    reservation = context.client.get_reservation(chosen_name(options.names, options.name, "reservation"))
    pairs = [
        ("Reservation", reservation.name),
        ("State", reservation.state),
        ("Window", _window(reservation)),
        ("First window", f"{reservation.start} to {reservation.end}"),
        ("Repeats", _repeat(reservation)),
        ("Nodes", ",".join(reservation.nodes) or "all"),
        ("Tenants", ",".join(reservation.tenants)),
        ("Users", ",".join(reservation.users)),
        ("Reason", reservation.reason),
        ("Created by", reservation.created_by),
        ("Created at", stamp_text(reservation.created_at)),
    ]
    show_one(context, reservation, pairs)
    return OK


def run_delete(options: Options, context: Context) -> int:
    names = (*options.names, *([options.name] if options.name else []))
    if not names:
        raise UsageError("name the reservations to delete")
    return order_each(names, lambda name: _delete(name, context), lambda name: f"Deleted reservation {name}", context)


def _delete(name: str, context: Context) -> str:
    context.client.delete_reservation(name)
    return name


CREATE = Command(
    options=Options,
    fill=fill_create,
    run=run_create,
    examples=(
        "lattice admin reservation create maintenance --start=2026-03-01T06:00:00Z --duration=4h --reason='new firmware'",
        "lattice admin reservation create course --start=+1h --end=+3h --nodes=n[1-4] --tenant=physics --repeat=7d",
    ),
)
LIST = Command(lists=True, options=Options, run=run_list, examples=("lattice admin reservation list",))
SHOW = Command(options=Options, fill=fill_name, run=run_show, examples=("lattice admin reservation show maintenance",))
DELETE = Command(
    options=Options, fill=fill_name, run=run_delete, examples=("lattice admin reservation delete maintenance",)
)
