"""Which servers belong to the cluster: look, invite, give a vote, take out, renew their certificates."""

from typing import Annotated

from msgspec import Meta, Struct

from lattice.api.answers import Page
from lattice.api.auditing import record
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError, unknown
from lattice.core.model.site.audit import AuditOutcome
from lattice.ports.quorum.servers import Membership, MembershipRefused, ServerInfo
from lattice.wire.admin.quorum import InvitationView, RenewedView, ServerView, renewed_view, server_view
from lattice.wire.text.times import rfc3339

INVITATION_S = 3600


class InviteServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    valid_for_s: Annotated[int, Meta(ge=60, le=7 * 86400)] = INVITATION_S
    request_id: str = ""


class NamedServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    request_id: str = ""


class RenewCertificates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str = ""


async def list_servers(context: Context, request: NoParameters) -> Page[ServerView]:
    """List the members of the quorum: voters, learners and invited servers, each with its health."""
    return await _page(_membership(context))


async def invite_server(context: Context, request: InviteServer) -> InvitationView:
    """Create a single-use token with which a new server gets its certificates and joins."""
    membership = _membership(context)
    await record(context, "server.invite", request.name, outcome=AuditOutcome.BEGUN)
    try:
        invited = await membership.invite(request.name, request.valid_for_s)
    except MembershipRefused as error:
        raise _refused(error) from error
    return InvitationView(name=invited.name, token=invited.token, expires_at=rfc3339(invited.expires_at_ms))


async def promote_server(context: Context, request: NamedServer) -> Page[ServerView]:
    """Promote a server that has caught up to a voter."""
    membership = _membership(context)
    await _check_known(membership, request.name)
    await record(context, "server.promote", request.name, outcome=AuditOutcome.BEGUN)
    try:
        await membership.promote(request.name)
    except MembershipRefused as error:
        raise _refused(error) from error
    return await _page(membership)


async def remove_server(context: Context, request: NamedServer) -> Page[ServerView]:
    """Remove a server for good, or withdraw an invitation; refused if the quorum would lose its majority."""
    membership = _membership(context)
    # The request of another administrator is another one, even under the same id.
    asked = f"{request_id} {context.user}" if (request_id := request.request_id or context.request_id) else ""
    try:
        if not await membership.has_begun_removal(request.name, asked):
            await record(context, "server.remove", request.name, outcome=AuditOutcome.BEGUN)
        await membership.remove(request.name, asked)
    except MembershipRefused as error:
        raise _refused(error) from error
    try:
        return await _page(membership)
    except ApiError:
        # A server that removes itself may not be able to reach the others any more.
        return Page(items=[])


async def renew_certificates(context: Context, request: RenewCertificates) -> Page[RenewedView]:
    """Renew the keys and certificates of every server without a restart."""
    membership = _membership(context)
    await record(context, "server.renew", outcome=AuditOutcome.BEGUN)
    return Page(items=[renewed_view(renewed) for renewed in await membership.renew_all()])


def _membership(context: Context) -> Membership:
    membership = context.services.membership
    if membership is None:
        raise ApiError(
            "conflict",
            "this is a single server without a shared log: it has no members",
            hint="servers that share a log are configured with quorum.kind: etcd",
        )
    return membership


async def _check_known(membership: Membership, name: str) -> None:
    names = [info.name for info in await _servers(membership)]
    if name not in names:
        raise unknown("server", name, names)


async def _page(membership: Membership) -> Page[ServerView]:
    return Page(items=[server_view(info) for info in await _servers(membership)])


async def _servers(membership: Membership) -> list[ServerInfo]:
    try:
        return await membership.servers()
    except MembershipRefused as error:
        raise _refused(error) from error


def _refused(error: MembershipRefused) -> ApiError:
    return ApiError(error.code, str(error), hint=error.hint)
