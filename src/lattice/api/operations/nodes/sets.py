"""One order for a set of nodes, `nid[001-128,200]`: each node has an answer of its own, and nothing happens when a name is unknown."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.nodes.orders import Instruction, NodeAnswer, NodeOrder, known_nodes, order_each
from lattice.wire.bounds import NodeSet


class OrderNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`nodes`: names and host lists such as `n[1-4]`, as one string or a list."""

    nodes: list[str] | NodeSet
    reason: str = ""
    request_id: str = ""


class DrainNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`urgent`: running work is stopped and queued again."""

    nodes: list[str] | NodeSet
    reason: str = ""
    urgent: bool = False
    request_id: str = ""


class WipeNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force`: mark as wiped although the site has no wiper, because the node was wiped by hand."""

    nodes: list[str] | NodeSet
    reason: str = ""
    force: bool = False
    request_id: str = ""


class NodeAnswers(Struct, frozen=True, kw_only=True):
    items: list[NodeAnswer]


async def drain_node_set(context: Context, request: DrainNodeSet) -> NodeAnswers:
    """Drain nodes: running work finishes, nothing new starts."""
    wanted = Instruction(order=NodeOrder.DRAIN, reason=request.reason, urgent=request.urgent)
    return await _each(context, request.nodes, wanted, request.request_id)


async def undrain_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Undrain nodes."""
    return await _order(context, request, NodeOrder.UNDRAIN)


async def disable_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Disable nodes immediately; their work is lost."""
    return await _order(context, request, NodeOrder.DISABLE)


async def enable_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Enable disabled nodes."""
    return await _order(context, request, NodeOrder.ENABLE)


async def reboot_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Reboot nodes; they are Booting until they register again."""
    return await _order(context, request, NodeOrder.REBOOT)


async def fault_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Report a hardware failure detected out of band: the nodes are Down immediately."""
    return await _order(context, request, NodeOrder.FAULT)


async def wipe_node_set(context: Context, request: WipeNodeSet) -> NodeAnswers:
    """Wipe nodes: erase everything that sensitive work may have left on them."""
    wanted = Instruction(order=NodeOrder.WIPE, reason=request.reason, force=request.force)
    return await _each(context, request.nodes, wanted, request.request_id)


async def _order(context: Context, request: OrderNodeSet, order: NodeOrder) -> NodeAnswers:
    return await _each(context, request.nodes, Instruction(order=order, reason=request.reason), request.request_id)


async def _each(context: Context, nodes: list[str] | NodeSet, wanted: Instruction, request_id: str) -> NodeAnswers:
    names = known_nodes(context, nodes)
    return NodeAnswers(items=await order_each(context, names, lambda _: wanted, request_id))
