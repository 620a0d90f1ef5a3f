"""`lattice node drain|undrain|disable|enable|reboot|fault|status` and `lattice admin node wipe`: an operator's orders for nodes and sets of them."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.errors import NOT_FOUND, OK, CommandError
from lattice.cli.input.node_sets import NodeNames, announce, confirm, read_names, tell
from lattice.cli.output import show_list, show_one, structured
from lattice.cli.views.inventories import in_full
from lattice.cli.views.nodes import COLUMNS
from lattice.slurm.text.hostlists import fold
from lattice_sdk.client import Client
from lattice_sdk.models.nodes import NodeOutcome
from lattice_sdk.models.records import Node

ONE_BY_ONE = 8  # more nodes than these are read in one list


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    reason: str = ""
    urgent: bool = False
    yes: bool = False
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Order:
    """How an order is given to one node and to a set, and what is happening meanwhile.

    Without `one` a node is ordered as a set of one, because only such an answer says what is left to do.
    """

    doing: str
    several: Callable[[Client, str, Options], list[NodeOutcome]]
    one: Callable[[Client, str, Options], Node] | None = None
    becomes: str = ""  # what to say where the state alone would mislead


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="NODE", help="nodes or node sets: n1 nid[001-128,200]")
    parser.add_argument("--reason", metavar="TEXT", help="reason, shown with the node and in its events")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def fill_drain(parser: argparse.ArgumentParser) -> None:
    fill(parser)
    parser.add_argument("--urgent", action="store_true", help="stop and requeue the allocations that run there")


def fill_wipe(parser: argparse.ArgumentParser) -> None:
    fill(parser)
    parser.add_argument(
        "--force", action="store_true", help="wipe again, or mark a node without a wiper as wiped by hand"
    )


def fill_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="NODE", help="nodes or node sets: n1 nid[001-128,200]")


def run_status(options: Options, context: Context) -> int:
    names = read_names(options.ids)
    if len(names.names) > ONE_BY_ONE:
        show_list(context, _listed(names, context), COLUMNS, name=lambda node: node.id)
        return OK
    found, code = for_each(names.names, context.client.get_node, context)
    if not names.is_one:
        show_list(context, found, COLUMNS, name=lambda node: node.id)
    elif found:
        show_one(context, *in_full(context, found[0]))
    return code


def _listed(names: NodeNames, context: Context) -> list[Node]:
    known = {node.id: node for node in context.client.list_nodes(nodes=names.typed)}
    missing = [name for name in names.names if name not in known]
    if missing:
        raise CommandError(f"unknown nodes: {fold(missing)}", exit_code=NOT_FOUND)
    return [known[name] for name in names.names]


def run_drain(options: Options, context: Context) -> int:
    names = read_names(options.ids)
    if options.urgent and not options.yes:
        confirm(f"Drain {names} immediately? Work that runs there is stopped and requeued.", context)
    return _give(DRAINING, names, options, context)


def run_undrain(options: Options, context: Context) -> int:
    return _give(UNDRAINING, read_names(options.ids), options, context)


def run_enable(options: Options, context: Context) -> int:
    return _give(ENABLING, read_names(options.ids), options, context)


def run_reboot(options: Options, context: Context) -> int:
    return _give(REBOOTING, read_names(options.ids), options, context)


def run_wipe(options: Options, context: Context) -> int:
    names = read_names(options.ids)
    is_meant = options.yes or (options.force and not context.streams.is_interactive)
    if not is_meant:
        confirm(f"Wipe {names}? Everything that was left there is erased.", context)
    return _give(WIPING, names, options, context)


def run_fault(options: Options, context: Context) -> int:
    return _give(FAULT_REPORT, read_names(options.ids), options, context)


def run_disable(options: Options, context: Context) -> int:
    names = read_names(options.ids)
    if not options.yes:
        confirm(f"Take {names} down now? What runs there is requeued or fails.", context)
    return _give(DISABLING, names, options, context)


def _give(order: Order, names: NodeNames, options: Options, context: Context) -> int:
    if not names.is_one or order.one is None:
        announce(order.doing, names, context)
        outcomes = order.several(context.client, names.typed, options)
        code = tell(outcomes, context, is_one=names.is_one, becomes=order.becomes)
        _say_where_to_look(order, context)
        return code
    node = order.one(context.client, names.typed, options)
    if not structured(context, node):
        context.say(f"{node.id} is {order.becomes or node.state}")
    _say_where_to_look(order, context)
    return OK


def _say_where_to_look(order: Order, context: Context) -> None:
    if order is WIPING:
        context.note("`lattice node events NODE` says whether the wipe succeeded")


DRAINING = Order(
    doing="draining",
    one=lambda client, node, options: client.drain_node(node, options.reason, urgent=options.urgent),
    several=lambda client, nodes, options: client.drain_node_set(nodes, options.reason, urgent=options.urgent),
)
UNDRAINING = Order(
    doing="undraining",
    one=lambda client, node, options: client.undrain_node(node, options.reason),
    several=lambda client, nodes, options: client.undrain_node_set(nodes, options.reason),
)
DISABLING = Order(
    doing="disabling",
    one=lambda client, node, options: client.disable_node(node, options.reason),
    several=lambda client, nodes, options: client.disable_node_set(nodes, options.reason),
)
ENABLING = Order(
    doing="enabling",
    one=lambda client, node, options: client.enable_node(node, options.reason),
    several=lambda client, nodes, options: client.enable_node_set(nodes, options.reason),
)
REBOOTING = Order(
    doing="rebooting",
    several=lambda client, nodes, options: client.reboot_node_set(nodes, options.reason),
)
WIPING = Order(
    doing="wiping",
    one=lambda client, node, options: client.wipe_node(node, options.reason, force=options.force),
    becomes="to be wiped",
    several=lambda client, nodes, options: client.wipe_node_set(nodes, options.reason, force=options.force),
)
FAULT_REPORT = Order(
    doing="reporting a failure of",
    one=lambda client, node, options: client.fault_node(node, options.reason),
    several=lambda client, nodes, options: client.fault_node_set(nodes, options.reason),
)

STATUS = Command(
    options=Options,
    fill=fill_status,
    run=run_status,
    examples=("lattice node status n1", "lattice node status nid[001-016] -o wide"),
)
DRAIN = Command(
    options=Options,
    fill=fill_drain,
    run=run_drain,
    examples=('lattice node drain n1 --reason="fan 3"', 'lattice node drain "nid[001-128,200]" --reason="new filters"'),
)
UNDRAIN = Command(
    options=Options,
    fill=fill,
    run=run_undrain,
    examples=("lattice node undrain n1", 'lattice node undrain "nid[001-128]"'),
)
DISABLE = Command(options=Options, fill=fill, run=run_disable, examples=("lattice node disable n1 --yes",))
ENABLE = Command(options=Options, fill=fill, run=run_enable, examples=("lattice node enable n1",))
REBOOT = Command(
    options=Options,
    fill=fill,
    run=run_reboot,
    examples=('lattice node reboot n1 --reason="new kernel"', 'lattice node reboot "nid[001-016]"'),
)
WIPE = Command(
    options=Options,
    fill=fill_wipe,
    run=run_wipe,
    examples=("lattice admin node wipe n1 --force",),
)
FAULT = Command(
    options=Options,
    fill=fill,
    run=run_fault,
    examples=('lattice node fault n1 --reason="uncorrectable ECC, DIMM 4"',),
)
