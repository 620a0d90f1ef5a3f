"""Nodes: read them, take them out of service and back."""

import msgspec
from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import unknown
from lattice.api.find.states import parse_node_states
from lattice.api.find.visibility import find_vcluster, vclusters_of_nodes, visible_vclusters
from lattice.api.nodes.conformance import conformance_of
from lattice.api.nodes.fields import sort_rows
from lattice.api.nodes.health import with_checks
from lattice.api.nodes.orders import Instruction, NodeOrder, order_node
from lattice.api.operations.nodes.query import chosen_rows, in_pieces, page_of
from lattice.core.model.capacity.lending import homes_of, is_lent
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import Node
from lattice.wire.bounds import Condition, Conditions, NodeSet
from lattice.wire.nodes.nodes import NodeView, node_view
from lattice.wire.text.times import rfc3339


class NodeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: list[str] = []
    vcluster: str = ""
    group: str = ""
    nodes: NodeSet = ""
    filter: Conditions = []
    sort: Condition = ""
    limit: int | None = None
    cursor: str = ""


class GetNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class ControlNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    reason: str = ""
    request_id: str = ""


class DrainRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`urgent`: running work is stopped and queued again."""

    id: str
    reason: str = ""
    urgent: bool = False
    request_id: str = ""


class WipeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force`: mark as wiped although the site has no wiper, because the node was wiped by hand."""

    id: str
    reason: str = ""
    force: bool = False
    request_id: str = ""


async def list_nodes(context: Context, request: NodeQuery) -> Page[NodeView]:
    """List nodes in the order of the imported file, then by name; or filtered and sorted by status fields."""
    states = parse_node_states(request.state)
    members = _members(context, request.vcluster)
    rows = [
        row
        for row in chosen_rows(context, request.nodes, request.filter)
        if (not states or row.node.state in states)
        and (not request.group or row.node.hardware.group == request.group)
        and (members is None or row.node.id in members)
    ]
    sort_rows(rows, request.sort)
    page, cursor = page_of(rows, request.limit, request.cursor)
    homes = vclusters_of_nodes(context)
    views = await in_pieces(page, lambda row: with_checks(context, row.node, _view(context, row.node, homes)))
    return Page(items=views, next_cursor=cursor)


async def get_node(context: Context, request: GetNode) -> NodeView:
    """Get one node."""
    node = context.state.nodes.get(request.id)
    if node is None:
        raise unknown("node", request.id, context.state.nodes)
    return with_checks(context, node, _view(context, node, vclusters_of_nodes(context)), is_full=True)


async def drain_node(context: Context, request: DrainRequest) -> NodeView:
    """Drain a node: running work finishes, nothing new starts."""
    wanted = Instruction(order=NodeOrder.DRAIN, reason=request.reason, urgent=request.urgent)
    return await _control(context, request.id, wanted, request.request_id)


async def undrain_node(context: Context, request: ControlNode) -> NodeView:
    """Undrain a node."""
    return await _order(context, request, NodeOrder.UNDRAIN)


async def disable_node(context: Context, request: ControlNode) -> NodeView:
    """Disable a node immediately; its work is lost."""
    return await _order(context, request, NodeOrder.DISABLE)


async def enable_node(context: Context, request: ControlNode) -> NodeView:
    """Enable a disabled node."""
    return await _order(context, request, NodeOrder.ENABLE)


async def reboot_node(context: Context, request: ControlNode) -> NodeView:
    """Reboot a node; it is Booting until it registers again."""
    return await _order(context, request, NodeOrder.REBOOT)


async def fault_node(context: Context, request: ControlNode) -> NodeView:
    """Report a hardware failure detected out of band: the node is Down immediately."""
    return await _order(context, request, NodeOrder.FAULT)


async def wipe_node(context: Context, request: WipeRequest) -> NodeView:
    """Wipe a node: erase everything that sensitive work may have left on it."""
    wanted = Instruction(order=NodeOrder.WIPE, reason=request.reason, force=request.force)
    return await _control(context, request.id, wanted, request.request_id)


async def _order(context: Context, request: ControlNode, order: NodeOrder) -> NodeView:
    return await _control(context, request.id, Instruction(order=order, reason=request.reason), request.request_id)


async def _control(context: Context, node: str, wanted: Instruction, request_id: str) -> NodeView:
    await order_node(context, node, wanted, request_id)
    return await get_node(context, GetNode(id=node))


def _members(context: Context, vcluster: str) -> frozenset[str] | None:
    """Names of the nodes a vCluster may use; None = all."""
    if not vcluster:
        return None
    found = find_vcluster(context, vcluster)
    return frozenset(found.nodes) if found.nodes else None


def _view(context: Context, node: Node, homes: dict[str, str]) -> NodeView:
    heard = context.services.observations.get(node.id)
    clock = context.services.clock
    ago = None if heard is None else clock.monotonic_s() - heard.last_heard
    load1 = None if heard is None else heard.load1
    response = None if ago is None else int(clock.now_ms() / 1000 - ago)
    via = context.services.observations.via.get(node.id, "")
    view = node_view(
        node, home=homes.get(node.id, ""), last_heartbeat_s=ago, load1=load1, last_response=response, via=via
    )
    fingerprint, conformance = conformance_of(context.services.conformance, context.state, node.id)
    view = msgspec.structs.replace(view, fingerprint=fingerprint, conformance=conformance)
    if node.vcluster and is_lent(node.id, node.vcluster, context.state.vclusters):
        since = min(context.state.allocations[number].started_at for number in node.holders())
        home = next((each.name for each in homes_of(node.id, visible_vclusters(context).values())), "")
        view = msgspec.structs.replace(view, home=home, lent_since=rfc3339(since))
    if context.reach(Permission.CONTROL_NODES) is Reach.ALL:
        return view
    seen = tuple(map(allocation_id, seen_work(context, node)))
    return msgspec.structs.replace(view, allocations=seen, vcluster=homes.get(node.id, ""))


def seen_work(context: Context, node: Node) -> list[int]:
    """What of the work on the node the caller may know of."""
    held = ((number, context.state.find(number)) for number in node.holders())
    return [
        number
        for number, record in held
        if record is not None and context.covers(Permission.READ, user=record.user, tenant=record.tenant)
    ]
