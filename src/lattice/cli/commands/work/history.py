"""`lattice history`: allocations that have ended, archived or not."""

import argparse
from dataclasses import dataclass

import msgspec

from lattice.cli.arranged import allow_list_formats
from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.input.selection import Selection, add_selection, selected
from lattice.cli.output import chosen_columns, show_list, sorted_rows
from lattice.cli.times import parse_moment
from lattice.cli.views.allocations import HISTORY_COLUMNS

ON_TERMINAL = 100


@dataclass(frozen=True, kw_only=True)
class Options(Selection):
    since: str = ""
    until: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--since", metavar="TIME", help="finished at or after: 2026-03-01, RFC 3339, 16:30 or 2h (ago)")
    add("--until", metavar="TIME", help="finished before")
    add_selection(add)
    allow_list_formats(parser)


def run(options: Options, context: Context) -> int:
    now = context.clock.now()
    wanted = msgspec.structs.replace(
        selected(options, context),
        since=parse_moment(options.since, now, past=True) if options.since else "",
        until=parse_moment(options.until, now, past=True) if options.until else "",
    )
    is_cut = options.limit is None and not options.since and _is_for_eyes(context)
    limit = ON_TERMINAL if is_cut else options.limit
    if limit is None:
        found = list(context.client.iter_history(wanted))
    else:
        found = context.client.history(wanted, limit=max(1, limit)).items
    found.sort(key=lambda allocation: allocation.number)
    rows = sorted_rows(options, found, HISTORY_COLUMNS)
    columns = chosen_columns(options, HISTORY_COLUMNS)
    headers = not options.no_headers
    show_list(context, rows, columns, name=lambda allocation: allocation.id, headers=headers, paged=True)
    if is_cut and len(found) == ON_TERMINAL:
        context.note(f"these are the newest {ON_TERMINAL}; use --limit=N or --since=TIME for more")
    return OK


def _is_for_eyes(context: Context) -> bool:
    return context.streams.stdout.isatty() and context.output in {"table", "wide"}


COMMAND = Command(
    options=Options,
    has_vcluster=True,
    dashed=frozenset({"--sort"}),
    fill=fill,
    run=run,
    examples=(
        "lattice history",
        "lattice history --since=2026-03-01 --until=2026-03-02",
        "lattice history --all --state=failed --limit=20 -o json",
        "lattice history --columns=id,name,elapsed,cpu_eff --sort=-elapsed",
    ),
)
