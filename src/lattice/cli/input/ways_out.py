"""What would let waiting work start now or sooner: the same submission with less, tried on the plan. Nothing is submitted."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from lattice.cli.context import Context
from lattice.cli.errors import CommandError
from lattice.cli.input.again import again
from lattice.cli.times import local_with_distance
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.records import Allocation, Explanation, Submission

MINUTE_S = 60
_PARTS = (0.75, 0.5, 0.25, 0.1)
_PLAIN = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


Given = dict[str, Any]


def ways_out(allocation: Allocation, predicted_start: str | None, context: Context) -> list[str]:
    """Of work that waits: at most one way by time and one by nodes; none of work that this user may not repeat."""

    def changed(given: Given) -> Submission:
        return again(allocation, given, context, only_failed=False)

    sizes = (float(allocation.walltime_s or 0), allocation.resources.nodes)
    return _found(sizes, predicted_start, changed, context)


def ways_out_before(submission: Submission, predicted_start: str | None, context: Context) -> list[str]:
    """The same of a submission that was only tried."""

    def changed(given: Given) -> Submission:
        lifecycle = replace(submission.lifecycle, walltime=given.get("walltime", submission.lifecycle.walltime))
        nodes = int(given.get("nodes", submission.resources.nodes))
        return replace(submission, lifecycle=lifecycle, resources=replace(submission.resources, nodes=nodes))

    sizes = (_walltime_s(submission.lifecycle.walltime), submission.resources.nodes)
    return _found(sizes, predicted_start, changed, context)


def _walltime_s(text: object) -> float:
    """A walltime as most people write it, such as 12h; 0 for other forms and for none, which get no shorter one."""
    found = _PLAIN.fullmatch(text) if isinstance(text, str) else None
    return 0.0 if found is None else int(found[1]) * _UNITS[found[2]]


def _found(
    sizes: tuple[float, int], otherwise: str | None, changed: Callable[[Given], Submission], context: Context
) -> list[str]:
    walltime_s, nodes = sizes
    found = []
    for tries in (_shorter(walltime_s), _fewer(nodes)):
        told = next(filter(None, (_told(given, otherwise, changed, context) for given in tries)), "")
        if told:
            found.append(told)
    return found


def _shorter(walltime_s: float) -> Iterator[Given]:
    """The longest first."""
    minutes = [int(walltime_s * part) // MINUTE_S for part in _PARTS]
    return ({"walltime": f"{each}m"} for each in dict.fromkeys(minutes) if each)


def _fewer(nodes: int) -> Iterator[Given]:
    counts = dict.fromkeys(int(nodes * part) for part in _PARTS)
    return ({"nodes": str(each)} for each in counts if 0 < each < nodes)


def _told(given: Given, otherwise: str | None, changed: Callable[[Given], Submission], context: Context) -> str:
    """The sentence about one change; empty when it does not help."""
    try:
        outlook = context.client.dry_run(changed(given))
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
