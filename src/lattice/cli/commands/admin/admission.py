"""`lattice admin node admit|revoke`: who may be a node."""

import argparse
from dataclasses import dataclass
from functools import partial

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.input.node_sets import read_names
from lattice_sdk.models.nodes import NodeAdmission


@dataclass(frozen=True, kw_only=True)
class Options:
    nodes: tuple[str, ...] = ()
    reason: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="one node or several: n1,n[3-5]")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; it stands in the audit chain")


def run_admit(options: Options, context: Context) -> int:
    call = partial(context.client.admit_node, reason=options.reason)
    return order_each(read_names(options.nodes).names, call, _told, context)


def run_revoke(options: Options, context: Context) -> int:
    call = partial(context.client.revoke_node, reason=options.reason)
    return order_each(read_names(options.nodes).names, call, _told, context)


def _told(judged: NodeAdmission) -> str:
    where = f", {judged.state}" if judged.state else ", not seen yet"
    told = f"{judged.node} is {judged.standing}{where}"
    # A revocation ends what was issued before it: without this the node waits, and only the log of its agent says why.
    return f"{told}; its agent needs credentials issued after {judged.valid_from}" if judged.valid_from else told


ADMIT = Command(
    options=Options,
    fill=fill,
    run=run_admit,
    examples=("lattice admin node admit n17", "lattice admin node admit 'n[1-64]'"),
)
REVOKE = Command(
    options=Options, fill=fill, run=run_revoke, examples=('lattice admin node revoke n17 --reason "key was copied"',)
)
