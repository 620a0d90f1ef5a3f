"""`lattice node inventory`: the hardware and software of a node."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_one
from lattice.cli.views.inventories import inventory_sheet


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="NODE", help="node whose inventory to show")


def run(options: Options, context: Context) -> int:
    known = context.client.get_node_inventory(options.id)
    show_one(context, known, [("Node", known.node), *inventory_sheet(known)])
    return OK


COMMAND = Command(
    options=Options, fill=fill, run=run, examples=("lattice node inventory n1", "lattice node inventory n1 -o json")
)
