"""What a node said it is made of."""

from lattice.api.auth.rbac import Permission, may_at_all
from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.operations.nodes.nodes import GetNode
from lattice.wire.nodes.inventory import NodeInventoryView, inventory_view, without_boot_parameters


async def get_node_inventory(context: Context, request: GetNode) -> NodeInventoryView:
    """Get the node's hardware, firmware and software, its fingerprint, and the components of the fingerprint.

    Only those who manage nodes see the kernel's command line.
    """
    if request.id not in context.state.nodes:
        raise unknown("node", request.id, context.state.nodes)
    registry = context.services.inventories
    known = None if registry is None else registry.get(request.id)
    if known is None:
        hint = "its agent says so when it registers: see the node's state"
        if registry is None:
            hint = "this server follows and does not know: ask without consistency=stale"
        raise ApiError("not_found", f"node {request.id} has not said what it is made of", hint=hint)
    view = inventory_view(request.id, known)
    return view if may_at_all(context.identity, Permission.CONTROL_NODES) else without_boot_parameters(view)
