"""Who may be a node: letting nodes in, and ending their credentials."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.nodes.orders import MAX_REASON
from lattice.core.machine.commands import AdmitNode, RevokeNode
from lattice.wire.text.texts import check_line
from lattice.wire.text.times import rfc3339


class JudgeNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    reason: str = ""
    request_id: str = ""


class AdmissionView(Struct, frozen=True, kw_only=True):
    """The decision about a node name; `state` is empty until a node of that name registers."""

    node: str
    standing: str
    state: str = ""
    by: str = ""
    since: str = ""
    valid_from: str = ""


async def admit_node(context: Context, request: JudgeNode) -> AdmissionView:
    """Admit a node that waits for admission or whose credentials were revoked, or admit a name in advance."""
    reason = check_line(request.reason, "reason", MAX_REASON)
    await context.carry_out(AdmitNode(node=request.id, reason=reason), request.request_id)
    return _view(context, request.id)


async def revoke_node(context: Context, request: JudgeNode) -> AdmissionView:
    """Revoke all credentials of a node: its session is closed, its work is lost, and its credentials are refused from now on."""
    reason = check_line(request.reason, "reason", MAX_REASON)
    await context.carry_out(RevokeNode(node=request.id, reason=reason), request.request_id)
    return _view(context, request.id)


def _view(context: Context, name: str) -> AdmissionView:
    judged, node = context.state.admission.names.get(name), context.state.nodes.get(name)
    state = "" if node is None else str(node.state)
    if judged is None:
        return AdmissionView(node=name, standing="admitted", state=state)
    return AdmissionView(
        node=name,
        standing=str(judged.standing),
        state=state,
        by=judged.by,
        since=rfc3339(judged.since) or "",
        valid_from=rfc3339(judged.valid_from) or "",
    )
