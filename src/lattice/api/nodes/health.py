"""What the nodes' own checks have to do with orders and views of the API."""

from collections.abc import Sequence

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.core.model.nodes.health import CheckStanding, Verdict, unhealthy
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.wire.agents.health import check_view, vitals_view
from lattice.wire.nodes.nodes import NodeView

_SHOWN = 3


def with_checks(context: Context, node: Node, view: NodeView, *, is_full: bool = False) -> NodeView:
    """The view with what the checks say, or only those that did not pass; a node that boots says which of them it waits for."""
    health = context.services.health
    if health is None:
        return view
    found = health.checks_of(node.id)
    checks = tuple(check_view(each) for each in found if is_full or each.verdict is not Verdict.PASSED)
    reason = view.reason
    if node.state is NodeState.BOOTING and not reason:
        reason = health.unfit_because(node.id)
    heard = context.services.observations.get(node.id)
    vitals = vitals_view(heard.beat) if heard is not None and heard.beat.seq else None
    return replace(view, checks=checks, reason=reason, vitals=vitals)


async def run_checks(context: Context, node: str, names: Sequence[str] = ()) -> tuple[CheckStanding, ...]:
    """Has the node's checks run now. Raises ApiError when the node cannot be asked."""
    health = context.services.health
    if health is None:
        raise ApiError("unavailable", "this server follows another one", hint="try again in a moment")
    try:
        return await health.run_now(node, names)
    except AgentUnreachable as error:
        hint = "its agent must be running and connected"
        raise ApiError("conflict", f"the checks of node {node} cannot be run: {error}", hint=hint) from error


async def refuse_unhealthy(context: Context, node: str) -> None:
    """Raises ApiError while a check of the node fails. One that failed when it ran last is run again first."""
    health = context.services.health
    if health is None:
        return
    failed = unhealthy(health.checks_of(node))
    if not failed:
        return
    try:
        failed = unhealthy(await health.run_now(node, [each.name for each in failed]))
    except AgentUnreachable:
        return  # a node whose agent is silent does not become Ready by this order
    if failed:
        more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
        raise ApiError(
            "conflict",
            f"node {node} is not fit: {'; '.join(each.sentence for each in failed[:_SHOWN])}{more}",
            current=", ".join(each.name for each in failed),
            hint=f"fix it, then retry; `lattice node check {node}` runs the checks now",
        )
