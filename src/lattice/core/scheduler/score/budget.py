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
_HOUR_MS = 3_600_000.0


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
    if not ledger.days:
        return None
    return np.array([penalty(used_part(snapshot, name, now)) for name in ledger.tenants])


def used_part(snapshot: Snapshot, tenant: str, now: int) -> float:
    """How much of its budget the tenant has used, the worse of GPU- and node-hours; 0 without a budget."""
    record = snapshot.tenants.get(tenant)
    if record is None:
        return 0.0
    node_h, gpu_h = used_hours(snapshot, tenant, now)
    parts = [
        hours / budget if budget > 0 else float("inf")
        for hours, budget in ((node_h, record.node_hours_budget), (gpu_h, record.gpu_hours_budget))
        if budget is not None
    ]
    return max(parts, default=0.0)


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
