"""One request: who asks, and the few things that every operation does with that."""

from dataclasses import dataclass

from msgspec import Struct

from lattice.api.auth.rbac import Permission, Reach, reach_in, reach_of
from lattice.api.auth.scope import EVERYTHING, Scope
from lattice.api.errors import ApiError, refused, unknown
from lattice.api.limits import MAX_REQUEST_ID
from lattice.api.services import Services
from lattice.core.machine.commands import AnyCommand
from lattice.core.machine.outcomes import Accepted, Rejected
from lattice.core.machine.state import State
from lattice.core.model.site.settings import DEFAULT_VCLUSTER
from lattice.core.model.site.tenants import Visibility
from lattice.ports.site.identity import Identity
from lattice.wire.text.traces import TraceContext


class NoParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request without parameters."""


@dataclass(slots=True)
class Context:
    """`tenant` and `request_id` are what the headers say, `token` is the one that was verified, `trace` the span of the request."""

    services: Services
    identity: Identity
    tenant: str = ""
    request_id: str = ""
    token: str = ""
    trace: TraceContext | None = None

    @property
    def state(self) -> State:
        return self.services.replica.state

    @property
    def user(self) -> str:
        return self.identity.user

    @property
    def default_vcluster(self) -> str:
        """Where a submission goes that names none: as the cluster is set or, unset, as the server is configured."""
        state = self.state
        wanted = state.settings.get(DEFAULT_VCLUSTER, "")
        return wanted if wanted in state.vclusters else self.services.default_vcluster

    def reach(self, permission: Permission) -> Reach:
        return reach_of(self.identity, permission)

    def reach_in(self, permission: Permission, tenant: str) -> Reach:
        """How far the permission goes with what belongs to this tenant."""
        reach = reach_in(self.identity, permission, tenant)
        if reach is Reach.OWN and permission is Permission.READ and self._is_open(tenant):
            return Reach.TENANT
        return reach

    def _is_open(self, tenant: str) -> bool:
        """Whether the members of a tenant see each other's work."""
        found = self.state.tenants.get(tenant)
        return found is not None and found.visibility is Visibility.TENANT

    def covers(self, permission: Permission, *, user: str, tenant: str) -> bool:
        """Whether the permission reaches what belongs to this user of this tenant."""
        reach = self.reach_in(permission, tenant)
        if reach is Reach.ALL:
            return True
        if reach is Reach.NONE or tenant not in self.identity.tenants:
            return False
        return reach is Reach.TENANT or user == self.user

    def covers_tenant(self, permission: Permission, tenant: str) -> bool:
        """Whether the permission reaches everything of this tenant."""
        reach = self.reach_in(permission, tenant)
        return reach is Reach.ALL or (reach is Reach.TENANT and tenant in self.identity.tenants)

    def scope(self, permission: Permission, named: str = "") -> Scope:
        """Whose things may be listed; a tenant that the request or the header names narrows that to one."""
        reaches_all = self.reach(permission) is Reach.ALL
        if not named and not self.tenant and reaches_all:
            return EVERYTHING
        tenants = (self.chosen_tenant(permission, named),) if named or self.tenant else self.identity.tenants
        whole = frozenset(name for name in tenants if self.reach_in(permission, name) >= Reach.TENANT)
        own = frozenset(name for name in tenants if self.reach_in(permission, name) is Reach.OWN)
        return Scope(whole=whole, own=own, user=self.user)

    def visible_tenants(self, permission: Permission) -> tuple[str, ...] | None:
        """The tenants whose things may be listed; None = all of them. The header narrows that to one."""
        if self.tenant:
            return (self.chosen_tenant(permission),)
        return None if self.reach(permission) is Reach.ALL else self.identity.tenants

    def chosen_tenant(self, permission: Permission, named: str = "") -> str:
        """The tenant that the request names, else the header, else the token's first one.

        Refused when it does not exist, or is not among the caller's own and the permission does not reach all tenants.
        """
        own = self.identity.tenants
        tenant = named or self.tenant or (own[0] if own else "")
        reaches_all = self.reach(permission) is Reach.ALL
        if not tenant:
            if reaches_all:
                return self.services.default_tenant
            raise ApiError("forbidden", "the token names no tenant", hint="ask for a token that names your tenant")
        if not reaches_all and tenant not in own:
            raise ApiError(
                "forbidden",
                f'you are not a member of tenant "{tenant[:80]}"',
                hint=f"your tenants: {', '.join(own) or 'none'}",
            )
        if tenant not in self.state.tenants:
            known = self.state.tenants
            raise unknown("tenant", tenant, known if reaches_all else [name for name in own if name in known])
        return tenant

    async def carry_out(self, command: AnyCommand, request_id: str, part: str = "") -> Accepted:
        """Proposes the command and returns when it is durable and applied. Raises ApiError when it is refused.

        `part` tells several commands of one request apart.
        """
        command_id = self._command_id(request_id or self.request_id, part)
        outcome = await self.services.replica.propose(command, actor=self.user, command_id=command_id)
        if isinstance(outcome, Rejected):
            raise refused(outcome)
        return outcome

    def _command_id(self, request_id: str, part: str) -> str:
        if not request_id:
            return ""
        if len(request_id) > MAX_REQUEST_ID or not request_id.isprintable():
            raise ApiError(
                "invalid",
                "request_id must be printable and not longer than 128 characters",
                limit=f"{MAX_REQUEST_ID} characters",
            )
        user = self.user
        if "/" in user or "%" in user:
            # No user can end up with the command ids of another.
            user = user.replace("%", "%25").replace("/", "%2F")
        return f"{user}/{request_id}#{part}" if part else f"{user}/{request_id}"
