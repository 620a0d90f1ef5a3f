"""`lattice hold`: keep a pending allocation from starting."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="an allocation, a task or a task group")


def run(options: Options, context: Context) -> int:
    return order_each(options.ids, context.client.hold, lambda allocation: f"{allocation.id} held", context)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice hold a17", "lattice hold a17 a18 -o json"),
)
