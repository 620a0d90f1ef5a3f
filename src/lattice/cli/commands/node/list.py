"""`lattice nodes` and `lattice node list`: the nodes of the cluster, or chosen fields of chosen nodes."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import UNSET

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import Column, show_list, show_one
from lattice.cli.recent import remember
from lattice.cli.views.inventories import in_full
from lattice.cli.views.nodes import COLUMNS
from lattice_sdk.models.machine_status import NodeStatus, NodeSummary


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    state: str = ""
    group: str = ""
    fields: str = ""
    sort: str = ""
    filters: tuple[str, ...] = ()
    summary: bool = False
    limit: int | None = None


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="NODE", help="show only these nodes: n[1-3,7]; a single node is shown in full")
    add("--state", metavar="STATE", help="show only nodes in this state")
    add("--group", metavar="GROUP", help="show only nodes in this topology group")
    add(
        "--fields",
        metavar="FIELDS",
        help="show these fields (comma-separated), or all: Name,OS,CPUs,Speed,RealMemory, ...",
    )
    add("--sort", metavar="FIELDS", help="sort by these fields (comma-separated); -FIELD sorts in descending order")
    add(
        "--filter",
        dest="filters",
        action="append",
        metavar="CONDITION",
        help="show only nodes where FIELD=VALUE (also != < > <= >=); may be repeated, all must match",
    )
    add("--summary", action="store_true", help="show only the number and names of nodes per state")
    add("--limit", type=int, metavar="N", help="show only the first N")


def run(options: Options, context: Context) -> int:
    if options.summary:
        return _show_summary(options, context)
    if options.fields:
        return _show_fields(options, context)
    if len(options.ids) == 1 and not set(options.ids[0]) & set(",["):
        show_one(context, *in_full(context, context.client.get_node(options.ids[0])))
        return OK
    nodes = context.client.list_nodes(
        state=options.state,
        vcluster=context.flags.vcluster or "",
        group=options.group,
        nodes=",".join(options.ids),
        filter=options.filters,
        sort=options.sort,
    )
    remember(context, nodes=(node.id for node in nodes))
    show_list(context, nodes[: options.limit], COLUMNS, name=lambda node: node.id)
    return OK


def _show_fields(options: Options, context: Context) -> int:
    rows = context.client.node_status(
        fields=options.fields,
        sort=options.sort,
        filter=_conditions(options, context),
        nodes=",".join(options.ids),
    )[: options.limit]
    show_list(context, rows, _columns(options.fields, rows), name=_first)
    return OK


def _columns(fields: str, rows: list[NodeStatus]) -> list[Column[NodeStatus]]:
    """In the order requested; with `all`, in the order of the table."""
    names = {name.lower(): name for name in NodeStatus.__struct_fields__}
    asked = [names[word] for word in (part.strip().lower() for part in fields.split(",")) if word in names]
    if any(part.strip().lower() == "all" for part in fields.split(",")):
        asked = list(names.values())
    return [Column(name, _text_of(name)) for name in dict.fromkeys(asked)]


def _text_of(name: str) -> Callable[[NodeStatus], str]:
    def text(row: NodeStatus) -> str:
        value = getattr(row, name)
        if value is UNSET:
            return ""
        return f"{value:g}" if isinstance(value, float) else str(value)

    return text


def _first(row: NodeStatus) -> str:
    return next((str(value) for name in row.__struct_fields__ if (value := getattr(row, name)) is not UNSET), "")


SUMMARY: tuple[Column[NodeSummary], ...] = (
    Column("STATE", lambda row: row.NodeState),
    Column("STATUS", lambda row: row.State),
    Column("COUNT", lambda row: str(row.count)),
    Column("NODES", lambda row: row.nodes),
)


def _show_summary(options: Options, context: Context) -> int:
    rows = context.client.node_summary(filter=_conditions(options, context), nodes=",".join(options.ids))
    show_list(context, rows[: options.limit], SUMMARY, name=lambda row: row.nodes)
    return OK


def _conditions(options: Options, context: Context) -> tuple[str, ...]:
    """The other flags, as conditions."""
    if "," in options.state:
        raise UsageError("--state takes a single state with --fields and --summary", hint="use --filter")
    wanted = (
        ("State", options.state),
        ("Group", options.group),
        ("vCluster", context.flags.vcluster or ""),
    )
    return (*options.filters, *(f"{field}={value}" for field, value in wanted if value))


COMMAND = Command(
    lists=True,
    options=Options,
    has_vcluster=True,
    fill=fill,
    run=run,
    dashed=frozenset({"--sort"}),
    examples=(
        "lattice nodes",
        "lattice nodes n1",
        "lattice nodes --summary",
        "lattice nodes --fields Name,State,Reason --filter State=DOWN",
        "lattice nodes 'n[1-16]' --fields Name,State,LastResponse --sort -LastResponse",
    ),
)
