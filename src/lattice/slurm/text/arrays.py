"""Array specifications, `1,3,5-9:2%4`, and the notation of pending tasks, `N_[2-3%1]`."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from lattice.slurm.text.numbers import whole

MAX_INDEX = 4_000_001
MAX_TASKS = 100_000
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?$", re.ASCII)


class Array(NamedTuple):
    """Ranges (first, last, step) in the order given, and how many may run concurrently (0 = all)."""

    ranges: tuple[tuple[int, int, int], ...]
    limit: int = 0

    @property
    def indices(self) -> list[int]:
        return sorted({index for first, last, step in self.ranges for index in range(first, last + 1, step)})

    @property
    def text(self) -> str:
        """The same in the notation of task groups, each index once."""
        limit = f"%{self.limit}" if self.limit else ""
        return fold_indices(self.indices) + limit


def parse_array(text: str) -> Array | None:
    """None for an invalid array."""
    body, percent, most = text.strip().partition("%")
    limit = whole(most) if percent else 0
    if limit is None:
        return None
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    ranges = []
    for item in body.split(","):
        found = _RANGE.match(item.strip())
        if found is None:
            return None
        first = int(found[1])
        last, step = int(found[2] or first), int(found[3] or 1)
        if last < first or not step or last >= MAX_INDEX:
            return None
        ranges.append((first, last, step))
    # Counted before they are listed.
    size = sum((last - first) // step + 1 for first, last, step in ranges)
    if size > MAX_TASKS or len(most) > 9:
        return None
    return Array(tuple(ranges), limit)


def fold_indices(indices: Iterable[int]) -> str:
    """`1,3-5,7` of sorted indices."""
    spans: list[list[int]] = []
    for index in indices:
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
