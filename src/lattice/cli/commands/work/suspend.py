"""`lattice suspend`: suspend running allocations; they keep their nodes, and their walltime is paused."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_allocations


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="allocation, or task of a group: a17, a17_3")


def run(options: Options, context: Context) -> int:
    return order_allocations(options.ids, context.client.suspend, lambda _: "suspended", context)


COMMAND = Command(
    options=Options, fill=fill, run=run, examples=("lattice suspend a17", "lattice suspend a17 a18 -o json")
)
