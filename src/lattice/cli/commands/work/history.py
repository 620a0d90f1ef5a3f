"""`lattice history`: allocations that have ended, archived or not."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_list
from lattice.cli.times import parse_moment
from lattice.cli.views.allocations import HISTORY_COLUMNS
from lattice_sdk.models.records import AllocationFilter


@dataclass(frozen=True, kw_only=True)
class Options:
    since: str = ""
    until: str = ""
    state: tuple[str, ...] = ()
    user: str = ""
    name: str = ""
    project: str = ""
    tag: tuple[str, ...] = ()
    all: bool = False
    tasks: bool = False
    limit: int | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--since", metavar="TIME", help="finished at or after: 2026-03-01, RFC 3339, 16:30 or 2h (ago)")
    add("--until", metavar="TIME", help="finished before")
    add("--state", action="append", metavar="STATE", help="show only these states (comma-separated)")
    add("--user", metavar="NAME", help="show this user's allocations instead of yours")
    add("--name", metavar="NAME", help="show only allocations with this name")
    add("--project", metavar="NAME", help="show only allocations of this project")
    add("--tag", action="append", metavar="KEY=VALUE", help="show only allocations with this tag; may be repeated")
    add("--all", action="store_true", help="show all users' allocations you may see")
    add("--tasks", action="store_true", help="show each task of task groups")
    add("--limit", type=int, metavar="N", help="show only the newest N")


def run(options: Options, context: Context) -> int:
    now = context.clock.now()
    wanted = AllocationFilter(
        states=tuple(part for text in options.state for part in text.split(",") if part),
        user=options.user or ("" if options.all else context.client.whoami().user),
        tenant=context.flags.tenant or "",
        vcluster=context.flags.vcluster or "",
        name=options.name,
        project=options.project,
        tags=options.tag,
        is_unfolded=options.tasks,
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
