"""The scheduler's factors, one record each, and what administrators may write about them.

This is the only list: the registry of functions, the profiles, the checks of what is written and the guide are made from it or
held against it by tests. See docs/architecture/scheduler.md, "Score".
"""

from collections.abc import Mapping
from math import isfinite

from msgspec import Struct


class ByProfile(Struct, frozen=True, kw_only=True):
    """A weight for each profile: a factor does not type-check until it has all of them."""

    hpc: float
    ml: float
    service: float
    sensitive: float
    interactive: float
    responsive: float


class Factor(Struct, frozen=True, kw_only=True):
    """One factor of the score. The function of the same name is in `core/scheduler/score/factors/`."""

    name: str
    help: str  # what it measures, as the command line says it
    since: int  # the first level of the cluster at which every server knows it
    weights: ByProfile  # before they are normalised
    lowest: float = 0.0  # the range of its values
    highest: float = 1.0


# In the order in which their columns are added up; a new factor goes to the end.
RECORDS = (
    Factor(
        name="priority",
        help="the preemption class",
        since=1,
        weights=ByProfile(hpc=0.15, ml=0.10, service=0.15, sensitive=0.90, interactive=0.10, responsive=0.10),
    ),
    Factor(
        name="wait_time",
        help="time spent waiting",
        since=1,
        weights=ByProfile(hpc=0.20, ml=0.10, service=0.05, sensitive=0.00, interactive=0.30, responsive=0.00),
    ),
    Factor(
        name="fair_share",
        help="distance of the tenant below its share",
        since=1,
        weights=ByProfile(hpc=0.20, ml=0.10, service=0.10, sensitive=0.00, interactive=0.10, responsive=0.00),
    ),
    Factor(
        name="topology",
        help="number of topology groups needed (fewer is better)",
        since=1,
        weights=ByProfile(hpc=0.15, ml=0.25, service=0.05, sensitive=0.00, interactive=0.00, responsive=0.00),
    ),
    Factor(
        name="data_readiness",
        help="fraction of its data that is staged",
        since=1,
        weights=ByProfile(hpc=0.10, ml=0.15, service=0.10, sensitive=0.00, interactive=0.05, responsive=0.00),
    ),
    Factor(
        name="backlog",
        help="ratio of queued to running work",
        since=1,
        weights=ByProfile(hpc=0.05, ml=0.05, service=0.05, sensitive=0.00, interactive=0.15, responsive=0.00),
    ),
    Factor(
        name="energy",
        help="current price of energy (cheaper is better)",
        since=1,
        weights=ByProfile(hpc=0.00, ml=0.05, service=0.10, sensitive=0.00, interactive=0.00, responsive=0.00),
    ),
    Factor(
        name="checkpoint",
        help="cost of a checkpoint (cheaper is better)",
        since=1,
        weights=ByProfile(hpc=0.05, ml=0.10, service=0.10, sensitive=0.00, interactive=0.00, responsive=0.00),
    ),
    Factor(
        name="conformance",
        help="number of identical nodes",
        since=1,
        weights=ByProfile(hpc=0.10, ml=0.25, service=0.05, sensitive=0.10, interactive=0.00, responsive=0.00),
    ),
    Factor(
        name="expansion",
        help="time spent waiting relative to walltime",
        since=1,
        weights=ByProfile(hpc=0.00, ml=0.00, service=0.00, sensitive=0.00, interactive=0.00, responsive=0.90),
    ),
)
FACTORS = tuple(record.name for record in RECORDS)
SINCE = {record.name: record.since for record in RECORDS}
PROFILES = ByProfile.__struct_fields__


def check_weights(weights: Mapping[str, float]) -> str | None:
    """What is wrong with the weights, in words; None when nothing is."""
    for name, weight in weights.items():
        if name not in FACTORS:
            return f'unknown factor "{name}"; known: {", ".join(FACTORS)}'
        if not isfinite(weight) or weight < 0:
            return f"the weight of {name} must be a number of at least 0, not {weight}"
    if weights and not any(weights.values()):
        return "at least one weight must be above 0"
    return None
