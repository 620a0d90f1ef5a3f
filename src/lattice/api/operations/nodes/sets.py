"""One order for a set of nodes, `nid[001-128,200]`: each node has an answer of its own, and nothing happens when a name is unknown."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.nodes.orders import Instruction, NodeAnswer, NodeOrder, known_nodes, order_each
from lattice.wire.bounds import NodeSet


class OrderNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`nodes`: names and folded names, in one text or in a list."""

    nodes: list[str] | NodeSet
    reason: str = ""
    request_id: str = ""


class DrainNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`urgent`: what runs there is ended and queued again."""

    nodes: list[str] | NodeSet
    reason: str = ""
    urgent: bool = False
    request_id: str = ""


class WipeNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force`: also where the site has no wiper, because it was done by hand."""

    nodes: list[str] | NodeSet
    reason: str = ""
    force: bool = False
    request_id: str = ""


class NodeAnswers(Struct, frozen=True, kw_only=True):
    items: list[NodeAnswer]


async def drain_node_set(context: Context, request: DrainNodeSet) -> NodeAnswers:
    """Lets the work of these nodes end and starts nothing more there."""
    wanted = Instruction(order=NodeOrder.DRAIN, reason=request.reason, urgent=request.urgent)
    return await _each(context, request.nodes, wanted, request.request_id)


async def undrain_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Takes drains back."""
    return await _order(context, request, NodeOrder.UNDRAIN)


async def disable_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Take these nodes out of service immediately; their work is lost."""
    return await _order(context, request, NodeOrder.DISABLE)


async def enable_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Brings disabled nodes back."""
    return await _order(context, request, NodeOrder.ENABLE)


async def reboot_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Reboot these nodes; they are Booting from now on."""
    return await _order(context, request, NodeOrder.REBOOT)


async def fault_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Report a hardware failure detected out of band: the nodes are Down immediately."""
    return await _order(context, request, NodeOrder.FAULT)


async def wipe_node_set(context: Context, request: WipeNodeSet) -> NodeAnswers:
    """Has everything erased that sensitive work may have left on these nodes."""
    wanted = Instruction(order=NodeOrder.WIPE, reason=request.reason, force=request.force)
    return await _each(context, request.nodes, wanted, request.request_id)


async def _order(context: Context, request: OrderNodeSet, order: NodeOrder) -> NodeAnswers:
    return await _each(context, request.nodes, Instruction(order=order, reason=request.reason), request.request_id)


async def _each(context: Context, nodes: list[str] | NodeSet, wanted: Instruction, request_id: str) -> NodeAnswers:
    names = known_nodes(context, nodes)
    return NodeAnswers(items=await order_each(context, names, lambda _: wanted, request_id))
