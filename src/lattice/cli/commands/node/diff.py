"""`lattice node diff A B`: show which components of two nodes differ. As with diff, exit code 1 means they do."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED
from lattice.cli.output import Column, structured, table
from lattice_sdk.models.conformance import Difference

DIFFERENT = REFUSED


@dataclass(frozen=True, kw_only=True)
class Options:
    first: str = ""
    second: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help="first node")
    parser.add_argument("second", metavar="B", help="second node")


def run(options: Options, context: Context) -> int:
    found = context.client.diff_nodes(options.first, options.second)
    code = OK if found.is_same else DIFFERENT
    if structured(context, found):
        return code
    if found.is_same:
        context.say(f"{found.first} and {found.second} are identical: {found.first_fingerprint[:12]}")
        return code
    columns: tuple[Column[Difference], ...] = (
        Column("COMPONENT", lambda each: each.component),
        Column(found.first, lambda each: each.expected),
        Column(found.second, lambda each: each.actual),
    )
    context.streams.write(table(found.differences, columns, wide=True, coloured=False))
    return code


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice node diff n1 n2", "lattice node diff n1 n2 -o json"),
)
