"""Fair share: who is below what is theirs, along the tree of tenants, projects and users, over all vClusters.

Use is node time: what runs now counts from its start, what has ended fades by half with every half-life. At each level of the
tree a member has a target, a share of what its siblings and itself have used together: a tenant the one it was given, all
others equal parts of what is left. The deficit is what is missing to the target, as a part of it. A level on which a member
has no siblings says nothing and is left out; of the others the higher ones count more. See docs/architecture/scheduler.md.
"""

from typing import NamedTuple

import numpy as np

from lattice.core.scheduler.feasibility import usable_nodes
from lattice.core.scheduler.tables.slots import Bools, Floats, Ints
from lattice.core.scheduler.tables.snapshot import BASE_S, RUNNING, UNIT, Ledger, Snapshot

LEVEL_WEIGHTS = (4.0, 2.0, 1.0)  # tenant, project, user
_BARELY_MS = 1000.0  # who has used less than this and waits for nothing is not there
_UNITS, _BEGUN, _BEGUN_GPUS, _STARTS, _GPU_STARTS = (
    RUNNING.index(name) for name in ("units", "begun", "begun_gpus", "starts", "gpu_starts")
)


class Level(NamedTuple):
    """One level of the tree, by member: how far below its target, and whether it has siblings."""

    deficit: Floats
    has_siblings: Bools


def running_ms(ledger: Ledger, now: int) -> tuple[Floats, Floats]:
    """Node and GPU milliseconds of running work so far, by account."""
    running, now_s = ledger.running, now // 1000 - BASE_S
    nodes: Floats = (running[_BEGUN] * now_s - running[_STARTS]) * (1000.0 / UNIT)
    gpus: Floats = (running[_BEGUN_GPUS] * now_s - running[_GPU_STARTS]) * 1000.0
    return np.maximum(nodes, 0.0), np.maximum(gpus, 0.0)


def use_ms(ledger: Ledger, now: int) -> Floats:
    """Node milliseconds by account as they weigh at `now`."""
    fading = 2.0 ** -min(1000.0, max(-1000.0, (now - ledger.as_of) / ledger.half_life_ms))
    use: Floats = ledger.past * fading
    return use + running_ms(ledger, now)[0]


def deficits(snapshot: Snapshot, now: int) -> Floats:
    """By account: 1 = has used nothing of what is its own, 0 = has used all of it or more."""
    ledger = snapshot.ledger
    if not ledger.accounts:
        return np.zeros(0)
    use = use_ms(ledger, now)
    active: Bools = use > _BARELY_MS
    active[snapshot.queue.account] = True
    levels = _levels(snapshot, use, active)
    total, weight = np.zeros(len(use)), np.zeros(len(use))
    for level, counts in zip(levels, LEVEL_WEIGHTS, strict=True):
        total += np.where(level.has_siblings, counts * level.deficit, 0.0)
        weight += np.where(level.has_siblings, counts, 0.0)
    deficit: Floats = np.where(weight > 0, total / np.maximum(weight, 1.0), levels[0].deficit)
    return deficit


def _levels(snapshot: Snapshot, use: Floats, active: Bools) -> tuple[Level, Level, Level]:
    """The three levels, each spread over the accounts."""
    ledger = snapshot.ledger
    root = np.zeros(len(ledger.tenants), np.int64)
    tenant_use, tenant_active = _summed(ledger.tenant, use, active, len(ledger.tenants))
    targets = tenant_targets(snapshot, tenant_active)
    tenant = _level(tenant_use, tenant_active, root, targets)
    projects = int(ledger.project.max()) + 1
    project_use, project_active = _summed(ledger.project, use, active, projects)
    parent = np.zeros(projects, np.int64)
    parent[ledger.project] = ledger.tenant
    project = _level(project_use, project_active, parent)
    user = _level(use, active, ledger.project)
    return (
        Level(tenant.deficit[ledger.tenant], tenant.has_siblings[ledger.tenant]),
        Level(project.deficit[ledger.project], project.has_siblings[ledger.project]),
        user,
    )


def _summed(member: Ints, use: Floats, active: Bools, count: int) -> tuple[Floats, Bools]:
    sums: Floats = np.bincount(member, use, count).astype(np.float64, copy=False)
    return sums, np.bincount(member, active, count) > 0


def _level(use: Floats, active: Bools, parent: Ints, targets: Floats | None = None) -> Level:
    of_parent = np.bincount(parent, use)[parent]
    siblings = np.bincount(parent, active)[parent]
    share = np.divide(use, of_parent, out=np.zeros(len(use)), where=of_parent > 0)
    target = 1.0 / np.maximum(siblings, 1.0) if targets is None else targets
    missing = np.maximum(target - share, 0.0)
    return Level(np.divide(missing, target, out=np.zeros(len(use)), where=target > 0), siblings > 1)


def tenant_targets(snapshot: Snapshot, active: Bools) -> Floats:
    """By tenant of the ledger; those without a target share equally what the others leave."""
    given = [_target_of(snapshot, name) for name in snapshot.ledger.tenants]
    left = 1.0 - sum(
        target for target, is_active in zip(given, active, strict=True) if target is not None and is_active
    )
    takers = sum(target is None and bool(is_active) for target, is_active in zip(given, active, strict=True))
    equal = max(0.0, left) / max(1, takers)
    return np.array([equal if target is None else target for target in given])


def _target_of(snapshot: Snapshot, tenant: str) -> float | None:
    record = snapshot.tenants.get(tenant)
    return None if record is None else record.fair_share_target


def beyond_burst(snapshot: Snapshot) -> Bools:
    """By tenant of the ledger: holds more of the machine at this moment than its target and burst allowance give it."""
    ledger = snapshot.ledger
    beyond = np.zeros(len(ledger.tenants), np.bool_)
    machine = float(np.count_nonzero(usable_nodes(snapshot.nodes))) * UNIT
    held = np.bincount(ledger.tenant, ledger.running[_UNITS], len(ledger.tenants)) if ledger.accounts else beyond
    for place, name in enumerate(ledger.tenants):
        record = snapshot.tenants.get(name)
        if record is not None and record.burst_allowance is not None and record.fair_share_target is not None:
            beyond[place] = held[place] > record.fair_share_target * record.burst_allowance * machine
    return beyond
