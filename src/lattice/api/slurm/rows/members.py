"""Tenants and who belongs to them, as far as the caller may know it."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.core.model.site.tenants import Tenant


def shown_tenants(context: Context) -> list[Tenant]:
    """By name, those that the caller may see."""
    visible = context.visible_tenants(Permission.READ_TENANTS)
    known = context.state.tenants
    return [known[name] for name in sorted(known) if visible is None or name in visible]


def members_of(context: Context, tenant: str) -> list[str]:
    """Users who have work in the tenant or had some, and the caller. Membership itself is in people's tokens."""
    state = context.state
    users = {user for name, user in state.user_uses if name == tenant}
    users |= {user for name, _, user in state.ledger if name == tenant}
    if not context.covers_tenant(Permission.READ, tenant):
        users &= {context.user}
    if tenant in context.identity.tenants:
        users.add(context.user)
    return sorted(users)
