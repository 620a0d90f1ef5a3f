"""Which groups an allocation takes its nodes from: as few as possible, then the leanest kinds, then the tightest fit."""

import numpy as np

from lattice.core.scheduler.tables import Ints, Rows


def choose_groups(counts: Ints, want: int) -> list[tuple[int, int]]:
    """(group, how many nodes of it), for `counts` of candidates by group and kind that hold at least `want` in all.

    The number of groups is the smallest possible: the largest ones are used up whole, and the remainder comes from the group
    that it fits best.
    """
    totals: Ints = counts.sum(axis=1)
    enough: Rows = np.flatnonzero(totals >= want)
    if len(enough):
        return [(_tightest(counts, totals, enough, want), want)]
    largest = np.argsort(-totals, kind="stable")
    reach = np.cumsum(totals[largest])
    full = int(np.searchsorted(reach, want))  # so many of the largest groups are not enough, one more is
    chosen = [(int(group), int(totals[group])) for group in largest[:full]]
    rest = want - int(reach[full - 1])
    others: Rows = np.sort(largest[full:])
    others = others[totals[others] >= rest]
    chosen.append((_tightest(counts, totals, others, rest), rest))
    return chosen


def _tightest(counts: Ints, totals: Ints, groups: Rows, want: int) -> int:
    """The group that can give `want` nodes of the leanest kinds; among equals the one with least to spare, then the first."""
    kinds = counts.shape[1]
    if kinds > 1:
        table = counts[groups]
        before = np.cumsum(table, axis=1) - table
        taken = np.minimum(np.maximum(want - before, 0), table)
        waste = taken @ np.arange(kinds)
        groups = groups[waste == waste.min()]
    spare = totals[groups]
    return int(groups[np.argmin(spare)])
