"""The weights of the scheduler's factors by name, as administrators write them."""

from collections.abc import Mapping
from math import isfinite

FACTORS = (
    "priority",
    "wait_time",
    "fair_share",
    "topology",
    "data_readiness",
    "backlog",
    "energy",
    "checkpoint",
    "conformance",
    "expansion",
)
PROFILES = ("hpc", "ml", "service", "sensitive", "interactive", "responsive")


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
