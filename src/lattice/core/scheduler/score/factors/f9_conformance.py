"""f9: how many of the nodes a row wants can be of one configuration. One node always is. See docs/architecture/scheduler.md."""

import numpy as np

from lattice.core.scheduler.score.factors.moment import Moment
from lattice.core.scheduler.tables.slots import Floats, Ints


def conformance(moment: Moment) -> Floats:
    """Counted on free nodes where there are enough of them, else on all that are in service.

    Where no node of the vCluster has told its configuration nothing is known, and nothing is ordered by it.
    """
    fitness: Floats = np.ones(len(moment.snapshot.queue.number))
    if not moment.snapshot.signals.fingerprints:
        return fitness
    spread = moment.spread
    if len(spread.rows):
        free, there = spread.by_conformance()
        enough = free.sum(axis=1)[spread.alike] >= spread.wanted
        largest = np.where(enough, _largest(free)[spread.alike], _largest(there)[spread.alike])
        known = spread.knows_conformance()[moment.snapshot.queue.vcluster[spread.rows]]
        fitness[spread.rows] = np.where(known, np.minimum(1.0, largest / spread.wanted), 1.0)
    return fitness


def _largest(counts: Ints) -> Ints:
    """The largest group. Nodes of unknown configuration, the last column, match no other."""
    known: Ints = counts[:, :-1].max(axis=1, initial=0)
    return np.maximum(known, np.minimum(counts[:, -1], 1))
