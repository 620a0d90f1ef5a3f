"""What administrators of a tenant may change: limits of its projects and users, and its own vClusters, inside what the tenant was given.

A limit that the system's administrators set may be tightened and never widened. What is not named here is theirs alone.
"""

from collections.abc import Iterator
from math import inf

from msgspec import Struct

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.core.model.site.tenants import Project, Tenant, Vcluster

MAX_WEIGHT = (
    1.0  # of all weights together, as the built-in profiles have it: vClusters compete for shared nodes by them
)
_TENANT_FREE = ("visibility", "max_running_per_user", "max_pending_per_user")
_TENANT_LIMITS = ("max_nodes", "max_concurrent_allocations", "max_class", "gpu_hours_budget", "node_hours_budget")
_TENANT_SHARES = ("fair_share_target", "burst_allowance")
_VCLUSTER_FREE = ("default_walltime_s", "profile", "weights")
_VCLUSTER_LIMITS = ("max_walltime_s", "max_nodes", "backfill_depth")
_HINT = "a system administrator can change it"


def check_tenant_change(context: Context, old: Tenant, new: Tenant) -> None:
    """Raises ApiError for what an administrator of the tenant may not do."""
    if context.reach(Permission.WRITE_TENANTS) is Reach.ALL:
        return
    if not context.covers_tenant(Permission.WRITE_TENANTS, old.name):
        raise ApiError("forbidden", f'you do not administer tenant "{old.name}"')
    for field in _changed(old, new):
        before, after = getattr(old, field), getattr(new, field)
        if field in _TENANT_LIMITS:
            _refuse_wider(field, inf if before is None else before, inf if after is None else after)
        elif field in _TENANT_SHARES:
            # No share is not the largest one: it is an equal one.
            _refuse_wider(field, -inf if before is None else before, inf if after is None else after)
        elif field not in _TENANT_FREE:
            raise _not_theirs(field)


def check_project_change(context: Context, tenant: str, new: Project) -> None:
    """Raises ApiError for a limit beyond the tenant's own."""
    if context.reach(Permission.WRITE_PROJECTS) is Reach.ALL:
        return
    limit = context.state.tenants[tenant].max_nodes
    if limit is not None and new.max_nodes is not None and new.max_nodes > limit:
        raise ApiError(
            "forbidden",
            f'max_nodes of a project may not be above that of its tenant "{tenant}"',
            requested=f"{new.max_nodes} nodes",
            limit=f"{limit} nodes",
        )


def check_vcluster_change(context: Context, old: Vcluster, new: Vcluster) -> None:
    """Raises ApiError for what an administrator of the tenants of the vCluster may not do."""
    if context.reach(Permission.WRITE_VCLUSTERS) is Reach.ALL:
        return
    if not old.tenants or not all(context.covers_tenant(Permission.WRITE_VCLUSTERS, name) for name in old.tenants):
        raise ApiError(
            "forbidden",
            f'vCluster "{old.name}" is not for your tenant alone',
            hint="administrators of a tenant change vClusters that no other tenant may use",
        )
    for field in _changed(old, new):
        before, after = getattr(old, field), getattr(new, field)
        if field in _VCLUSTER_LIMITS:
            _refuse_wider(field, _bound(field, before), _bound(field, after))
        elif field not in _VCLUSTER_FREE:
            raise _not_theirs(field)
    weight = sum(value for _, value in new.weights)
    if new.weights != old.weights and weight > MAX_WEIGHT:
        raise ApiError(
            "forbidden",
            "the weights of your vCluster may not add up to more than those of others",
            requested=f"{weight:g}",
            limit=f"{MAX_WEIGHT:g}",
            hint=_HINT,
        )


def _bound(field: str, value: int) -> float:
    """Where 0 means no limit, it is the largest."""
    return inf if not value and field != "backfill_depth" else value


def _changed(old: Struct, new: Struct) -> Iterator[str]:
    return (field for field in old.__struct_fields__ if getattr(old, field) != getattr(new, field))


def _refuse_wider(field: str, before: float, after: float) -> None:
    if after > before:
        raise ApiError(
            "forbidden",
            f"administrators of a tenant may lower {field}, not raise it",
            current=_figure(before),
            requested=_figure(after),
            hint=_HINT,
        )


def _figure(value: float) -> str:
    return "none" if value in (inf, -inf) else f"{value:g}"


def _not_theirs(field: str) -> ApiError:
    return ApiError("forbidden", f"administrators of a tenant may not change {field}", hint=_HINT)
