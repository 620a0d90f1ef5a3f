"""One order for a set of nodes, `nid[001-128,200]`: each node has an answer of its own, and nothing happens when a name is unknown."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.node_orders import Instruction, NodeAnswer, NodeOrder, known_nodes, order_each


class OrderNodeSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`nodes`: names and folded names, in one text or in a list."""

    nodes: list[str] | str
    reason: str = ""
    request_id: str = ""


class NodeAnswers(Struct, frozen=True, kw_only=True):
    items: list[NodeAnswer]


async def drain_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Lets the work of these nodes end and starts nothing more there."""
    return await _order(context, request, NodeOrder.DRAIN)


async def undrain_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Takes drains back."""
    return await _order(context, request, NodeOrder.UNDRAIN)


async def disable_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Takes these nodes out of service at once; their work is lost."""
    return await _order(context, request, NodeOrder.DISABLE)


async def enable_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Brings disabled nodes back."""
    return await _order(context, request, NodeOrder.ENABLE)


async def fault_node_set(context: Context, request: OrderNodeSet) -> NodeAnswers:
    """Reports a failure of their hardware, seen from outside: they are Down at once."""
    return await _order(context, request, NodeOrder.FAULT)


async def _order(context: Context, request: OrderNodeSet, order: NodeOrder) -> NodeAnswers:
    names = known_nodes(context, request.nodes)
    instruction = Instruction(order=order, reason=request.reason)
    return NodeAnswers(items=await order_each(context, names, lambda _: instruction, request.request_id))
