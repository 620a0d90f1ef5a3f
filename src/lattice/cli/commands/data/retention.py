"""`lattice retention`: what is kept of work that has ended."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, show_list, structured
from lattice.cli.views.allocations import bytes_text
from lattice_sdk.data.models import Retained

DAY_S = 86400


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""
    release: bool = False


COLUMNS: tuple[Column[Retained], ...] = (
    Column("ID", lambda r: r.id),
    Column("USER", lambda r: r.user),
    Column("CHECKPOINTS", lambda r: str(r.checkpoints) if r.checkpoints else ""),
    Column("SIZE", lambda r: bytes_text(r.bytes) if r.bytes else ""),
    Column("ENDED", lambda r: r.ended_at or ""),
    Column("UNTIL", lambda r: "kept" if r.kept else r.until or ""),
    Column("KEPT_BY", lambda r: r.kept_by, is_sparse=True),
)


def fill_list(parser: argparse.ArgumentParser) -> None:
    del parser


def fill_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="allocation")
    parser.add_argument("--release", action="store_true", help="let them be deleted when their retention ends")


def run_list(options: Options, context: Context) -> int:
    found = context.client.list_retention()
    if structured(context, found):
        return OK
    periods = (("logs", found.logs_s), ("checkpoints", found.checkpoints_s), ("traces", found.traces_s))
    said = [f"{name} {seconds / DAY_S:g} d" if seconds else f"{name} for good" for name, seconds in periods]
    is_read_by_programs = context.output in {"csv", "name"}
    if not is_read_by_programs:
        context.say(f"kept: {', '.join(said)}, results for good")
    if found.items or is_read_by_programs:
        show_list(context, found.items, COLUMNS, name=lambda each: each.id)
    return OK


def run_keep(options: Options, context: Context) -> int:
    found = context.client.keep_retained(options.id, keep=not options.release)
    if not structured(context, found):
        when = f"at {found.until}" if found.until else "when their time is over"
        context.say(f"{found.id}: logs and checkpoints {'are kept' if found.kept else f'go {when}'}")
    return OK


LIST = Command(lists=True, options=Options, fill=fill_list, run=run_list, examples=("lattice retention list",))
KEEP = Command(options=Options, fill=fill_keep, run=run_keep, examples=("lattice retention keep a17",))
