"""`lattice checkpoint list` and `show`."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import Column, sheet, show_list, structured
from lattice.cli.times import stamp_text
from lattice.cli.views.allocations import bytes_text
from lattice_sdk.models.runs import Checkpoint

WRITING, COMPLETE, FAILED = "writing", "complete", "failed"


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    id: str = ""
    n: int = 0


COLUMNS: tuple[Column[Checkpoint], ...] = (
    Column("N", lambda each: str(each.n)),
    Column("STATE", lambda each: each.state),
    Column("RUN", lambda each: str(each.run)),
    Column("REASON", lambda each: each.reason),
    Column("REQUESTED", lambda each: stamp_text(each.requested_at)),
    Column("SIZE", lambda each: bytes_text(each.bytes) if each.state == COMPLETE else ""),
    Column("SECONDS", lambda each: f"{each.seconds:.1f}" if each.state == COMPLETE else ""),
    Column("STORED", lambda each: "yes" if each.stored else "no", is_wide=True),
    Column("PATH", lambda each: each.path, is_wide=True),
    Column("MESSAGE", lambda each: each.message, is_sparse=True),
)


def fill_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="allocation or task")


def fill_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="allocation or task")
    parser.add_argument(
        "n", type=int, metavar="N", help="number of the checkpoint, as `lattice checkpoint list` shows it"
    )


def run_list(options: ListOptions, context: Context) -> int:
    show_list(context, context.client.list_checkpoints(options.id), COLUMNS)
    return OK


def run_show(options: ShowOptions, context: Context) -> int:
    found = context.client.get_checkpoint(options.id, options.n)
    if not structured(context, found):
        context.streams.write(sheet(_pairs(found)))
    return OK


def _pairs(found: Checkpoint) -> list[tuple[str, str]]:
    pairs = [
        ("Checkpoint", str(found.n)),
        ("State", found.state),
        ("Run", str(found.run)),
        ("Reason", found.reason),
        ("Requested", stamp_text(found.requested_at)),
        ("Completed", stamp_text(found.completed_at)),
        ("Size", bytes_text(found.bytes)),
        ("Seconds", f"{found.seconds:.3f}"),
        ("Nodes", str(found.nodes)),
        ("Path", found.path),
        ("Stored", "in the object store" if found.stored else ""),
        ("Message", found.message),
    ]
    return [(name, value) for name, value in pairs if value]


def outcome_text(name: str, found: Checkpoint) -> str:
    """One line about what became of a request."""
    if found.state == COMPLETE:
        return f"{name}: checkpoint {found.n} is complete ({bytes_text(found.bytes)} in {found.seconds:.1f} s, {found.path})"
    if found.state == FAILED:
        return f"{name}: checkpoint {found.n} failed: {found.message}"
    return f"{name}: checkpoint {found.n} requested"


LIST = Command(lists=True, options=ListOptions, fill=fill_list, run=run_list, examples=("lattice checkpoint list a17",))
SHOW = Command(options=ShowOptions, fill=fill_show, run=run_show, examples=("lattice checkpoint show a17 2",))
