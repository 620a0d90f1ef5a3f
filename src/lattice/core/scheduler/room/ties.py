"""Which of several nodes that fit equally well is preferred: by the GPUs that it has free, then by the images in its cache.

Nothing here decides whether or when work starts, or how many nodes of which group it gets: it only takes the place of the order by id.
Work that asks for no GPUs and brings no images costs nothing. See docs/architecture/scheduler.md, "Ties".
"""

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.tables.slots import Bools, Ints, Rows
from lattice.core.scheduler.tables.snapshot import Snapshot

NOBODY = -1  # in place of a row of the queue: nodes that are alike are taken by id
_UNKNOWN = 2**31  # behind everything that is known


class Ties:
    """What one plan knows of nodes; all of it follows from the snapshot and is remembered."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = snapshot.nodes
        self._queue = snapshot.queue
        self._images = snapshot.signals.images
        self._gpu_sets = snapshot.signals.gpu_sets
        self._has_sets = bool(self._gpu_sets.by_node)
        self._missing: dict[tuple[int, ...], Ints | None] = {}  # by images: how many of them each node lacks
        self._kind: Ints | None = None  # of the free GPUs of each node; those that said nothing have one of their own
        self._ranks: dict[int, tuple[Ints, Ints]] = {}  # by number of GPUs asked for

    def concern(self, demand: Demand, row: int) -> bool:
        """Whether nodes may differ for the work in this row of the queue, as far as is known."""
        if self._images and int(self._queue.number[row]) in self._images:
            return True
        return self._has_sets and demand.gpus > 0

    def columns(self, demand: Demand, row: int, rows: Rows, gpus: Ints) -> tuple[Ints, ...]:
        """One column for each reason to prefer some of the node rows, the weakest first; the smaller number is better.

        `row` is that of the queue, `gpus` how many are free on each node. No columns: all are alike.
        """
        found = []
        missing = self.missing(row)
        if missing is not None:
            found.append(missing[rows])
        if self._has_sets and demand.gpus:
            found.append(self._rank(demand.gpus, rows, gpus[rows]))
        return tuple(found)

    def missing(self, row: int) -> Ints | None:
        """How many images of the work in this row of the queue each node lacks; None where it has none, or no node has any of them."""
        keys = self._images.get(int(self._queue.number[row]), ()) if self._images else ()
        if keys not in self._missing:
            having = [self._nodes.warm[key] for key in keys if key in self._nodes.warm]
            self._missing[keys] = _lacking(len(keys), having) if having else None
        return self._missing[keys]

    def _rank(self, count: int, rows: Rows, free_gpus: Ints) -> Ints:
        """How good the best set of `count` GPUs is on each node, 0 = the best of all.

        What a node said when it had another number of free GPUs does not count: it says it again when it notices.
        """
        if self._kind is None:
            known, unknown = self._gpu_sets.by_node, len(self._gpu_sets.kinds)
            self._kind = np.array([known.get(node, unknown) for node in self._nodes.ids], np.int64)
        if count not in self._ranks:
            self._ranks[count] = self._ranked(count)
        rank, sizes = self._ranks[count]
        own = self._kind[rows]
        ranks: Ints = np.where(sizes[own] == free_gpus, rank[own], _UNKNOWN)
        return ranks

    def _ranked(self, count: int) -> tuple[Ints, Ints]:
        """For each kind: the rank of its best set of `count` GPUs, and how many GPUs were free."""
        kinds = (*self._gpu_sets.kinds, ())
        orders = [sets[count - 1].order if len(sets) >= count else None for sets in kinds]
        known = {order: rank for rank, order in enumerate(sorted({order for order in orders if order is not None}))}
        ranks = [_UNKNOWN if order is None else known[order] for order in orders]
        return np.array(ranks, np.int64), np.array([len(sets) for sets in kinds], np.int64)


def _lacking(wanted: int, having: list[Bools]) -> Ints:
    missing: Ints = np.full(len(having[0]), wanted, np.int64)
    for mask in having:
        missing -= mask
    return missing
