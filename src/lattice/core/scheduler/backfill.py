"""Looks ahead: when enough nodes will be free for an allocation by the walltimes of what runs, and which ones to keep for it.

Work without a walltime never ends as far as this goes. Whatever starts on other nodes, or has ended before, delays nothing.
"""

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.room import Room
from lattice.core.scheduler.snapshot import NEVER
from lattice.core.scheduler.tables import Bools, Ints, Rows


def earliest_start(room: Room, demand: Demand) -> tuple[int, Rows] | None:
    """The first moment at which the demand can be met, and the nodes to keep for it; None when no end is known.

    Among nodes that are free in time those that are busy longest are kept, so that most of the others can be used meanwhile.
    """
    rows: Rows = np.flatnonzero(demand.usable)
    least = demand.least
    if len(rows) < least:
        return None
    free_at = np.maximum(_free_at(room, demand), room.bar_end)[rows]
    start = int(np.partition(free_at, least - 1)[least - 1])
    if start >= NEVER:
        return None
    in_time = free_at <= start
    rows, free_at = rows[in_time], free_at[in_time]
    kept = rows[np.argsort(-free_at, kind="stable")[:least]]
    return start, np.sort(kept)


def _free_at(room: Room, demand: Demand) -> Ints:
    """For each node, when what the demand takes of it becomes free."""
    held = room.holdings()
    empty_at: Ints = np.where(room.free, room.now, 0)
    np.maximum.at(empty_at, held.node, held.end)
    empty_at[empty_at == 0] = NEVER
    if demand.is_whole:
        return empty_at
    return np.where(room.shareable(demand), _share_free_at(room, demand), empty_at)


def _share_free_at(room: Room, demand: Demand) -> Ints:
    """When a share fits: what is free now plus what has been given back by each end."""
    held = room.holdings()
    order = np.lexsort((held.end, held.node))
    node, end = held.node[order], held.end[order]
    first = np.concatenate([[True], node[1:] != node[:-1]])[: len(node)]
    kind = room.snapshot.nodes.kind[node]
    fits = room.cpus[node] + _running_sum(held.cpus[order], first) >= demand.cpus
    fits &= room.memory_mb[node] + _running_sum(held.memory_mb[order], first) >= demand.memory_mb[kind]
    fits &= room.gpus[node] + _running_sum(held.gpus[order], first) >= demand.gpus
    free_at: Ints = np.full(len(room.free), NEVER, np.int64)
    np.minimum.at(free_at, node, np.where(fits, end, NEVER))
    free_at[room.share_fits(demand)] = room.now
    return free_at


def _running_sum(values: Ints, first: Bools) -> Ints:
    """Sums from the start of each node's entries on."""
    total = np.cumsum(values)
    before = np.where(first, total - values, 0)
    return total - np.maximum.accumulate(before)
