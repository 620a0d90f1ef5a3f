"""`lattice data`: data on the hot tier."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import short_command
from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED, CommandError
from lattice.cli.output import Column, show_list, structured
from lattice.cli.progress import StatusLine
from lattice.cli.views.allocations import bytes_text
from lattice_sdk.data.models import HotCopy

LOOK_EVERY_S = 0.5
BAR = 30  # characters
HELP = "s3://BUCKET/PREFIX, file:///PATH or /PATH"
_ENDED = ("ready", "failed")


@dataclass(frozen=True, kw_only=True)
class Options:
    source: str = ""
    no_wait: bool = False


COLUMNS: tuple[Column[HotCopy], ...] = (
    Column("SOURCE", lambda c: c.source),
    Column("STATE", lambda c: c.state),
    Column("SIZE", lambda c: bytes_text(c.size) if c.size else ""),
    Column("FILES", lambda c: f"{c.files:,}" if c.files else ""),
    Column("DONE", lambda c: f"{c.percent:.0f} %" if c.size else ""),
    Column("USERS", lambda c: str(c.users)),
    Column("TENANT", lambda c: c.tenant, is_wide=True),
    Column("ALLOCATIONS", lambda c: ",".join(c.allocations), is_wide=True),
    Column("CHECKED", lambda c: c.checked_at or "", is_wide=True),
    Column("PROBLEM", lambda c: c.reason, is_sparse=True),
)


def fill_nothing(parser: argparse.ArgumentParser) -> None:
    del parser


def fill_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", metavar="SOURCE", help=f"only this one: {HELP}")


def fill_stage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=HELP)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is there")


def fill_evict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="source as `lattice data list` shows it")


def run_status(options: Options, context: Context) -> int:
    found = context.client.data_tier()
    if structured(context, found):
        return OK
    size = f" of {bytes_text(found.capacity)}" if found.capacity else ""
    context.say(f"hot tier: {bytes_text(found.used)}{size} used")
    context.say(f"movers: {found.movers}")
    context.say(f"waiting for data: {found.waiting}")
    return OK


def run_list(options: Options, context: Context) -> int:
    show_list(context, context.client.list_data(options.source).items, COLUMNS, name=lambda each: each.source)
    return OK


def run_stage(options: Options, context: Context) -> int:
    copy = context.client.stage_data(options.source)
    if not options.no_wait:
        copy = _await(copy, context)
    if copy.state == "failed":
        raise CommandError(f"{copy.source} could not be staged: {copy.reason}", exit_code=REFUSED)
    if not structured(context, copy):
        is_there = copy.state == "ready"
        context.say(f"{copy.source} is on the hot tier" if is_there else f"{copy.source} will be staged")
    return OK


def run_evict(options: Options, context: Context) -> int:
    copy = context.client.evict_data(options.source)
    if not structured(context, copy):
        context.say(f"{copy.source} leaves the hot tier")
    return OK


def _await(copy: HotCopy, context: Context) -> HotCopy:
    """Looks until the copy is there, or will not be."""
    with StatusLine(context) as line:
        while copy.state not in _ENDED:
            line.show(bar_text(copy))
            context.clock.pause(LOOK_EVERY_S)
            found = context.client.list_data(copy.source).items
            if not found:
                raise CommandError(f"{copy.source} was evicted", exit_code=REFUSED)
            copy = found[0]
    return copy


def bar_text(copy: HotCopy) -> str:
    """`[#####.....] 3.1 GB of 12.0 GB, 80.0 MB/s, 110 s left`."""
    filled = int(BAR * copy.percent / 100)
    amounts = f"{bytes_text(copy.bytes_done)} of {bytes_text(copy.size)}" if copy.size else copy.state
    rate = f", {bytes_text(copy.bytes_per_s)}/s" if copy.bytes_per_s else ""
    left = f", {copy.seconds_left:.0f} s left" if copy.seconds_left is not None else ""
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {amounts}{rate}{left}"


STATUS = short_command(Options, fill_nothing, run_status, "lattice data status")
LIST = short_command(
    Options, fill_list, run_list, "lattice data list", "lattice data list s3://training/imagenet -o wide", lists=True
)
STAGE = short_command(Options, fill_stage, run_stage, "lattice data stage s3://training/imagenet")
EVICT = short_command(Options, fill_evict, run_evict, "lattice data evict s3://training/imagenet")
