"""Sets of positions as sorted, disjoint, half-open intervals: what a task group keeps instead of one object per task.

Every function takes and gives such intervals, none of them empty and no two touching, so that equal sets are equal tuples.
See docs/architecture/core.md.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

Intervals = tuple[tuple[int, int], ...]


def count(intervals: Intervals) -> int:
    """How many positions."""
    return sum(stop - start for start, stop in intervals)


def contains(intervals: Intervals, position: int) -> bool:
    place = bisect_right(intervals, position, key=itemgetter(0)) - 1
    return place >= 0 and position < intervals[place][1]


def positions(intervals: Intervals) -> Iterator[int]:
    """Each position, lowest first."""
    for start, stop in intervals:
        yield from range(start, stop)


def from_positions(wanted: Iterable[int]) -> Intervals:
    """The intervals of single positions, in whatever order they come."""
    return union(tuple((position, position + 1) for position in sorted(set(wanted))), ())


def union(left: Intervals, right: Intervals) -> Intervals:
    return joined((*left, *right))


def joined(pieces: Iterable[tuple[int, int]]) -> Intervals:
    """The intervals of pieces that may overlap, in whatever order they come."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(pieces):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return tuple(joined)


def intersection(left: Intervals, right: Intervals) -> Intervals:
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, stop = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < stop:
            common.append((start, stop))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def difference(left: Intervals, right: Intervals) -> Intervals:
    """What is in `left` and not in `right`."""
    if not left or not right:
        return left
    kept: list[tuple[int, int]] = []
    j = 0
    for start, stop in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        place = j
        while place < len(right) and right[place][0] < stop:
            if start < right[place][0]:
                kept.append((start, right[place][0]))
            start = right[place][1]
            place += 1
        if start < stop:
            kept.append((start, stop))
    return tuple(kept)
