"""Usage: node-hours, GPU-hours and counts of a tenant or a user over the last days, from the hot state and the archive."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.limits import DEFAULT_USAGE_DAYS, MAX_USAGE_DAYS
from lattice.api.operations.tenants import find_tenant
from lattice.api.selection import Selection, archived_records
from lattice.core.model.allocations import Allocation
from lattice.core.model.nodes import Node, Share
from lattice.wire.problems import BadField
from lattice.wire.times import rfc3339

_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
# What a node that is no longer known is taken to have had.
_UNKNOWN_GPUS = 1
# How many are looked at before others get their turn.
_AT_ONCE = 500


class TenantUsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    days: int = DEFAULT_USAGE_DAYS
    user: str = ""


class UserUsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    days: int = DEFAULT_USAGE_DAYS
    user: str = ""


class UserUse(Struct, frozen=True, kw_only=True):
    user: str
    tenant: str
    node_hours: float
    gpu_hours: float
    allocations: int


class UsageView(Struct, frozen=True, kw_only=True):
    tenant: str | None
    user: str | None
    days: int
    since: str | None
    node_hours: float
    gpu_hours: float
    allocations: int
    states: dict[str, int]
    node_hours_budget: float | None
    gpu_hours_budget: float | None
    users: list[UserUse]


def _zeros() -> defaultdict[tuple[str, str], float]:
    return defaultdict(float)


@dataclass
class _Sum:
    node_hours: defaultdict[tuple[str, str], float] = field(default_factory=_zeros)
    gpu_hours: defaultdict[tuple[str, str], float] = field(default_factory=_zeros)
    allocations: Counter[tuple[str, str]] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)


async def tenant_usage(context: Context, request: TenantUsageQuery) -> UsageView:
    """What one tenant used, user by user."""
    tenant = find_tenant(context, request.name)
    if not context.covers_tenant(Permission.READ_USAGE, tenant.name) and (request.user != context.user):
        raise ApiError(
            "forbidden",
            f'only administrators see the usage of tenant "{tenant.name}"',
            hint="`lattice usage` shows your own",
        )
    since = _since(context, request.days)
    wanted = Selection(tenants=(tenant.name,), user=request.user, tasks=True, since=since)
    total = await _add_up(context, wanted, since)
    return _view(
        total,
        tenant=tenant.name,
        user=request.user or None,
        days=request.days,
        since=since,
        node_hours_budget=tenant.node_hours_budget,
        gpu_hours_budget=tenant.gpu_hours_budget,
    )


async def user_usage(context: Context, request: UserUsageQuery) -> UsageView:
    """What one user used in the tenants that the caller may see."""
    user = request.user or context.user
    tenants = context.visible_tenants(Permission.READ_USAGE)
    if user != context.user:
        tenants = _tenants_of_others(context, tenants)
    since = _since(context, request.days)
    wanted = Selection(tenants=tenants, user=user, tasks=True, since=since)
    total = await _add_up(context, wanted, since)
    tenant = tenants[0] if tenants is not None and len(tenants) == 1 else None
    return _view(total, tenant=tenant, user=user, days=request.days, since=since)


def _tenants_of_others(context: Context, tenants: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if tenants is None:
        return None
    seen = tuple(name for name in tenants if context.covers_tenant(Permission.READ_USAGE, name))
    if not seen:
        raise ApiError("forbidden", "only administrators see the usage of others")
    return seen


def _since(context: Context, days: int) -> int:
    if not 1 <= days <= MAX_USAGE_DAYS:
        raise BadField("days", f"{days} is not possible", limit=f"from 1 to {MAX_USAGE_DAYS:,}")
    return max(1, context.services.clock.now_ms() - days * _DAY_MS)


async def _add_up(context: Context, wanted: Selection, since: int) -> _Sum:
    """Adds up what is hot, then what is archived; nothing counts twice."""
    total, seen = _Sum(), set()
    now_ms, nodes = context.services.clock.now_ms(), context.state.nodes
    for place, record in enumerate(list(context.state.allocations.values()), start=1):
        if wanted.takes(record):
            seen.add(record.number)
            _add(total, record, since, now_ms, nodes)
        if place % _AT_ONCE == 0:
            await asyncio.sleep(0)
    for group in context.state.groups.values():
        if group.pending and wanted.takes(group.template):
            key = (group.template.user, group.template.tenant)
            total.allocations[key] += group.pending_count
            total.states["Pending"] += group.pending_count
    async for archived in archived_records(context, wanted, None):
        if isinstance(archived, Allocation) and archived.number not in seen:
            _add(total, archived, since, now_ms, nodes)
    return total


def _add(total: _Sum, record: Allocation, since: int, now_ms: int, nodes: dict[str, Node]) -> None:
    key = (record.user, record.tenant)
    total.allocations[key] += 1
    total.states[record.state] += 1
    if not record.started_at:
        return
    end = record.ended_at or now_ms
    hours = max(0, end - max(record.started_at, since)) / _HOUR_MS
    for share in record.shares:
        part, gpus = _weight(share, nodes.get(share.node))
        total.node_hours[key] += hours * part
        total.gpu_hours[key] += hours * gpus


def _weight(share: Share, node: Node | None) -> tuple[float, int]:
    """The part of a node and the GPUs that a share stands for."""
    if share.whole:
        return 1.0, _UNKNOWN_GPUS if node is None else node.hardware.gpus
    cpus = node.hardware.cpus if node is not None else share.cpus
    return (share.cpus / cpus if cpus else 1.0), share.gpus


def _view(
    total: _Sum,
    *,
    tenant: str | None,
    user: str | None,
    days: int,
    since: int,
    node_hours_budget: float | None = None,
    gpu_hours_budget: float | None = None,
) -> UsageView:
    return UsageView(
        tenant=tenant,
        user=user,
        days=days,
        since=rfc3339(since),
        node_hours=round(sum(total.node_hours.values()), 4),
        gpu_hours=round(sum(total.gpu_hours.values()), 4),
        allocations=total.allocations.total(),
        states=dict(total.states),
        node_hours_budget=node_hours_budget,
        gpu_hours_budget=gpu_hours_budget,
        users=[
            UserUse(
                user=key[0],
                tenant=key[1],
                node_hours=round(total.node_hours[key], 4),
                gpu_hours=round(total.gpu_hours[key], 4),
                allocations=total.allocations[key],
            )
            for key in sorted(total.allocations)
        ],
    )
