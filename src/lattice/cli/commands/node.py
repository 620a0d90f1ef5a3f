"""`lattice node drain|undrain|disable|enable|status`: an operator's orders for nodes."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each, order_each
from lattice.cli.errors import REFUSED, CommandError, UsageError
from lattice.cli.nodes import COLUMNS, node_sheet
from lattice.cli.output import show_list, show_one
from lattice_sdk.client import Client
from lattice_sdk.models import Node

Order = Callable[[Client, str, str], Node]


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    reason: str = ""
    urgent: bool = False
    yes: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="NODE", help="one node or several")
    parser.add_argument("--reason", metavar="TEXT", help="why; shown with the node")


def fill_drain(parser: argparse.ArgumentParser) -> None:
    fill(parser)
    parser.add_argument("--urgent", action="store_true", help="not supported by this version")


def fill_disable(parser: argparse.ArgumentParser) -> None:
    fill(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")


def fill_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="NODE", help="one node or several")


def run_status(options: Options, context: Context) -> int:
    found, code = for_each(options.ids, context.client.get_node, context)
    if len(options.ids) > 1:
        show_list(context, found, COLUMNS, name=lambda node: node.id)
    elif found:
        show_one(context, found[0], node_sheet(found[0]))
    return code


def run_drain(options: Options, context: Context) -> int:
    if options.urgent:
        raise UsageError("--urgent is not supported by this version of Lattice")
    return _give(Client.drain_node, options, context)


def run_undrain(options: Options, context: Context) -> int:
    return _give(Client.undrain_node, options, context)


def run_enable(options: Options, context: Context) -> int:
    return _give(Client.enable_node, options, context)


def run_disable(options: Options, context: Context) -> int:
    if context.streams.is_interactive and not options.yes:
        _confirm(options.ids, context)
    return _give(Client.disable_node, options, context)


def _give(order: Order, options: Options, context: Context) -> int:
    return order_each(
        options.ids,
        lambda name: order(context.client, name, options.reason),
        lambda node: f"{node.id} is {node.state}",
        context,
    )


def _confirm(ids: tuple[str, ...], context: Context) -> None:
    question = f"Take {', '.join(ids)} down now? What runs there is requeued or fails. [y/N] "
    context.streams.complain(question)
    answer = context.streams.stdin.readline().decode("utf-8", "replace").strip().lower()
    if answer not in {"y", "yes"}:
        raise CommandError("not confirmed; nothing was changed", exit_code=REFUSED)


STATUS = Command(options=Options, fill=fill_status, run=run_status, examples=("lattice node status n1",))
DRAIN = Command(
    options=Options,
    fill=fill_drain,
    run=run_drain,
    examples=('lattice node drain n1 --reason="fan 3"',),
)
UNDRAIN = Command(options=Options, fill=fill, run=run_undrain, examples=("lattice node undrain n1",))
DISABLE = Command(options=Options, fill=fill_disable, run=run_disable, examples=("lattice node disable n1 --yes",))
ENABLE = Command(options=Options, fill=fill, run=run_enable, examples=("lattice node enable n1",))
