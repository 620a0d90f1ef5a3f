"""`lattice nodes` and `lattice node list`: the nodes of the cluster."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.errors import OK
from lattice.cli.nodes import COLUMNS, node_sheet
from lattice.cli.output import show_list, show_one
from lattice.cli.recent import remember


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    state: str = ""
    group: str = ""
    limit: int | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="NODE", help="only these, in full")
    add("--state", metavar="STATE", help="only in this state")
    add("--group", metavar="GROUP", help="only of this topology group")
    add("--limit", type=int, metavar="N", help="only the first N")


def run(options: Options, context: Context) -> int:
    if options.ids:
        return _show_named(options.ids, context)
    found = context.client.list_nodes(state=options.state, vcluster=context.flags.vcluster or "", group=options.group)
    remember(context, nodes=(node.id for node in found))
    show_list(context, found[: options.limit], COLUMNS, name=lambda node: node.id)
    return OK


def _show_named(ids: tuple[str, ...], context: Context) -> int:
    found, code = for_each(ids, context.client.get_node, context)
    if len(ids) > 1:
        show_list(context, found, COLUMNS, name=lambda node: node.id)
    elif found:
        show_one(context, found[0], node_sheet(found[0]))
    return code


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice nodes", "lattice nodes --state=draining", "lattice nodes n1"),
)
