"""f4: how well the row fits the topology: in few groups, and inside a node on GPUs that are close to each other.

One node needs no group at all. GPUs of which no links are known count as close. See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.model.nodes.fitness import GpuFitness
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.score.factors.known import spread_over_rows
from lattice.core.scheduler.score.factors.moment import Moment, Spread
from lattice.core.scheduler.tables.slots import Floats, Ints

INTER_NODE = 0.7  # what the span over groups counts for work on several nodes
INTRA_NODE_FITNESS = 1.0
CONGESTED = 0.5  # what a network that is congested all the time takes from the span over groups
IDLE = 0.5  # what is left of the whole for work that leaves its GPUs idle: a good place serves others better
BUSY_FROM = 0.5  # GPUs that are used this much count as busy
# What the links between GPUs count for inside a node; the rest is the memory near to them.
LINKS_UNKNOWN, LINKS_OF_GPU_WORK, LINKS_OF_CPU_WORK = 0.5, 0.7, 0.3
MAX_CPUS_PER_GPU = 16  # of work that counts as GPU work


def topology(moment: Moment) -> Floats:
    fitness = intra_node_fitness(moment)
    if (moment.snapshot.queue.nodes > 1).any():
        spread = moment.spread
        inside = fitness[spread.rows]
        between = inter_node_fitness(spread)
        if moment.snapshot.signals.congestion:
            between[between < 1.0] *= 1.0 - CONGESTED * moment.snapshot.signals.congestion
        fitness[spread.rows] = INTER_NODE * between + (1.0 - INTER_NODE) * inside
    if moment.snapshot.signals.gpu_use:
        fitness *= worth_of_use(moment)
    return fitness


def worth_of_use(moment: Moment) -> Floats:
    """1 for work that keeps its GPUs busy, or of which that is not known."""
    use = spread_over_rows(moment, moment.snapshot.signals.gpu_use, 1.0)
    worth: Floats = IDLE + (1.0 - IDLE) * (use / BUSY_FROM).clip(0.0, 1.0)
    return worth


def intra_node_fitness(moment: Moment) -> Floats:
    """How well the GPUs that a row asks of one node fit together there, on the best kind of node that suits it."""
    snapshot = moment.snapshot
    known, queue = snapshot.signals.gpu_fitness, snapshot.queue
    fitness: Floats = np.full(len(queue.number), INTRA_NODE_FITNESS)
    rows = np.flatnonzero(queue.gpus > 0)
    if not known or not len(rows):
        return fitness
    _, first, alike = np.unique(queue.signature[rows], return_index=True, return_inverse=True)
    table = snapshot.nodes.kind_table
    best = []
    for row in rows[first].tolist():
        request = snapshot.shape_of(row).request
        suitable = (kind for kind, suits in zip(table.kinds, table.suits(request), strict=True) if suits)
        beta = links_weight(request)
        found = (known.get((kind.gpu_type, request.gpus), GpuFitness()) for kind in suitable)
        best.append(max((beta * each.links + (1.0 - beta) * each.memory for each in found), default=1.0))
    fitness[rows] = np.array(best)[alike]
    return fitness


def links_weight(request: Request) -> float:
    """Many CPUs beside each GPU live on memory that is near, as does work that prefers it; a request that names no CPUs says nothing
    of either."""
    if request.prefer_same_numa or request.prefer_local_memory:
        return LINKS_OF_CPU_WORK
    if not request.cpus:
        return LINKS_UNKNOWN
    return LINKS_OF_GPU_WORK if request.cpus <= MAX_CPUS_PER_GPU * request.gpus else LINKS_OF_CPU_WORK


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
