"""Budgets: tenants that have used up most of their hours stand back, but nothing of theirs is refused.

The hours are those of the last days, as many as the setting says; of GPU-hours and node-hours the worse counts.
See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.model.work.ledger import DAY_MS
from lattice.core.scheduler.score.fairshare import running_ms
from lattice.core.scheduler.tables.slots import Floats
from lattice.core.scheduler.tables.snapshot import Snapshot

FREE_UNTIL = 0.8  # of the budget: no penalty
AT_THE_END = 0.1  # the factor when just all of it is used
BEYOND = 0.01
BEYOND_BURST = 0.1  # the factor for tenants beyond their burst allowance while others wait
_HOUR_MS = 3_600_000.0


Use = tuple[float, float, str]  # hours used, the budget, its unit


def penalty(used: float) -> float:
    """The factor for a tenant that has used this part of its budget."""
    if used <= FREE_UNTIL:
        return 1.0
    if used > 1.0:
        return BEYOND
    return 1.0 - (1.0 - AT_THE_END) * (used - FREE_UNTIL) / (1.0 - FREE_UNTIL)


def penalties(snapshot: Snapshot, now: int) -> Floats | None:
    """By tenant of the ledger; None when no tenant has a budget."""
    ledger = snapshot.ledger
    if not ledger.days and not snapshot.signals.budgets:
        return None
    return np.array([penalty(used_part(snapshot, name, now)) for name in ledger.tenants])


def penalty_text(snapshot: Snapshot, tenant: str, now: int, *, is_beyond_burst: bool) -> tuple[float, str]:
    """What soft quotas multiply the score of the tenant's work by, and why, with figures; 1.0 and nothing when they do not."""
    factor, reasons = penalty(used_part(snapshot, tenant, now)), []
    if factor < 1.0:
        used = max((_part(hours, budget), hours, budget, unit) for hours, budget, unit in uses(snapshot, tenant, now))
        reasons.append(f"has used {_figures(*used)}{_source(snapshot, tenant)}")
    if is_beyond_burst:
        factor *= BEYOND_BURST
        reasons.append("holds more than its fair share times its burst allowance while others wait")
    if not reasons:
        return 1.0, ""
    return (
        factor,
        f"soft quota penalty: tenant {tenant} {' and '.join(reasons)}, so its score is multiplied by {factor:.3g}",
    )


def _figures(part: float, hours: float, budget: float, unit: str) -> str:
    percent = f" ({part:.0%})" if budget > 0 else ""
    return f"{hours:,.1f} of {budget:,.0f} {unit}-hours{percent} of its budget"


def _source(snapshot: Snapshot, tenant: str) -> str:
    if tenant in snapshot.signals.budgets:
        return " by the accounting system"
    return f" of the last {snapshot.tuning.budget_days} days"


def _part(hours: float, budget: float) -> float:
    return hours / budget if budget > 0 else float("inf")


def uses(snapshot: Snapshot, tenant: str, now: int) -> list[Use]:
    """Hours used, the budget and its unit, for each budget of the tenant: by the accounting system, else by the ledger."""
    outside = snapshot.signals.budgets.get(tenant)
    if outside is not None:
        left = (
            (outside.gpu_hours_budget, outside.gpu_hours_remaining, "GPU"),
            (outside.node_hours_budget, outside.node_hours_remaining, "node"),
        )
        return [(budget - remaining, budget, unit) for budget, remaining, unit in left if budget is not None]
    record = snapshot.tenants.get(tenant)
    if record is None or (record.gpu_hours_budget is None and record.node_hours_budget is None):
        return []
    node_h, gpu_h = used_hours(snapshot, tenant, now)
    own = ((gpu_h, record.gpu_hours_budget, "GPU"), (node_h, record.node_hours_budget, "node"))
    return [(hours, budget, unit) for hours, budget, unit in own if budget is not None]


def used_part(snapshot: Snapshot, tenant: str, now: int) -> float:
    """How much of its budget the tenant has used, the worse of GPU- and node-hours; 0 without a budget."""
    return max((_part(hours, budget) for hours, budget, _ in uses(snapshot, tenant, now)), default=0.0)


def used_hours(snapshot: Snapshot, tenant: str, now: int) -> tuple[float, float]:
    """Node- and GPU-hours within the window, running work included."""
    ledger = snapshot.ledger
    first_day = now // DAY_MS - snapshot.tuning.budget_days + 1
    days = [entry for entry in ledger.days.get(tenant, ()) if entry[0] >= first_day]
    node_ms, gpu_ms = float(sum(entry[1] for entry in days)), float(sum(entry[2] for entry in days))
    if tenant in ledger.tenants:
        own = ledger.tenant == ledger.tenants.index(tenant)
        nodes, gpus = running_ms(ledger, now)
        node_ms, gpu_ms = node_ms + float(nodes[own].sum()), gpu_ms + float(gpus[own].sum())
    return node_ms / _HOUR_MS, gpu_ms / _HOUR_MS
