"""`lattice timeline`: nodes over time, what ran, what runs, what is predicted to start."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, show_list, structured
from lattice.cli.times import parse_moment, stamp_text
from lattice_sdk.models.web.page import TimelineBar


def _tasks(bar: TimelineBar) -> str:
    if bar.tasks is None:
        return "-"
    return f"{bar.tasks} ({bar.failed} failed)" if bar.failed else str(bar.tasks)


COLUMNS: tuple[Column[TimelineBar], ...] = (
    Column("START", lambda bar: stamp_text(bar.start)),
    Column("END", lambda bar: stamp_text(bar.end) or "-"),
    Column("KIND", lambda bar: bar.kind),
    Column("ID", lambda bar: bar.id),
    Column("NAME", lambda bar: bar.name or "-"),
    Column("USER", lambda bar: bar.user),
    Column("STATE", lambda bar: bar.state),
    Column("TASKS", _tasks),
    Column("NODES", lambda bar: bar.nodes),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    since: str = ""
    until: str = ""
    nodes: str = ""
    user: str = ""
    tasks: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--since", metavar="TIME", help="start of the period: RFC 3339, or 2h for two hours ago (default: 6h)")
    add("--until", metavar="TIME", help="end of the period: RFC 3339, or +2h for two hours ahead (default: +6h)")
    add("--nodes", metavar="NODES", help="only these nodes: n1,n[3-5]")
    add("--user", metavar="NAME", help="only allocations of this user")
    add(
        "--tasks",
        action="store_true",
        help="show every task of task groups (default: tasks that follow one another are one line)",
    )


def run(options: Options, context: Context) -> int:
    now = context.clock.now()
    found = context.client.timeline(
        since=parse_moment(options.since, now, past=True) if options.since else "",
        until=parse_moment(options.until, now) if options.until else "",
        nodes=options.nodes,
        user=options.user,
        tasks=options.tasks,
    )
    if structured(context, found):
        return OK
    show_list(context, found.bars, COLUMNS)
    if found.left_out:
        context.warn(f"{found.left_out} more are not shown; choose a shorter period or fewer nodes")
    return OK


COMMAND = Command(
    lists=True,
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice timeline", "lattice timeline --since=1d --nodes=n[1-4]", "lattice timeline -o json"),
)
