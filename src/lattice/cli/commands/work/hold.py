"""`lattice hold`: keep a pending allocation from starting."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_allocations


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ids", nargs="+", metavar="ID", help="allocation, task group, or tasks of a group: a17_3, a17_[3-7,9]"
    )


def run(options: Options, context: Context) -> int:
    return order_allocations(options.ids, context.client.hold, lambda _: "held", context)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice hold a17", "lattice hold 'a17_[3-7,9]'", "lattice hold a17 a18 -o json"),
)
