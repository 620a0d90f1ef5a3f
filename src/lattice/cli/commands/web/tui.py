"""`lattice tui`: the cluster on a screen of the terminal."""

import argparse
from dataclasses import dataclass
from importlib.util import find_spec

from msgspec.structs import replace

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError

EXTRA = "pip install 'lattice-hpc[tui]'"


@dataclass(frozen=True, kw_only=True)
class Options:
    view: str = "allocations"
    mouse: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows allocations, nodes, the timeline, DAGs, services and usage on a screen of the terminal, live, and takes orders: "
        "`/` filters, `:` runs any command of lattice, `?` lists the keys. It needs 60 x 12 characters."
    )
    add = parser.add_argument
    add(
        "view",
        nargs="?",
        default="allocations",
        metavar="VIEW",
        help="what to show first: allocations?state:failed, allocations/a17, nodes, timeline, ... (default: allocations)",
    )
    add("--mouse", action="store_true", help="take the mouse: click to choose and to sort, wheel to scroll")


def run(options: Options, context: Context) -> int:
    if find_spec("textual") is None:
        raise CommandError("`lattice tui` needs textual, which is not installed", hint=f"install it with {EXTRA}")
    if not context.streams.is_interactive:
        raise UsageError("`lattice tui` needs a terminal", hint="`lattice status` prints the same once")
    from lattice.cli.tui.app import run_tui
    from lattice.cli.tui.places import view_at

    view_at(options.view, context.clock)
    context.settings.place()
    # Notes on stderr would be written across the screen, which says itself when no server answers.
    quiet = Context(process=context.process, flags=replace(context.flags, quiet=True))
    run_tui(quiet, options.view, has_mouse=options.mouse)
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice tui", "lattice tui 'allocations?state:failed since:1d'", "lattice tui nodes --mouse"),
)
