"""The servers of the cluster: who leads, how far each has come, and whether they agree."""

from collections.abc import AsyncGenerator

from msgspec import Struct

from lattice.api.answers import TextAnswer, TextPiece
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.ports.quorum import ServerState
from lattice.wire.quorum import MemberView, QuorumStatusView, ReplicaView


class ReplicaQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    index: int | None = None


async def raft_status(context: Context, request: NoParameters) -> QuorumStatusView:
    """All servers, with the digests of those that answer at an index that all of them have."""
    services = context.services
    if services.quorum is None:
        return _alone(context)
    first = await services.quorum.ask_all(None)
    applied = [state.replica.applied_index for state in first if state.replica is not None]
    common = min(applied, default=None)
    states = first if common is None else await services.quorum.ask_all(common)
    leading = next((state.name for state in states if state.replica is not None and state.replica.leads), "")
    return QuorumStatusView(
        leader=leading or services.quorum.leader_name,
        server=services.server_name,
        digest_index=common,
        members=[_member(state, common) for state in states],
    )


async def raft_replica(context: Context, request: ReplicaQuery) -> ReplicaView:
    """This server's own copy of the state; the servers ask each other for it."""
    services = context.services
    if services.quorum is None:
        replica = services.replica
        return ReplicaView(
            name=services.server_name,
            leads=True,
            applied_index=replica.applied_index,
            digest=replica.state.digest() if request.index in (None, replica.applied_index) else None,
        )
    own = services.quorum.replica_at(request.index)
    return ReplicaView(name=own.name, leads=own.leads, applied_index=own.applied_index, digest=own.digest)


async def raft_snapshot(context: Context, request: NoParameters) -> TextAnswer:
    """This server's newest snapshot and its archive, for a server that cannot get them from the log any more."""
    quorum = context.services.quorum
    if quorum is None:
        raise ApiError("not_found", "this server is alone: it hands nothing over", hint="make a backup instead")

    async def pieces() -> AsyncGenerator[TextPiece, None]:
        async for piece in quorum.hand_over():
            yield TextPiece(piece)

    return TextAnswer(pieces())


def _alone(context: Context) -> QuorumStatusView:
    services = context.services
    index = services.replica.applied_index
    digest = services.replica.state.digest()
    name = services.server_name
    member = MemberView(name=name, healthy=True, applied_index=index, digest=digest, digest_index=index)
    return QuorumStatusView(leader=name, server=name, digest_index=index, members=[member])


def _member(state: ServerState, common: int | None) -> MemberView:
    replica = state.replica
    if replica is None:
        return MemberView(name=state.name, healthy=False, problem=state.problem)
    return MemberView(
        name=state.name,
        healthy=True,
        applied_index=replica.applied_index,
        digest=replica.digest,
        digest_index=None if replica.digest is None else common,
    )
