"""f4: how well the row fits the topology: in few groups, and inside a node on GPUs that are close to each other.

One node needs no group at all. GPUs of which no links are known count as close.
"""

import numpy as np

from lattice.core.scheduler.factors.moment import Moment, Spread
from lattice.core.scheduler.tables import Floats, Ints

INTER_NODE = 0.7  # what the span over groups counts for work on several nodes
INTRA_NODE_FITNESS = 1.0


def topology(moment: Moment) -> Floats:
    fitness: Floats = np.full(len(moment.snapshot.queue.number), INTRA_NODE_FITNESS)
    if (moment.snapshot.queue.nodes > 1).any():
        spread = moment.spread
        fitness[spread.rows] = INTER_NODE * inter_node_fitness(spread) + (1.0 - INTER_NODE) * INTRA_NODE_FITNESS
    return fitness


def inter_node_fitness(spread: Spread) -> Floats:
    """1 when one group suffices, else the less the more of the groups it takes.

    Counted on free nodes where there are enough of them, else on all that are in service.
    """
    free, there = (_largest_first(counts) for counts in spread.by_group())
    available = np.maximum(1, np.count_nonzero(np.diff(there, axis=1, prepend=0), axis=1))[spread.alike]
    needed = np.where(free[spread.alike, -1] >= spread.wanted, _needed(spread, free), _needed(spread, there))
    fitness: Floats = np.where(needed <= 1, 1.0, 1.0 - np.minimum(needed, available) / available)
    return fitness


def _largest_first(counts: Ints) -> Ints:
    """Nodes in the largest group, in the two largest, and so on."""
    return np.cumsum(np.sort(counts, axis=1)[:, ::-1], axis=1)


def _needed(spread: Spread, largest_first: Ints) -> Ints:
    """How many groups hold as many nodes as each row wants."""
    short: Ints = np.count_nonzero(largest_first[spread.alike] < spread.wanted[:, None], axis=1)
    return short + 1
