"""`lattice node metrics`: what a node uses."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_list, structured
from lattice.cli.views.figures import ROWS, heading


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""
    metric: tuple[str, ...] = ()
    duration: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="NODE", help="node whose figures to show")
    add("--metric", action="append", default=[], metavar="NAME,...", help="only these metrics; may be repeated")
    add("--duration", default="", metavar="TIME", help="figures of the last TIME, as in 90s or 1h (default: 5m)")


def run(options: Options, context: Context) -> int:
    is_whole = context.output in ("json", "yaml")
    found = context.client.node_metrics(options.id, duration=options.duration, metrics=options.metric, points=is_whole)
    if structured(context, found):
        return OK
    if context.output not in ("csv", "name"):
        context.say(heading(found))
        for each in found.missing:
            context.note(f"not measured by {each}")
    show_list(context, found.items, ROWS, name=lambda row: row.metric)
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice node metrics n1", "lattice node metrics n1 --metric=disk_busy,nic_tx_bytes --duration=1h"),
)
