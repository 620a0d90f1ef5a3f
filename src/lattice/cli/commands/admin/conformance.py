"""`lattice admin conformance status|refresh|baseline` and `lattice admin node approve`: are the nodes what they should be?"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import order_each
from lattice.cli.errors import OK, REFUSED, UsageError
from lattice.cli.input.node_sets import read_names
from lattice.cli.output import Column, show_one, structured, table
from lattice.cli.times import stamp_text
from lattice.slurm.text.hostlists import fold
from lattice_sdk.models.conformance import Baseline, Conformance, ConformanceGroup, Difference, Drift

R = TypeVar("R")

SHOWN = 12  # characters of a fingerprint that tell it from others
MAX_COUNT = 3


@dataclass(frozen=True, kw_only=True)
class Options:
    nodes: tuple[str, ...] = ()
    vcluster_name: str = ""
    node: str = ""
    fingerprint: str = ""


def fill_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="*", metavar="NODES", help="nodes to re-read: n1,n[3-5] (default: all)")


def fill_approve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="nodes to approve")


def fill_vcluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vcluster_name", metavar="VCLUSTER", help="vCluster of the baseline")


def fill_set(parser: argparse.ArgumentParser) -> None:
    fill_vcluster(parser)
    parser.add_argument("--node", metavar="NODE", help="use the current state of this node")
    parser.add_argument(
        "--fingerprint", metavar="F", help="use this fingerprint: all 64 digits, or a prefix of one in use"
    )


def run_status(_options: Options, context: Context) -> int:
    found = context.client.conformance_status()
    if not structured(context, found):
        _show_groups(found, context)
        if found.drifted:
            context.streams.write("\n" + _table(found.drifted, DRIFT_COLUMNS, context))
    return OK


def _show_groups(found: Conformance, context: Context) -> None:
    context.streams.write(_table(found.groups, GROUP_COLUMNS, context))
    if found.unknown:
        context.say(f"unknown: {len(found.unknown)} of {found.nodes} nodes: {fold(found.unknown)}")


def _table(rows: Sequence[R], columns: Sequence[Column[R]], context: Context) -> str:
    return table(rows, columns, wide=context.output == "wide", coloured=context.is_coloured)


def differences_text(found: Sequence[Difference], most: int = MAX_COUNT) -> str:
    texts = [f"{each.component} {each.actual or 'none'} (not {each.expected or 'none'})" for each in found[:most]]
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return ", ".join(texts + more)


def _stage(drift: Drift) -> str:
    if drift.verified_at:
        return "right again, waits for approval"
    if drift.escalated_at:
        return f"not remedied in time ({stamp_text(drift.escalated_at)})"
    return f"given up at {stamp_text(drift.given_up_at)}" if drift.given_up_at else "no time limit"


GROUP_COLUMNS: tuple[Column[ConformanceGroup], ...] = (
    Column("FINGERPRINT", lambda g: g.fingerprint[:SHOWN]),
    Column("NODES", lambda g: str(g.size)),
    Column("BASELINE_OF", lambda g: ",".join(g.baseline_of)),
    Column("MEMBERS", lambda g: fold(g.nodes)),
    Column("DIFFERS_FROM_MOST_IN", lambda g: differences_text(g.differences)),
)
DRIFT_COLUMNS: tuple[Column[Drift], ...] = (
    Column("DRIFTED", lambda d: d.node),
    Column("STATE", lambda d: d.state),
    Column("VCLUSTER", lambda d: d.vcluster),
    Column("SENSITIVE", lambda d: "yes" if d.is_sensitive else "", is_sparse=True),
    Column("SINCE", lambda d: d.since or ""),
    Column("STAGE", _stage),
    Column("DIFFERENCES", lambda d: differences_text(d.differences)),
)


def run_refresh(options: Options, context: Context) -> int:
    names = read_names(options.nodes).names if options.nodes else ()
    answer = context.client.refresh_conformance(names)
    if not structured(context, answer):
        if answer.asked:
            context.say(f"asked {_nodes(answer.asked)}")
        if answer.unreachable:
            context.warn(_nodes(answer.unreachable, " cannot be reached"))
    return REFUSED if answer.unreachable and not answer.asked else OK


def _nodes(names: Sequence[str], then: str = "") -> str:
    return f"{len(names)} {'node' if len(names) == 1 else 'nodes'}{then}: {fold(names)}"


def run_show(options: Options, context: Context) -> int:
    _show(context.client.get_baseline(options.vcluster_name), context)
    return OK


def run_set(options: Options, context: Context) -> int:
    if bool(options.node) == bool(options.fingerprint):
        raise UsageError("name either --node or --fingerprint", hint="--node=n1 takes what n1 is now")
    baseline = context.client.set_baseline(options.vcluster_name, node=options.node, fingerprint=options.fingerprint)
    _show(baseline, context)
    if not baseline.components:
        context.warn("no node is of this fingerprint now: all that are judged by it have drifted")
    return OK


def run_unset(options: Options, context: Context) -> int:
    _show(context.client.unset_baseline(options.vcluster_name), context)
    return OK


def _show(baseline: Baseline, context: Context) -> None:
    pairs = [
        ("vCluster", baseline.vcluster),
        ("Baseline", baseline.source),
        ("Fingerprint", baseline.fingerprint),
        ("Kind of node", baseline.kind),
        ("Taken from", baseline.node),
        ("Declared by", baseline.set_by),
        ("Declared at", stamp_text(baseline.set_at)),
        *sorted(baseline.components.items()),
    ]
    show_one(context, baseline, pairs)


def run_approve(options: Options, context: Context) -> int:
    names = read_names(options.nodes).names
    return order_each(names, context.client.approve_node, lambda node: f"{node.id} is {node.state}", context)


STATUS = Command(
    options=Options,
    run=run_status,
    examples=("lattice admin conformance status", "lattice admin conformance status -o json"),
)
REFRESH = Command(
    options=Options,
    fill=fill_nodes,
    run=run_refresh,
    examples=("lattice admin conformance refresh n[1-4]",),
)
SHOW = Command(
    options=Options, fill=fill_vcluster, run=run_show, examples=("lattice admin conformance baseline show default",)
)
SET = Command(
    options=Options,
    fill=fill_set,
    run=run_set,
    examples=("lattice admin conformance baseline set default --node=n1",),
)
UNSET = Command(
    options=Options, fill=fill_vcluster, run=run_unset, examples=("lattice admin conformance baseline unset default",)
)
APPROVE = Command(options=Options, fill=fill_approve, run=run_approve, examples=("lattice admin node approve n3",))
