"""What would let waiting work start now or sooner: the same submission with less, tried on the plan. Nothing is submitted."""

from collections.abc import Iterator
from typing import Any

from lattice.cli.context import Context
from lattice.cli.errors import CommandError
from lattice.cli.input.again import again
from lattice.cli.times import local_with_distance
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.records import Allocation, Explanation

MINUTE_S = 60
_PARTS = (0.75, 0.5, 0.25, 0.1)


def ways_out(allocation: Allocation, predicted_start: str | None, context: Context) -> list[str]:
    """At most one way by time and one by nodes; none of work that this user may not repeat."""
    found = []
    for tries in (_shorter(allocation), _fewer(allocation)):
        told = next(filter(None, (_told(allocation, predicted_start, given, context) for given in tries)), "")
        if told:
            found.append(told)
    return found


def _shorter(allocation: Allocation) -> Iterator[dict[str, Any]]:
    """The longest first."""
    minutes = [int(float(allocation.walltime_s or 0) * part) // MINUTE_S for part in _PARTS]
    return ({"walltime": f"{each}m"} for each in dict.fromkeys(minutes) if each)


def _fewer(allocation: Allocation) -> Iterator[dict[str, Any]]:
    nodes = allocation.resources.nodes
    counts = dict.fromkeys(int(nodes * part) for part in _PARTS)
    return ({"nodes": str(each)} for each in counts if 0 < each < nodes)


def _told(allocation: Allocation, otherwise: str | None, given: dict[str, Any], context: Context) -> str:
    """The sentence about one change; empty when it does not help."""
    try:
        outlook = context.client.dry_run(again(allocation, given, context, only_failed=False))
    except (LatticeError, CommandError):
        return ""
    ((flag, value),) = given.items()
    if outlook.rank is None:
        return f"starts now with --{flag}={value}"
    if _is_sooner(outlook, otherwise):
        start = local_with_distance(outlook.predicted_start, context.clock.now())
        return f"starts {start} with --{flag}={value}"
    return ""


def _is_sooner(outlook: Explanation, otherwise: str | None) -> bool:
    """Both are RFC 3339 in UTC, as servers write them."""
    return bool(outlook.predicted_start and otherwise and outlook.predicted_start < otherwise)
