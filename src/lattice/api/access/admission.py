"""Who may come in: the bearer token, and whether its roles reach the operation at all. The same on every wire."""

import asyncio

from lattice.api.auditing import denied, refused_login
from lattice.api.auth.membership import with_membership
from lattice.api.auth.rbac import may_at_all
from lattice.api.errors import ApiError, starting
from lattice.api.operations.operation import Operation
from lattice.api.services import Services
from lattice.core.model.ids import allocation_id
from lattice.ports.site.identity import Identity, Unauthenticated, UnknownKey

# Stands for an Authorization header that was given more than once; no scheme is written like this.
TWICE = "\0twice"


async def admit(services: Services, operation: Operation, authorization: str, source: str = "") -> Identity:
    """The caller of the operation, who asks from the address `source`. Raises ApiError and Unauthenticated."""
    if not services.is_ready():
        raise starting()
    try:
        identity = await authenticate(services, authorization)
    except Unauthenticated as error:
        await turn_away(services, error, source)
        raise
    if not may_at_all(identity, operation.permission):
        denied(services, identity, operation.name, str(operation.permission))
        raise _not_permitted(identity, operation)
    services.limits.spend(identity, operation.name)
    return identity


async def authenticate(services: Services, authorization: str, *, anew: bool = False) -> Identity:
    """Who the bearer token stands for. Raises Unauthenticated; the token of an allocation ends with it.

    With `anew`, ask the issuer whether the token is still valid.
    """
    identity = await (_rechecked if anew else _verified)(services, authorization)
    if identity.kind == "allocation":
        _check_allocation(services, identity.allocation, identity.run)
    elif identity.kind == "user":
        return with_membership(identity, services.memberships.of(identity.user, services.replica.state.tenants))
    return identity


async def check_token(services: Services, authorization: str, source: str = "") -> None:
    """Whether the token is good, before a server that follows reads what comes with it. Raises Unauthenticated.

    What the state says of its bearer is for the leader to judge: this server may not know it yet.
    """
    try:
        await _verified(services, authorization)
    except Unauthenticated as error:
        await turn_away(services, error, source)
        raise


async def turn_away(services: Services, error: Unauthenticated, source: str) -> None:
    """Notes a login that was refused; returns later the more of them come from there."""
    refused_login(services, str(error), source)
    delay_s = services.limits.refused(source)
    if delay_s:
        await asyncio.sleep(delay_s)


async def _verified(services: Services, authorization: str) -> Identity:
    token = token_in(authorization)
    try:
        return services.verifier.verify(token)
    except UnknownKey:
        await services.verifier.learn()
        return services.verifier.verify(token)


async def _rechecked(services: Services, authorization: str) -> Identity:
    token = token_in(authorization)
    try:
        return await services.verifier.recheck(token)
    except UnknownKey:
        await services.verifier.learn()
        return services.verifier.verify(token)


def token_in(authorization: str) -> str:
    """Raises Unauthenticated."""
    if authorization == TWICE:
        raise Unauthenticated("the Authorization header is given more than once")
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("a token is needed: Authorization: Bearer TOKEN")
    return token


def _check_allocation(services: Services, number: int | None, run: int | None) -> None:
    record = None if number is None else services.replica.state.allocations.get(number)
    which = "its allocation" if number is None else f"allocation {allocation_id(number)}"
    if record is None or record.is_terminal:
        raise Unauthenticated(f"the token is no longer valid: {which} has ended")
    if run is not None and (record.run != run or not record.is_holding):
        raise Unauthenticated(f"the token is no longer valid: run {run} of {which} has ended")


def _not_permitted(identity: Identity, operation: Operation) -> ApiError:
    roles = ", ".join(identity.roles) or "none"
    return ApiError(
        "forbidden",
        f'your role does not allow "{operation.name}"',
        current=f"roles: {roles}",
        requested=str(operation.permission),
    )
