"""`lattice release`: take a hold back."""

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
        "ids", nargs="+", metavar="ID", help="an allocation, a task group, or tasks of it: a17_3, a17_[3-7,9]"
    )


def run(options: Options, context: Context) -> int:
    return order_allocations(options.ids, context.client.release, lambda _: "released", context)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice release a17", "lattice release 'a17_[3-7,9]'", "lattice release a17 a18 -o json"),
)
