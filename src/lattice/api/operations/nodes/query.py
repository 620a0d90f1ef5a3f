"""Status queries: chosen fields of chosen nodes, filtered and sorted; and all nodes folded by their states."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.context import Context
from lattice.api.find.cursors import make_cursor, page_size, read_cursor
from lattice.api.find.visibility import vclusters_of_nodes
from lattice.api.limits import MAX_PAGE
from lattice.api.nodes.fields import Row, choose_fields, find_field, parse_filters, passing, sort_rows
from lattice.api.nodes.orders import known_nodes
from lattice.core.model.nodes.nodes import Node
from lattice.core.model.nodes.records import status_of
from lattice.slurm.text.hostlists import fold
from lattice.wire.bounds import Condition, Conditions, NodeSet
from lattice.wire.nodes.status import NodeStatus, NodeSummary

PIECE = 256
V = TypeVar("V")


class StatusQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`fields` and `sort` are comma-separated names, `filter` is a list of conditions that must all hold, `nodes` is a host list such as `n[1-4]`."""

    fields: Condition = ""
    sort: Condition = ""
    filter: Conditions = []
    nodes: NodeSet = ""
    limit: int | None = None
    cursor: str = ""


class SummaryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: Conditions = []
    nodes: NodeSet = ""


async def node_status(context: Context, request: StatusQuery) -> Page[NodeStatus]:
    """Get selected fields of selected nodes, in the order of the imported file or of `sort`."""
    fields = choose_fields(request.fields)
    for key in request.sort.split(","):
        if key.strip():
            find_field(key.strip().lstrip("+-"))
    rows = chosen_rows(context, request.nodes, request.filter)
    sort_rows(rows, request.sort)
    page, cursor = page_of(rows, request.limit, request.cursor)
    reads = [(field.name, field.read) for field in fields]
    items = await in_pieces(page, lambda row: NodeStatus(**{name: read(row) for name, read in reads}))
    return Page(items=items, next_cursor=cursor)


async def node_summary(context: Context, request: SummaryQuery) -> Page[NodeSummary]:
    """Count nodes by state, with their names."""
    rows = chosen_rows(context, request.nodes, request.filter)
    sort_rows(rows, "")
    together: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        together.setdefault((str(status_of(row.node)), str(row.node.state)), []).append(row.node.id)
    return Page(
        items=[
            NodeSummary(State=status, NodeState=state, count=len(names), nodes=fold(names))
            for (status, state), names in sorted(together.items())
        ]
    )


async def in_pieces(rows: list[Row], view: Callable[[Row], V]) -> list[V]:
    """The view of every row; heartbeats and others get their turn in between."""
    views: list[V] = []
    for start in range(0, len(rows), PIECE):
        views += map(view, rows[start : start + PIECE])
        await asyncio.sleep(0)
    return views


def chosen_rows(context: Context, nodes: NodeSet, filters: list[str]) -> list[Row]:
    """The nodes of the set, or all, of which every condition holds. Raises ApiError and BadField."""
    return passing(rows_of(context, chosen_nodes(context, nodes)), parse_filters(filters))


def rows_of(context: Context, nodes: list[Node]) -> list[Row]:
    services = context.services
    now_ms, now_s, get = services.clock.now_ms(), services.clock.monotonic_s(), services.observations.get
    homes = vclusters_of_nodes(context)
    return [Row(node, get(node.id), homes.get(node.id, ""), now_ms, now_s) for node in nodes]


def chosen_nodes(context: Context, text: str) -> list[Node]:
    known = context.state.nodes
    if not text:
        return list(known.values())
    hint = f"known: {fold(sorted(known))[:300] or 'none'}"
    names = known_nodes(context, text, hint)
    return [known[name] for name in names]


def page_of(rows: list[Row], limit: int | None, cursor: str) -> tuple[list[Row], str | None]:
    """The rows behind the one that the cursor names, and the next cursor."""
    size = page_size(limit, MAX_PAGE, MAX_PAGE)
    start = 0
    if cursor:
        last: Any = read_cursor(cursor, tuple[str])[0]
        start = next((place + 1 for place, row in enumerate(rows) if row.node.id == last), len(rows))
    page = rows[start : start + size]
    return page, make_cursor(page[-1].node.id) if start + size < len(rows) else None
