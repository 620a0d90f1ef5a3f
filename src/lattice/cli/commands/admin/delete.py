"""`lattice admin tenant|project|vcluster|node delete`: what nothing uses any more."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.input.node_sets import read_names


@dataclass(frozen=True, kw_only=True)
class Options:
    names: tuple[str, ...] = ()


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="what to delete; refused while anything uses it")


def fill_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NODE", help="one node or several: n1,n[3-5]")


def run_tenant(options: Options, context: Context) -> int:
    return _delete(options.names, context.client.delete_tenant, "tenant", context)


def run_project(options: Options, context: Context) -> int:
    tenant = context.settings.tenant or context.client.whoami().tenant or ""
    return _delete(options.names, lambda name: context.client.delete_project(tenant, name), "project", context)


def run_vcluster(options: Options, context: Context) -> int:
    return _delete(options.names, context.client.delete_vcluster, "vCluster", context)


def run_node(options: Options, context: Context) -> int:
    return _delete(read_names(options.names).names, context.client.delete_node, "node", context)


def _delete(names: Sequence[str], call: Callable[[str], None], what: str, context: Context) -> int:
    def delete(name: str) -> str:
        call(name)
        return name

    return order_each(names, delete, lambda name: f"Deleted {what} {name}", context)


TENANT = Command(options=Options, fill=fill, run=run_tenant, examples=("lattice admin tenant delete chemistry",))
PROJECT = Command(
    options=Options, fill=fill, run=run_project, examples=("lattice admin project delete lhc --tenant=physics",)
)
VCLUSTER = Command(options=Options, fill=fill, run=run_vcluster, examples=("lattice admin vcluster delete debug",))
NODE = Command(
    options=Options,
    fill=fill_nodes,
    run=run_node,
    examples=("lattice admin node delete n17", "lattice admin node delete 'n[1-64]'"),
)
