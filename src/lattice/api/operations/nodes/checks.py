"""Have the checks of a node run now."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.nodes.health import run_checks
from lattice.core.model.nodes.nodes import NodeState
from lattice.wire.agents.health import CheckView, check_view

MAX_NAMES = 64


class CheckNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`checks`: the checks to run; all if empty."""

    id: str
    checks: list[str] = []


class NodeChecksView(Struct, frozen=True, kw_only=True):
    """The results of a node's checks; `ok` if none fails."""

    node: str
    state: NodeState
    ok: bool
    checks: tuple[CheckView, ...]


async def check_node(context: Context, request: CheckNode) -> NodeChecksView:
    """Run the node's health checks now and return their results."""
    node = context.state.nodes.get(request.id)
    if node is None:
        raise unknown("node", request.id, context.state.nodes)
    if len(request.checks) > MAX_NAMES:
        raise ApiError("invalid", "checks: too many names", limit=f"{MAX_NAMES}", current=f"{len(request.checks)}")
    known = context.services.health.checks_of(node.id) if context.services.health is not None else ()
    strange = sorted(set(request.checks) - {each.name for each in known})
    if known and strange:
        raise unknown("check", strange[0], (each.name for each in known))
    found = await run_checks(context, node.id, request.checks)
    checks = tuple(check_view(each) for each in found if not request.checks or each.name in request.checks)
    state = context.state.nodes[node.id].state
    return NodeChecksView(
        node=node.id, state=state, ok=not any(each.verdict == "failed" for each in checks), checks=checks
    )
