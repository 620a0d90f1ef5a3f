"""The servers of the cluster: who leads, how far each has come, and whether they agree."""

import asyncio
import time

from msgspec import Struct

from lattice.api.auditing import record
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError, unknown
from lattice.core.model.site.audit import AuditOutcome
from lattice.ports.quorum.servers import MembershipRefused, QuorumView, ServerState
from lattice.wire.admin.quorum import MemberView, QuorumStatusView, member_view

_TRIES = 5
_PAUSE_S = 0.1
_TRANSFER_S = 8.0


async def raft_status(context: Context, request: NoParameters) -> QuorumStatusView:
    """Get the status of all servers, with state digests compared at a common log index."""
    services = context.services
    if services.quorum is None:
        return _alone(context)
    common, states = await _compared(services.quorum)
    leading = next((state.name for state in states if state.replica is not None and state.replica.leads), "")
    return QuorumStatusView(
        leader=leading or services.quorum.leader_name,
        server=services.server_name,
        digest_index=common,
        members=[member_view(state, common) for state in states],
    )


class TransferRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: str = ""
    request_id: str = ""


async def transfer_leader(context: Context, request: TransferRequest) -> QuorumStatusView:
    """Transfer leadership to the named server, or to the first one that can take it."""
    quorum = context.services.quorum
    if quorum is None:
        raise ApiError("conflict", "this is the only server: no other can lead")
    if request.to:
        await _check_answers(quorum, request.to)
    if request.to != quorum.leader_name and await _is_to_resign(context, request):
        await record(context, "server.transfer", request.to, outcome=AuditOutcome.BEGUN)
        await quorum.resign(request.to)
    deadline = time.monotonic() + _TRANSFER_S
    while time.monotonic() < deadline:
        status = await raft_status(context, NoParameters())
        if status.leader and (not request.to or status.leader == request.to):
            return status
        if status.leader not in ("", context.services.server_name):
            # It was too slow to take the lead. Only the leader can give it up: the client asks again, and is forwarded there.
            raise ApiError(
                "unavailable", f"server {status.leader} took the lead instead of {request.to}", hint="try again"
            )
        await asyncio.sleep(_PAUSE_S)
    raise ApiError("unavailable", "leadership was given up, and not taken yet", hint="lattice admin raft status")


async def _check_answers(quorum: QuorumView, name: str) -> None:
    """Refuses a server that is not known or does not answer; one that is only slow is asked again."""
    for left in reversed(range(_TRIES)):
        states = {state.name: state for state in await quorum.ask_all(None)}
        if name not in states:
            raise unknown("server", name, list(states))
        if states[name].replica is not None:
            return
        if not left:
            raise ApiError("conflict", f"server {name} cannot lead: {states[name].problem}")
        await asyncio.sleep(_PAUSE_S)


async def _is_to_resign(context: Context, request: TransferRequest) -> bool:
    """A server that hands the request on repeats it to the next leader, which must not give up in its turn."""
    membership = context.services.membership
    if request.to or membership is None:
        return True
    try:
        return await membership.begin_transfer(request.request_id or context.request_id)
    except MembershipRefused as error:
        raise ApiError(error.code, str(error), hint=error.hint) from error


async def _compared(quorum: QuorumView) -> tuple[int | None, list[ServerState]]:
    """An index that all servers that answer have applied, and what they say of it.

    A server that started a moment ago does not know what was before: a little later there is a newer index.
    """
    for _ in range(_TRIES):
        found = await quorum.ask_all(None)
        common = min((state.replica.applied_index for state in found if state.replica is not None), default=None)
        states = found if common is None else await quorum.ask_all(common)
        if all(state.replica.digest is not None for state in states if state.replica is not None):
            break
        await asyncio.sleep(_PAUSE_S)
    return common, states


def _alone(context: Context) -> QuorumStatusView:
    services = context.services
    index = services.replica.applied_index
    digest = services.replica.state.digest()
    name = services.server_name
    problem = services.problem()
    member = MemberView(
        name=name,
        healthy=not problem,
        problem=problem,
        applied_index=index,
        digest=digest,
        digest_index=index,
        warning=services.warning(),
    )
    return QuorumStatusView(leader=name, server=name, digest_index=index, members=[member])
