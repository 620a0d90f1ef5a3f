"""Work that needs what no node of the cluster has is refused at once, with what the nodes say of the reason."""

import asyncio
from itertools import islice

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.ports.nodes.agents import AgentUnreachable

ASKED = 4  # nodes of one cluster mostly lack the same for the same reason
WITHIN_S = 2.0


async def check_any_has(context: Context, feature: str, message: str, hint: str) -> None:
    """Raises ApiError where no node has the feature."""
    nodes = context.state.nodes
    if any(feature in node.hardware.features for node in nodes.values()):
        return
    told = await asyncio.gather(*(_reason(context, node, feature) for node in islice(sorted(nodes), ASKED)))
    reasons = dict.fromkeys(reason for reason in told if reason)
    message = f"{message}: {'; '.join(reasons)}" if reasons else message
    raise ApiError("infeasible", message, requested=f"features={feature}", hint=hint)


async def _reason(context: Context, node: str, feature: str) -> str:
    """In the words of the node; empty where it cannot be asked."""
    try:
        told = await asyncio.wait_for(context.services.links.measure_node(node), WITHIN_S)
    except (AgentUnreachable, TimeoutError):
        return ""
    return next((each.reason for each in told.missing if each.name == feature), "")
