"""`lattice node events`: the event history of a node."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, show_list
from lattice.cli.times import parse_moment
from lattice_sdk.models.nodes import NodeEvent


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""
    since: str = ""
    limit: int | None = None


COLUMNS: tuple[Column[NodeEvent], ...] = (
    Column("WHEN", lambda event: event.at or ""),
    Column("WHAT", lambda event: event.trigger),
    Column("FROM", lambda event: event.previous),
    Column("TO", lambda event: event.state),
    Column("BY", lambda event: event.by),
    Column("WHY", lambda event: event.reason),
    Column("LOST", lambda event: ",".join(event.allocations), is_sparse=True),
)


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="NODE", help="node whose events to show")
    parser.add_argument("--since", metavar="TIME", help="show only events since: 2h (ago), 10:30, 2026-03-01")
    parser.add_argument("--limit", type=int, metavar="N", help="show only the newest N")


def run(options: Options, context: Context) -> int:
    since = parse_moment(options.since, context.clock.now(), past=True) if options.since else ""
    events = context.client.node_events(options.id, since=since)
    if options.limit is not None:
        events = events[-options.limit :] if options.limit > 0 else []
    show_list(context, events, COLUMNS)
    return OK


COMMAND = Command(
    lists=True,
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice node events n1", "lattice node events n1 --since=2h -o json"),
)
