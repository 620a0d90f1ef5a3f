"""How one vCluster wants its queue ordered: which factors count how much, and how much of the queue one cycle looks at.

See docs/architecture/scheduler.md.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import fsum

from msgspec import Struct

from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.site.weights import FACTORS, PROFILES, RECORDS, check_weights

WINDOW = 1000
Weights = tuple[float, ...]  # one per factor, in the order of FACTORS, together 1

# By profile, one weight per factor in the order of FACTORS, as they stand in the factors' records.
WEIGHTS: dict[str, Weights] = {
    profile: tuple(float(getattr(record.weights, profile)) for record in RECORDS) for profile in PROFILES
}
# Short work may overtake long work only so far. In a simulation of the first halves of seven recorded workloads these two kept
# the longest wait below 1.5 times that of first come, first served with backfilling, at about half its mean slowdown.
RESPONSIVE_PATIENCE_S = 4 * 86_400
RESPONSIVE_LEARNS = 0.3
_OF_SCHEDULER = {
    "hpc-backfill": "hpc",
    "ml-training": "ml",
    "service-bin-pack": "service",
    "interactive-fifo": "interactive",
    "sensitive-reservation": "sensitive",
}


def normalised(weights: Weights) -> Weights:
    total = fsum(weights)
    return tuple(weight / total for weight in weights)


class Profile(Struct, frozen=True, kw_only=True):
    """`order` "score" = by the factors, "fifo" = class, then submission. `window` = rows of the vCluster one cycle tries."""

    name: str = "hpc"
    order: str = "score"
    window: int = WINDOW
    weights: Weights = normalised(WEIGHTS["hpc"])
    patience_s: int = 0  # who has waited longer than this, and than most, goes first, longest wait first; 0 = off
    learns: float = 0.0  # how much f10 goes by what earlier runs took, where that is less than the walltime: 0 to 1
    backfill_depth: int | None = (
        None  # number of top-ranked allocations that get a reservation; None = as the vCluster says
    )
    keeps_promises: bool = (
        True  # a start that was once predicted for one of them moves no later for work that came after it
    )
    claims_only: bool = False  # nodes are claimed immediately or not at all: nothing is backfilled or reserved


def validate_weights(weights: Mapping[str, float]) -> Weights | str:
    """Weights that sum to 1, or what is wrong with them in words. A factor that is not named counts nothing."""
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            return f"the weight of {name} must be a number, not {weight!r}"
    problem = check_weights(weights)
    if problem is None and not weights:
        problem = "at least one weight must be above 0"
    if problem is not None:
        return problem
    return normalised(tuple(float(weights.get(name, 0.0)) for name in FACTORS))


def profile_from_weights(name: str, weights: Mapping[str, float]) -> Profile:
    """A profile of that name with these weights; ValueError says what is wrong with them."""
    checked = validate_weights(weights)
    if isinstance(checked, str):
        raise ValueError(checked)
    return built_in(name, checked)


@lru_cache(maxsize=256)
def built_in(name: str, weights: Weights | None = None, order: str = "score") -> Profile:
    """The profile of that name (a table's or a scheduler's), with other weights where they are given."""
    table = _OF_SCHEDULER.get(name, name)
    return Profile(
        name=table,
        order=order,
        weights=weights or normalised(WEIGHTS.get(table, WEIGHTS["hpc"])),
        patience_s=RESPONSIVE_PATIENCE_S if table == "responsive" else 0,
        learns=RESPONSIVE_LEARNS if table == "responsive" else 0.0,
        backfill_depth=1 if table == "responsive" else None,
        keeps_promises=table != "responsive",
        claims_only=table == "sensitive",
    )


def profile_of(profiles: Mapping[str, Profile], vcluster: Vcluster) -> Profile:
    """The profile set for the vCluster, else what its record says, else the one that its scheduler implies."""
    found = profiles.get(vcluster.name) if profiles else None
    return found or _of_record(vcluster.scheduler, vcluster.profile, vcluster.weights)


@lru_cache(maxsize=1024)
def _of_record(scheduler: str, profile: str, weights: tuple[tuple[str, float], ...]) -> Profile:
    checked = validate_weights(dict(weights)) if weights else None
    return built_in(
        profile or scheduler,
        None if isinstance(checked, str) else checked,
        "fifo" if scheduler == "interactive-fifo" else "score",
    )
