"""The history of a node: what happened to it, when, by whom and why."""

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import unknown
from lattice.api.find.lookup import find_number
from lattice.core.machine.parts.node_history import NodeHistoryEntry
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState
from lattice.wire.bounds import Short
from lattice.wire.text.times import parse_moment, rfc3339


class NodeEventQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`since`: only events at or after this time."""

    id: str
    since: Short = ""


class NodeEventView(Struct, frozen=True, kw_only=True):
    """`trigger` led from `previous` to `state`; `allocations` lost the node."""

    at: str | None
    trigger: str
    previous: NodeState
    state: NodeState
    by: str
    reason: str
    allocations: tuple[str, ...]


async def node_events(context: Context, request: NodeEventQuery) -> Page[NodeEventView]:
    """List the latest events of a node, oldest first."""
    if request.id not in context.state.nodes:
        raise unknown("node", request.id, context.state.nodes)
    since = parse_moment(request.since, "since") if request.since else 0
    history = context.state.node_history(request.id)
    return Page(items=[await _view(context, entry) for entry in history if entry.at >= since], next_cursor=None)


async def _view(context: Context, entry: NodeHistoryEntry) -> NodeEventView:
    return NodeEventView(
        at=rfc3339(entry.at),
        trigger=entry.trigger,
        previous=entry.from_state,
        state=entry.to_state,
        by=entry.by,
        reason=entry.why,
        allocations=tuple([allocation_id(number) for number in entry.allocations if await _may_see(context, number)]),
    )


async def _may_see(context: Context, number: int) -> bool:
    if context.reach(Permission.CONTROL_NODES) is Reach.ALL:
        return True
    found = await find_number(context, number)
    if found is None:
        return False
    return context.covers(Permission.READ, user=found.head.user, tenant=found.head.tenant)
