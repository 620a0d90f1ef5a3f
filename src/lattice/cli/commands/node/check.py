"""`lattice node check`: run health checks now and show the results."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.errors import OK, REFUSED
from lattice.cli.input.node_sets import read_names
from lattice.cli.output import structured, table
from lattice.cli.views.checks import CHECK_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="NODE", help="nodes or node sets: n1 nid[001-128,200]")
    parser.add_argument(
        "--only", action="append", default=[], metavar="CHECK", help="run only this check; may be repeated"
    )


def run(options: Options, context: Context) -> int:
    """Exit code 1 when a check fails."""
    names = read_names(options.ids)
    found, code = for_each(names.names, lambda node: context.client.check_node(node, options.only), context)
    shown = found[0] if names.is_one and found else found
    if not structured(context, shown):
        for each in found:
            context.streams.write(f"{each.node} is {each.state}\n")
            if each.checks:
                wide = context.output == "wide"
                context.streams.write(table(each.checks, CHECK_COLUMNS, wide=wide, coloured=context.is_coloured))
            else:
                context.streams.write("no checks\n")
    return code or (OK if all(each.ok for each in found) else REFUSED)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice node check n1", "lattice node check n1 --only=disk_space"),
)
