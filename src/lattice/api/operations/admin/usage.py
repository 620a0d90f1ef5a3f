"""Usage: node-hours and GPU-hours of a tenant or a user over the last days, from the ledger and from what runs now.

A run counts whole, on the day on which it ended; one that still runs counts up to now.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.operations.admin.tenants import find_tenant
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.ledger import DAY_MS, KEPT_DAYS, Ledger, run_amounts
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

_HOUR_MS = 3_600_000
# How many are looked at before others get their turn.
_BATCH = 500


class TenantUsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    days: int | None = None
    user: str = ""
    project: str = ""


class UserUsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    days: int | None = None
    user: str = ""
    project: str = ""


class UserUse(Struct, frozen=True, kw_only=True):
    user: str
    tenant: str
    node_hours: float
    gpu_hours: float
    running: int


class UsageView(Struct, frozen=True, kw_only=True):
    """`running` counts allocations that hold nodes now. Fractions are shares of a budget: 1 means all of it is used."""

    tenant: str | None
    user: str | None
    project: str | None
    days: int
    since: str | None
    node_hours: float
    gpu_hours: float
    running: int
    node_hours_budget: float | None
    gpu_hours_budget: float | None
    node_hours_fraction: float | None
    gpu_hours_fraction: float | None
    users: list[UserUse]


Key = tuple[str, str]  # user, tenant


@dataclass
class _Sum:
    node_ms: Counter[Key] = field(default_factory=Counter)
    gpu_ms: Counter[Key] = field(default_factory=Counter)
    running: Counter[Key] = field(default_factory=Counter)


async def tenant_usage(context: Context, request: TenantUsageQuery) -> UsageView:
    """Get a tenant's usage by user, and the fraction of its budgets used."""
    tenant = find_tenant(context, request.name)
    if not context.covers_tenant(Permission.READ_USAGE, tenant.name) and (request.user != context.user):
        raise ApiError(
            "forbidden",
            f'only administrators see the usage of tenant "{tenant.name}"',
            hint="`lattice usage` shows your own",
        )
    days = _days(context, request.days)
    wanted = _Filter((tenant.name,), request.user, request.project)
    total = await _add_up(context, wanted, _first_day(context, days))
    is_whole = not request.user and not request.project
    return _view(
        context,
        total,
        tenant=tenant.name,
        user=request.user or None,
        project=request.project or None,
        days=days,
        # A budget is the tenant's; what one user or project took of it says little about what is left.
        node_hours_budget=tenant.node_hours_budget if is_whole else None,
        gpu_hours_budget=tenant.gpu_hours_budget if is_whole else None,
    )


async def user_usage(context: Context, request: UserUsageQuery) -> UsageView:
    """Get a user's usage in the tenants that the caller may see."""
    user = request.user or context.user
    tenants = context.visible_tenants(Permission.READ_USAGE)
    if user != context.user:
        tenants = _tenants_of_others(context, tenants)
    days = _days(context, request.days)
    wanted = _Filter(tenants, user, request.project)
    total = await _add_up(context, wanted, _first_day(context, days))
    tenant = tenants[0] if tenants is not None and len(tenants) == 1 else None
    return _view(context, total, tenant=tenant, user=user, project=request.project or None, days=days)


def _tenants_of_others(context: Context, tenants: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if tenants is None:
        return None
    seen = tuple(name for name in tenants if context.covers_tenant(Permission.READ_USAGE, name))
    if not seen:
        raise ApiError("forbidden", "only administrators see the usage of others")
    return seen


def _days(context: Context, asked: int | None) -> int:
    """As many as asked for, else those of the budget."""
    days = int(setting_value(context.state.settings, "scheduler.budget_period_days")) if asked is None else asked
    if asked is not None and not 1 <= days <= KEPT_DAYS:
        raise BadField("days", f"{days} is not possible", limit=f"from 1 to {KEPT_DAYS:,}")
    return min(days, KEPT_DAYS)


def _first_day(context: Context, days: int) -> int:
    return max(0, context.services.clock.now_ms() // DAY_MS - days)


@dataclass(frozen=True, slots=True)
class _Filter:
    tenants: tuple[str, ...] | None
    user: str
    project: str

    def takes(self, entry: Ledger | Allocation) -> bool:
        return (
            (not self.user or entry.user == self.user)
            and (self.tenants is None or entry.tenant in self.tenants)
            and (not self.project or entry.project == self.project)
        )


async def _add_up(context: Context, wanted: _Filter, first_day: int) -> _Sum:
    state, now_ms, total = context.state, context.services.clock.now_ms(), _Sum()
    # Both are read before anything else gets its turn, so that no run is missed or counted twice.
    entries = [entry for entry in state.ledger.values() if wanted.takes(entry)]
    running = [record for record in state.allocations.values() if record.is_holding]
    for place, entry in enumerate(entries, start=1):
        node_ms, gpu_ms = entry.since(first_day)
        if node_ms or gpu_ms:
            total.node_ms[entry.user, entry.tenant] += node_ms
            total.gpu_ms[entry.user, entry.tenant] += gpu_ms
        if place % _BATCH == 0:
            await asyncio.sleep(0)
    for record in running:
        if wanted.takes(record):
            elapsed_ms = max(0, now_ms - record.started_at) if record.started_at else 0
            node_ms, gpu_ms = run_amounts(record.shares, state.nodes, elapsed_ms)
            key = (record.user, record.tenant)
            total.node_ms[key] += node_ms
            total.gpu_ms[key] += gpu_ms
            total.running[key] += 1
    return total


def _view(
    context: Context,
    total: _Sum,
    *,
    tenant: str | None,
    user: str | None,
    project: str | None,
    days: int,
    node_hours_budget: float | None = None,
    gpu_hours_budget: float | None = None,
) -> UsageView:
    node_hours, gpu_hours = _hours(total.node_ms.total()), _hours(total.gpu_ms.total())
    return UsageView(
        tenant=tenant,
        user=user,
        project=project,
        days=days,
        since=rfc3339(_first_day(context, days) * DAY_MS),
        node_hours=node_hours,
        gpu_hours=gpu_hours,
        running=total.running.total(),
        node_hours_budget=node_hours_budget,
        gpu_hours_budget=gpu_hours_budget,
        node_hours_fraction=_fraction(node_hours, node_hours_budget),
        gpu_hours_fraction=_fraction(gpu_hours, gpu_hours_budget),
        users=[
            UserUse(
                user=key[0],
                tenant=key[1],
                node_hours=_hours(total.node_ms[key]),
                gpu_hours=_hours(total.gpu_ms[key]),
                running=total.running[key],
            )
            for key in sorted(total.node_ms.keys() | total.running.keys())
        ],
    )


def _hours(milliseconds: int) -> float:
    return round(milliseconds / _HOUR_MS, 4)


def _fraction(used: float, budget: float | None) -> float | None:
    """Of a budget of nothing everything is used as soon as anything is."""
    if budget is None:
        return None
    return round(used / budget, 4) if budget else float(used > 0)
