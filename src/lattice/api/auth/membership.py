"""Tenants that people belong to because the cluster's state says so, besides what their tokens say."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import is_

from msgspec.structs import replace

from lattice.api.auth.rbac import NARROW, Role
from lattice.core.model.site.tenants import Tenant
from lattice.ports.site.identity import Identity


@dataclass(frozen=True, slots=True)
class Membership:
    tenants: tuple[str, ...] = ()
    admin_of: tuple[str, ...] = ()


_NONE = Membership()


class Memberships:
    """Who belongs where; rebuilt when a tenant changes, which is rare."""

    def __init__(self) -> None:
        self._seen: list[Tenant] = []
        self._by_user: dict[str, Membership] = {}

    def of(self, user: str, tenants: Mapping[str, Tenant]) -> Membership:
        if not self._is_current(tenants):
            self._seen = list(tenants.values())
            self._by_user = _index(self._seen)
        return self._by_user.get(user, _NONE)

    def _is_current(self, tenants: Mapping[str, Tenant]) -> bool:
        # A record is never changed, only replaced: the same records say the same.
        if len(tenants) != len(self._seen):
            return False
        return all(map(is_, tenants.values(), self._seen))


def _index(tenants: list[Tenant]) -> dict[str, Membership]:
    found: dict[str, Membership] = {}
    for tenant in tenants:
        admins = frozenset(tenant.admins)
        for user in dict.fromkeys((*tenant.members, *tenant.admins)):
            known = found.get(user, _NONE)
            admin_of = (*known.admin_of, tenant.name) if user in admins else known.admin_of
            found[user] = Membership((*known.tenants, tenant.name), admin_of)
    return found


def with_membership(identity: Identity, membership: Membership) -> Identity:
    """The caller with what the state adds; a token that was narrowed stays so."""
    if membership is _NONE:
        return identity
    joined = tuple(name for name in membership.tenants if name not in identity.tenants)
    is_narrow = Role.READ_ONLY in identity.roles or NARROW.issuperset(identity.roles)
    admin_of = () if is_narrow else membership.admin_of
    return replace(identity, tenants=(*identity.tenants, *joined), admin_of=admin_of, joined=joined)
