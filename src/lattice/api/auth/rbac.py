"""Who may do what: one row per permission, one column per role.

A token may carry several roles; the widest reach counts. What a reach means for one operation:

    NONE    refused
    OWN     what belongs to the caller
    TENANT  what belongs to a tenant of the caller
    ALL     everything
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum

from lattice.ports.site.identity import Identity, Kind


class Role(StrEnum):
    SYSTEM_ADMIN = "SystemAdmin"
    TENANT_ADMIN = "TenantAdmin"
    OPERATOR = "Operator"
    CLAIMING_USER = "ClaimingUser"
    READ_ONLY = "ReadOnly"
    READER = "AllocationReader"  # a token that was narrowed to this
    ATTACHER = "AllocationAttacher"  # likewise
    USER = "User"
    AGENT = "Agent"
    MOVER = "Mover"  # copies data to the hot tier


class Reach(IntEnum):
    NONE = 0
    OWN = 1
    TENANT = 2
    ALL = 3


class Permission(StrEnum):
    SUBMIT = "allocation:submit"  # always as oneself; the reach is about tenants
    READ = "allocation:read"  # all of the tenant, for its members, where the tenant's visibility says so
    CHANGE = "allocation:change"  # cancel, hold, release, requeue, update
    LAUNCH = "allocation:launch"  # tasks inside it, as its user: the owner alone
    ATTACH = "allocation:attach"  # a terminal inside it, as its user: the owner alone
    SHARE_TERMINAL = "allocation:share"  # who may watch a terminal: the owner says
    STEER = "allocation:steer"  # input, signals, window and end of a step; of one that is no terminal with LAUNCH alone
    FORWARD = "allocation:forward"  # connections to its ports: the owner, and whom it shares them with
    READ_SERVICES = "service:read"  # names and endpoints of services
    READ_DETAILS = "allocation:details"  # script, arguments, environment
    READ_OUTPUT = "allocation:output"
    READ_NODES = "node:read"
    CONTROL_NODES = "node:control"
    READ_TENANTS = "tenant:read"
    CREATE_TENANTS = "tenant:create"
    WRITE_TENANTS = "tenant:write"  # administrators of the tenant: inside what it was given
    READ_VCLUSTERS = "vcluster:read"
    CREATE_VCLUSTERS = "vcluster:create"
    WRITE_VCLUSTERS = "vcluster:write"  # administrators of the tenant: vClusters that are the tenant's alone
    READ_PROJECTS = "project:read"
    WRITE_PROJECTS = "project:write"
    READ_RESERVATIONS = "reservation:read"
    WRITE_RESERVATIONS = "reservation:write"
    READ_USAGE = "usage:read"
    READ_SETTINGS = "setting:read"
    WRITE_SETTINGS = "setting:write"
    READ_SCHEDULER = "scheduler:read"
    READ_FIGURES = "figures:read"  # metrics of servers; those of all tenants with a token that belongs to none
    MANAGE_SERVERS = "server:manage"  # who belongs to the servers, and their certificates
    MANAGE_BACKUPS = "backup:manage"
    READ_AUDIT = "audit:read"  # entries by the user, or about the user's own work
    READ_SELF = "self:read"
    OWN_NOTIFICATIONS = "notification:own"  # the user's own notification settings
    CONNECT_AGENT = "agent:connect"
    READ_DATA = "data:read"  # sources on the hot tier that the user's work uses, and how full it is
    STAGE_DATA = "data:stage"
    EVICT_DATA = "data:evict"
    MOVE_DATA = "data:move"


_ROLES = (
    Role.SYSTEM_ADMIN,
    Role.TENANT_ADMIN,
    Role.OPERATOR,
    Role.CLAIMING_USER,
    Role.READ_ONLY,
    Role.READER,
    Role.ATTACHER,
    Role.USER,
    Role.AGENT,
    Role.MOVER,
)
_N, _O, _T, _A = Reach.NONE, Reach.OWN, Reach.TENANT, Reach.ALL
# fmt: off
#                              SystemAdmin TenantAdmin Operator ClaimingUser ReadOnly Reader Attacher User Agent Mover
_ROWS: dict[Permission, tuple[Reach, ...]] = {
    Permission.SUBMIT:          (_A, _T, _T, _T, _N, _N, _N, _T, _N, _N),
    Permission.READ:            (_A, _T, _O, _O, _O, _O, _O, _O, _N, _N),
    Permission.CHANGE:          (_A, _T, _O, _O, _N, _N, _N, _O, _N, _N),
    Permission.LAUNCH:          (_O, _O, _O, _O, _N, _N, _N, _O, _N, _N),
    Permission.ATTACH:          (_O, _O, _O, _O, _N, _N, _O, _O, _N, _N),
    Permission.SHARE_TERMINAL:  (_O, _O, _O, _O, _N, _N, _N, _O, _N, _N),
    Permission.STEER:           (_O, _O, _O, _O, _N, _N, _O, _O, _N, _N),
    Permission.FORWARD:         (_O, _O, _O, _O, _N, _N, _N, _O, _N, _N),
    Permission.READ_DETAILS:    (_A, _O, _O, _O, _O, _O, _N, _O, _N, _N),
    Permission.READ_OUTPUT:     (_A, _T, _O, _O, _O, _O, _O, _O, _N, _N),
    Permission.READ_NODES:      (_A, _A, _A, _A, _A, _N, _N, _A, _N, _N),
    Permission.CONTROL_NODES:   (_A, _N, _A, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_TENANTS:    (_A, _T, _T, _T, _T, _N, _N, _T, _N, _N),
    Permission.CREATE_TENANTS:  (_A, _N, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.WRITE_TENANTS:   (_A, _T, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_VCLUSTERS:  (_A, _A, _A, _A, _A, _N, _N, _A, _N, _N),
    Permission.CREATE_VCLUSTERS: (_A, _N, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.WRITE_VCLUSTERS: (_A, _T, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_PROJECTS:   (_A, _T, _T, _T, _T, _N, _N, _T, _N, _N),
    Permission.WRITE_PROJECTS:  (_A, _T, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_RESERVATIONS:  (_A, _A, _A, _A, _A, _N, _N, _A, _N, _N),
    Permission.WRITE_RESERVATIONS: (_A, _N, _A, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_USAGE:      (_A, _T, _O, _O, _O, _N, _N, _O, _N, _N),
    Permission.READ_SETTINGS:   (_A, _N, _A, _N, _N, _N, _N, _N, _N, _N),
    Permission.WRITE_SETTINGS:  (_A, _N, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_SCHEDULER:  (_A, _A, _A, _A, _A, _N, _N, _A, _N, _N),
    Permission.READ_FIGURES:    (_A, _N, _A, _N, _A, _N, _N, _N, _N, _N),
    Permission.MANAGE_SERVERS:  (_A, _N, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.MANAGE_BACKUPS:  (_A, _N, _N, _N, _N, _N, _N, _N, _N, _N),
    Permission.READ_AUDIT:      (_A, _T, _O, _O, _O, _N, _N, _O, _N, _N),
    Permission.READ_SELF:       (_A, _A, _A, _A, _A, _A, _A, _A, _A, _A),
    Permission.OWN_NOTIFICATIONS: (_O, _O, _O, _O, _N, _N, _N, _O, _N, _N),
    Permission.CONNECT_AGENT:   (_N, _N, _N, _N, _N, _N, _N, _N, _A, _N),
    Permission.READ_DATA:       (_A, _A, _A, _A, _A, _N, _N, _A, _N, _N),
    Permission.STAGE_DATA:      (_A, _T, _T, _T, _N, _N, _N, _T, _N, _N),
    Permission.EVICT_DATA:      (_A, _N, _A, _N, _N, _N, _N, _N, _N, _N),
    Permission.MOVE_DATA:       (_N, _N, _N, _N, _N, _N, _N, _N, _N, _A),
    Permission.READ_SERVICES:   (_A, _T, _T, _T, _T, _N, _N, _T, _N, _N),
}
# fmt: on
TABLE: dict[tuple[Role, Permission], Reach] = {
    (role, permission): reach for permission, row in _ROWS.items() for role, reach in zip(_ROLES, row, strict=True)
}

_SCOPES = {
    "admin": Role.SYSTEM_ADMIN,
    "system:admin": Role.SYSTEM_ADMIN,
    "tenant:admin": Role.TENANT_ADMIN,
    "operator": Role.OPERATOR,
    "sensitive:claim": Role.CLAIMING_USER,
    "readonly": Role.READ_ONLY,
    "allocations:read": Role.READER,
    "allocations:attach": Role.ATTACHER,
    "data:move": Role.MOVER,
}
# Tokens with these alone may do no more, whatever their user may.
NARROW = frozenset({Role.READ_ONLY, Role.READER, Role.ATTACHER, Role.MOVER})
# Words of the claims `pact_role` and `lattice_role`, for callers whose token has no scope of ours.
_ROLE_CLAIMS = {
    "pact-platform-admin": Role.SYSTEM_ADMIN,
    "system-admin": Role.SYSTEM_ADMIN,
    "tenant-admin": Role.TENANT_ADMIN,
    "operator": Role.OPERATOR,
}


def roles_of(scopes: Iterable[str], kind: Kind, role_claims: Iterable[str] = ()) -> tuple[Role, ...]:
    """The roles that a token's scopes give or, without any of ours, its role claims; scopes of other systems are ignored.

    A token inside an allocation is never more than its user's, whatever it says.
    """
    if kind == "agent":
        return (Role.AGENT,)
    if kind == "allocation":
        return (Role.USER,)
    named = dict.fromkeys(_SCOPES[word] for word in scopes if word in _SCOPES)
    claimed = dict.fromkeys(_ROLE_CLAIMS[word] for word in role_claims if word in _ROLE_CLAIMS)
    return tuple(named) or tuple(claimed) or (Role.USER,)


def reach_in(identity: Identity, permission: Permission, tenant: str) -> Reach:
    """How far the caller may go with what belongs to this tenant, which the state may let them administer.

    Who issued the token vouches for its roles in the tenants that it names; in those that only the state gives, its bearer is
    a plain member.
    """
    reach = reach_of(identity, permission)
    if reach is not Reach.ALL and tenant in identity.joined:
        plain = Role.READ_ONLY if Role.READ_ONLY in identity.roles else Role.USER
        reach = min(reach, TABLE[plain, permission])
    if tenant in identity.admin_of:
        reach = max(reach, TABLE[Role.TENANT_ADMIN, permission])
    return reach


def may_at_all(identity: Identity, permission: Permission) -> bool:
    """Whether the caller reaches anything with the permission."""
    if reach_of(identity, permission) is not Reach.NONE:
        return True
    return bool(identity.admin_of) and TABLE[Role.TENANT_ADMIN, permission] is not Reach.NONE


def reach_of(identity: Identity, permission: Permission) -> Reach:
    """How far the caller may go; NONE for a role that the table does not know."""
    reach = Reach.NONE
    for name in identity.roles:
        found = _BY_NAME.get((name, permission), Reach.NONE)
        if found > reach:
            reach = found
    return reach


_BY_NAME: dict[tuple[str, Permission], Reach] = {
    (str(role), permission): reach for (role, permission), reach in TABLE.items()
}
