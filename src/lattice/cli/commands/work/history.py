"""`lattice history`: allocations that have ended, archived or not."""

import argparse
from dataclasses import dataclass

import msgspec

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.input.selection import Selection, add_selection, selected
from lattice.cli.output import show_list
from lattice.cli.times import parse_moment
from lattice.cli.views.allocations import HISTORY_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Options(Selection):
    since: str = ""
    until: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--since", metavar="TIME", help="finished at or after: 2026-03-01, RFC 3339, 16:30 or 2h (ago)")
    add("--until", metavar="TIME", help="finished before")
    add_selection(add)


def run(options: Options, context: Context) -> int:
    now = context.clock.now()
    wanted = msgspec.structs.replace(
        selected(options, context),
        since=parse_moment(options.since, now, past=True) if options.since else "",
        until=parse_moment(options.until, now, past=True) if options.until else "",
    )
    if options.limit is None:
        found = list(context.client.iter_history(wanted))
    else:
        found = context.client.history(wanted, limit=max(1, options.limit)).items
    found.sort(key=lambda allocation: allocation.number)
    show_list(context, found, HISTORY_COLUMNS, name=lambda allocation: allocation.id)
    return OK


COMMAND = Command(
    options=Options,
    has_vcluster=True,
    fill=fill,
    run=run,
    examples=(
        "lattice history",
        "lattice history --since=2026-03-01 --until=2026-03-02",
        "lattice history --all --state=failed --limit=20 -o json",
    ),
)
