"""The score: how much each waiting row is wanted, from its factors and the weights of its vCluster.

Only factors that some vCluster weighs are computed for the order; all of them when an explanation is requested.
See docs/architecture/scheduler.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from lattice.core.model.site.weights import FACTORS
from lattice.core.scheduler.score.budget import BEYOND_BURST, penalties, penalty_text
from lattice.core.scheduler.score.factors.f1_priority import HIGHEST_CLASS
from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.score.factors.registry import IN_ORDER
from lattice.core.scheduler.score.fairshare import beyond_burst
from lattice.core.scheduler.score.profiles import Profile, profile_of
from lattice.core.scheduler.tables.slots import Bools, Floats, Rows
from lattice.core.scheduler.tables.snapshot import Snapshot

TIMES_TYPICAL = 2.0  # of the root mean square of the waits in the queue: no row is late before that
MAX_PATIENCE = 4  # times the profile's: then it is late whatever the others wait
_LONG_S = 1e9
_FALLBACK = Profile()


@dataclass(frozen=True, eq=False)
class Scores:
    """`total` lies in [0, 1], one per queue row."""

    moment: Moment
    profiles: tuple[Profile, ...]  # by number of the vCluster
    total: Floats

    @cached_property
    def matrix(self) -> Floats:
        """Every factor of every row: one line per factor, in the order of FACTORS."""
        return np.array([factor(self.moment) for factor in IN_ORDER])

    def of(self, row: int) -> dict[str, float]:
        """Each factor of one row by name, and the total."""
        values = dict(zip(FACTORS, self.matrix[:, row].tolist(), strict=True))
        return {**values, "total": float(self.total[row])}

    def penalty(self, row: int) -> tuple[float, str]:
        """What soft quotas multiply the score of the row by, and why; 1.0 and nothing when they do not, or its vCluster ignores scores."""
        snapshot = self.moment.snapshot
        if self.profiles[int(snapshot.queue.vcluster[row])].order == "fifo":
            return 1.0, ""
        place = int(snapshot.ledger.tenant[snapshot.queue.account[row]])
        told = self._penalties.get(place)
        if told is None:
            is_beyond = self._beyond is not None and bool(self._beyond[place])
            name = snapshot.ledger.tenants[place]
            told = penalty_text(snapshot, name, self.moment.now, is_beyond_burst=is_beyond)
            self._penalties[place] = told
        return told

    # Lists of the queue ask for every row of it, which must not count the machine and the ledger again each time.
    @cached_property
    def _penalties(self) -> dict[int, tuple[float, str]]:
        return {}

    @cached_property
    def _beyond(self) -> Bools | None:
        return _held_back(self.moment.snapshot)

    def order(self) -> Rows:
        """All rows, the most wanted first; rows that are wanted alike stay in the order of submission."""
        key = -self.total
        for vcluster, profile in enumerate(self.profiles):
            if profile.patience_s:
                own = self.moment.snapshot.queue.vcluster == vcluster
                wait = self.moment.wait_s
                late = own & (wait > patience_s(profile, wait[own]))
                key = np.where(late, -1.0 - wait / (wait + _LONG_S), key)
        rows: Rows = np.argsort(key, kind="stable")
        return rows


def patience_s(profile: Profile, waits: Floats) -> float:
    """The wait after which a row goes first. Where all rows wait long, a long wait alone makes no row late, up to a limit."""
    if not len(waits):
        return float(profile.patience_s)
    typical = float(np.sqrt(np.mean(waits * waits)))
    return min(max(float(profile.patience_s), TIMES_TYPICAL * typical), float(profile.patience_s * MAX_PATIENCE))


class _Weighing(NamedTuple):
    """The profiles of all vClusters, in columns by number of the vCluster."""

    weights: tuple[tuple[int, Floats], ...]  # of each factor that anybody weighs: its place, its weights
    learns: tuple[float, ...]
    is_fifo: Bools


@lru_cache(maxsize=64)
def _weighing(profiles: tuple[Profile, ...]) -> _Weighing:
    weights = np.array([profile.weights for profile in profiles]).reshape(-1, len(FACTORS))
    is_fifo = np.array([profile.order == "fifo" for profile in profiles], np.bool_)
    used = np.flatnonzero(weights[~is_fifo].any(axis=0)).tolist()
    return _Weighing(
        tuple((place, weights[:, place]) for place in used),
        tuple(profile.learns for profile in profiles),
        is_fifo,
    )


def score(snapshot: Snapshot, profiles: Mapping[str, Profile], now: int) -> Scores:
    """The scores of all rows at `now` (milliseconds since 1970); `profiles` is by name of vCluster."""
    found = tuple(
        profile_of(profiles, snapshot.vclusters[name]) if name in snapshot.vclusters else _FALLBACK
        for name in snapshot.vcluster_names
    )
    weighing = _weighing(found)
    moment = Moment(snapshot, now, weighing.learns)
    if not len(snapshot.queue.number):
        return Scores(moment, found, np.zeros(0))
    if weighing.is_fifo.all():
        return Scores(moment, found, _first_come(moment))
    total = _weighted(moment, weighing)
    multiplied = _multipliers(snapshot, now)
    if multiplied is not None:
        total *= multiplied.take(snapshot.queue.account)
    if weighing.is_fifo.any():
        total = np.where(weighing.is_fifo[snapshot.queue.vcluster], _first_come(moment), total)
    return Scores(moment, found, total)


def _weighted(moment: Moment, weighing: _Weighing) -> Floats:
    """The product of weights and factors, added up in one order for every row, so that equal rows have equal sums."""
    vcluster = moment.snapshot.queue.vcluster
    total: Floats = np.zeros(len(vcluster))
    for place, weights in weighing.weights:
        total += (weights[0] if len(weights) == 1 else weights[vcluster]) * IN_ORDER[place](moment)
    return np.minimum(total, 1.0)


def _multipliers(snapshot: Snapshot, now: int) -> Floats | None:
    """By account: what budgets and burst allowances take away; None when they take nothing from anybody."""
    ledger = snapshot.ledger
    by_tenant = penalties(snapshot, now)
    beyond = _held_back(snapshot)
    if beyond is not None:
        factor = np.where(beyond, BEYOND_BURST, 1.0)
        by_tenant = factor if by_tenant is None else by_tenant * factor
    return None if by_tenant is None else by_tenant[ledger.tenant]


def _held_back(snapshot: Snapshot) -> Bools | None:
    """By tenant: whether it is beyond its burst allowance while others wait; None when none is."""
    if all(tenant.burst_allowance is None for tenant in snapshot.tenants.values()):
        return None
    beyond = beyond_burst(snapshot)
    waiting = snapshot.ledger.tenant[snapshot.queue.account]
    return beyond if beyond.any() and not beyond[waiting].all() else None


def _first_come(moment: Moment) -> Floats:
    """Rises with class and then with waiting, which counts from the earliest start that was asked for."""
    wait = moment.wait_s
    total: Floats = (moment.snapshot.queue.preemption_class + wait / (wait + _LONG_S)) / (HIGHEST_CLASS + 1)
    return total
