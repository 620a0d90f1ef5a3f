"""Which groups an allocation takes its nodes from: as few as possible, side by side if it can be, so that whole groups stay free.

See docs/architecture/scheduler.md.
"""

from collections.abc import Callable

import numpy as np

from lattice.core.scheduler.tables.slots import Ints, Rows

Prefer = Callable[[Rows, int], int]  # which of these groups gives that number of nodes, where they are equal otherwise


def fewest_groups(totals: Ints, want: int) -> int:
    """How many groups are needed at least, for `totals` of candidates by group that hold at least `want` in all."""
    return int(np.searchsorted(np.cumsum(-np.sort(-totals)), want)) + 1


def choose_groups(counts: Ints, want: int, prefer: Prefer | None = None) -> list[tuple[int, int]]:
    """(group, how many nodes of it), for `counts` of candidates by group and kind that hold at least `want` in all.

    The number of groups is the smallest possible. Among neighbours those with least to spare are taken; where no neighbours
    will do, the largest groups are used up whole and the remainder comes from the group that it fits best.
    """
    totals: Ints = counts.sum(axis=1)
    enough: Rows = np.flatnonzero(totals >= want)
    if len(enough):
        return [(_tightest(counts, totals, enough, want, prefer), want)]
    side_by_side = _neighbours(totals, fewest_groups(totals, want), want)
    if side_by_side is not None:
        return _use_up(totals, side_by_side, want)
    largest = np.argsort(-totals, kind="stable")
    reach = np.cumsum(totals[largest])
    full = int(np.searchsorted(reach, want))  # this many of the largest groups are not enough, one more is
    chosen = [(int(group), int(totals[group])) for group in largest[:full]]
    rest = want - int(reach[full - 1])
    others: Rows = np.sort(largest[full:])
    others = others[totals[others] >= rest]
    chosen.append((_tightest(counts, totals, others, rest, prefer), rest))
    return chosen


def _neighbours(totals: Ints, span: int, want: int) -> Rows | None:
    """Groups next to each other, `span` of them, that hold enough with least to spare; None when there are none."""
    sums = np.convolve(totals, np.ones(span, np.int64), mode="valid")
    enough = np.flatnonzero(sums >= want)
    if not len(enough):
        return None
    first = int(enough[np.argmin(sums[enough])])
    return np.arange(first, first + span)


def _use_up(totals: Ints, groups: Rows, want: int) -> list[tuple[int, int]]:
    """The fullest first, so that what is left over lies in one group."""
    chosen = []
    for group in groups[np.argsort(-totals[groups], kind="stable")].tolist():
        take = min(want, int(totals[group]))
        chosen.append((group, take))
        want -= take
    return chosen


def _tightest(counts: Ints, totals: Ints, groups: Rows, want: int, prefer: Prefer | None) -> int:
    """The group that can give `want` nodes of the leanest kinds; among equals the one with least to spare, then as preferred, then the first."""
    kinds = counts.shape[1]
    if kinds > 1:
        table = counts[groups]
        before = np.cumsum(table, axis=1) - table
        taken = np.minimum(np.maximum(want - before, 0), table)
        waste = taken @ np.arange(kinds)
        groups = groups[waste == waste.min()]
    spare = totals[groups]
    if prefer is None:
        return int(groups[np.argmin(spare)])
    groups = groups[spare == spare.min()]
    return int(groups[0]) if len(groups) == 1 else prefer(groups, want)
