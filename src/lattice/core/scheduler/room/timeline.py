"""What is free of each node from when to when, as a plan foresees it: by the ends of what runs and the starts of what is kept.

One segment is a stretch of time in which a node's free amounts do not change; times at which nothing of a node is free have no
segment. A segment without an owner is the empty node, and two such never touch. An opening for a demand is a longest stretch in
which one node could hold it: one empty segment for whole nodes, neighbouring segments with enough left for shares. Because the
nodes are concrete, whatever is entered here can be carried out, whatever the constraints were.
See docs/architecture/scheduler.md.
"""

from typing import NamedTuple

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.room.journal import Undo
from lattice.core.scheduler.tables.slots import Bools, Ints, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, NO_VCLUSTER

NODE, START, END, CPUS, MEMORY, GPUS, OWNER = range(7)
_FIELDS = 7


class Openings(NamedTuple):
    """Where a demand could be held, one per entry: on `node`, from `start` to `end`."""

    node: Rows
    start: Ints
    end: Ints

    def keep(self, which: Bools | Rows) -> "Openings":
        return Openings(node=self.node[which], start=self.start[which], end=self.end[which])

    def latest(self, length: int) -> Ints:
        """When work of that length must start at the latest; before the opening's start when it does not fit at all."""
        latest: Ints = np.where(self.end >= NEVER, NEVER, self.end - length)
        return latest


class Timeline:
    """All segments. `has_shares` = some have an owner; then they are kept in the order of node and start."""

    def __init__(self, segments: Ints, kind: Rows, *, has_shares: bool) -> None:
        # One column per segment, one line per field. Only the first `_size` columns count; those behind are room to grow.
        # Segments of one node never overlap; one that is used up stays as a hole with START behind END until the next sort.
        self._table = segments
        self._size = segments.shape[1]
        self._kind = kind  # of each node row, from the snapshot; never changed
        self._has_shares = has_shares  # turns on with the first share and never off, except by undo
        self._is_shared = False  # an undo refers to `_table`: copy it before writing into it
        if has_shares:
            self._sort()

    def mark(self) -> Undo:
        """What puts everything back as it is now. Costs nothing until the next change in place, which copies the table."""
        table, size, has_shares = self._table, self._size, self._has_shares
        self._is_shared = True

        def undo() -> None:
            self._table, self._size, self._has_shares, self._is_shared = table, size, has_shares, True

        return undo

    def openings(self, demand: Demand) -> Openings:
        table = self._table[:, : self._size]
        node = table[NODE]
        good: Bools = demand.usable[node]
        if demand.is_whole:
            if self._has_shares:
                good &= table[OWNER] == NO_VCLUSTER
            good &= table[END] > table[START]
            return _pick(table, good.nonzero()[0])
        good &= table[CPUS] >= demand.cpus
        good &= table[MEMORY] >= demand.memory_mb[self._kind[node]]
        if demand.gpus:
            good &= table[GPUS] >= demand.gpus
        good &= (table[OWNER] == NO_VCLUSTER) | (table[OWNER] == demand.vcluster)
        if not self._has_shares:
            good &= table[END] > table[START]
            return _pick(table, good.nonzero()[0])
        return _joined(_pick(table, good.nonzero()[0]))

    def soonest(self, demand: Demand, length: int) -> tuple[int, Rows] | None:
        """When the first node is open for that long, NEVER if none will be, and all that are from then on; None when only the openings
        of all nodes can tell.

        What the openings tell, for the most frequent demand, a single whole node: in a long queue of small work a plan asks this for each.
        """
        if self._has_shares or not demand.is_whole or demand.least != 1:
            return None
        node, start, end = self._table[NODE : END + 1, : self._size]
        good: Bools = end - start >= length
        good |= end >= NEVER
        good &= demand.usable[node]
        times: Ints = np.where(good, start, NEVER)
        at = int(np.minimum.reduce(times, initial=NEVER))
        return at, node[times == at]

    def is_open(self, demand: Demand, row: int, start: int, end: int) -> bool | None:
        """Whether the node is open for that time; None when only the openings of all nodes can tell."""
        if self._has_shares or not demand.is_whole:
            return None
        table = self._table[:, : self._size]
        held = (table[NODE] == row) & (table[START] <= start) & (table[END] >= end)
        return bool(demand.usable[row]) and bool(held.any())

    def ahead(self, row: int, now: int) -> Ints:
        """Columns (until, CPUs, GPUs) for one node: what stays free from now until then."""
        table = self._table[:, : self._size]
        mine = table[:, (table[NODE] == row) & (table[END] > now)]
        mine = mine[:, np.argsort(mine[START], kind="stable")]
        if not mine.shape[1] or mine[START, 0] > now:
            return np.zeros((3, 0), np.int64)
        gaps = np.flatnonzero(mine[START, 1:] != mine[END, :-1])
        mine = mine[:, : gaps[0] + 1] if len(gaps) else mine
        return np.stack([mine[END], np.minimum.accumulate(mine[CPUS]), np.minimum.accumulate(mine[GPUS])])

    def occupy(self, demand: Demand, rows: Rows, start: int, end: int) -> None:
        """Takes what the demand needs of each of the rows for that time. It must be free."""
        hit = self._hits(rows, start, end)
        if demand.is_whole and not self._has_shares:
            self._cut(hit, start, end)
        else:
            self._split(demand, rows, hit, start, end)

    def _hits(self, rows: Rows, start: int, end: int) -> Rows:
        """Segments of the rows that the time touches."""
        table = self._table[:, : self._size]
        if len(rows) == 1:
            chosen = table[NODE] == rows[0]
        else:
            is_row = np.zeros(len(self._kind), np.bool_)
            is_row[rows] = True
            chosen = is_row[table[NODE]]
        chosen &= table[START] < end
        chosen &= table[END] > start
        hit: Rows = chosen.nonzero()[0]
        return hit

    def _cut(self, hit: Rows, start: int, end: int) -> None:
        """Takes the time out of empty segments, in place where it can be."""
        if self._is_shared:
            self._table, self._is_shared = self._table.copy(), False
        table = self._table
        if len(hit) == 1:
            self._cut_one(int(hit[0]), start, end)
            return
        ends = table[END, hit]
        has_left, has_right = table[START, hit] < start, ends > end
        table[END, hit[has_left]] = start
        table[START, hit[~has_left & has_right]] = end
        gone = hit[~has_left & ~has_right]
        table[START, gone], table[END, gone] = NEVER, -1
        both = has_left & has_right
        if both.any():
            more = table[:, hit[both]]
            more[START], more[END] = end, ends[both]
            self._append(more)

    def _cut_one(self, at: int, start: int, end: int) -> None:
        """The same for a single segment, for which whole-array operations cost too much."""
        table = self._table
        begins, ends = int(table[START, at]), int(table[END, at])
        if begins < start:
            table[END, at] = start
            if ends > end:
                more = table[:, at : at + 1].copy()
                more[START], more[END] = end, ends
                self._append(more)
        elif ends > end:
            table[START, at] = end
        else:
            table[START, at], table[END, at] = NEVER, -1

    def _split(self, demand: Demand, rows: Rows, hit: Rows, start: int, end: int) -> None:
        """Takes amounts out of the segments that the time touches."""
        if not self._has_shares:
            self._has_shares = True
            self._sort()
            hit = self._hits(rows, start, end)
        table = self._table[:, : self._size]
        touched = table[:, hit]
        has_left, has_right = touched[START] < start, touched[END] > end
        has_middle = touched[CPUS] > demand.cpus if not demand.is_whole else np.zeros(len(hit), np.bool_)
        counts = np.ones(self._size, np.intp)
        counts[hit] = has_left.astype(np.intp) + has_middle + has_right
        first = (np.cumsum(counts) - counts)[hit]  # where the pieces of each touched segment begin
        table = table.take(np.repeat(np.arange(self._size), counts), axis=1)
        left, middle, right = (
            first[has_left],
            (first + has_left)[has_middle],
            (first + has_left + has_middle)[has_right],
        )
        table[END, left] = start
        table[START, middle] = np.maximum(touched[START, has_middle], start)
        table[END, middle] = np.minimum(touched[END, has_middle], end)
        table[CPUS, middle] -= demand.cpus
        table[GPUS, middle] -= demand.gpus
        if not demand.is_whole:
            table[MEMORY, middle] -= demand.memory_mb[self._kind[table[NODE, middle]]]
        table[OWNER, middle] = demand.vcluster
        table[START, right] = end
        self._table, self._is_shared = table, False
        self._size = table.shape[1]

    def _append(self, more: Ints) -> None:
        size = self._size + more.shape[1]
        if size > self._table.shape[1]:
            grown = np.empty((_FIELDS, size * 2), np.int64)
            grown[:, : self._size] = self._table[:, : self._size]
            self._table = grown
        self._table[:, self._size : size] = more
        self._size = size

    def _sort(self) -> None:
        table = self._table[:, : self._size]
        table = table[:, table[END] > table[START]]
        self._table, self._is_shared = table[:, np.lexsort((table[START], table[NODE]))], False
        self._size = self._table.shape[1]


def empty_nodes(rows: Rows, free_at: Ints, full: Ints) -> Ints:
    """Segments of nodes that are empty from a moment on; `full` has a row of amounts per node."""
    segments = np.empty((_FIELDS, len(rows)), np.int64)
    segments[NODE], segments[START], segments[END], segments[OWNER] = rows, free_at, NEVER, NO_VCLUSTER
    segments[CPUS : GPUS + 1] = full.T
    return segments


def shared_nodes(now: int, rows: Rows, free: Ints, full: Ints, owner: Ints, held: Ints) -> Ints:
    """Segments of nodes with shares on them.

    `free`, `full` = amounts per row, now and when empty; `held` = columns of row, end and amounts of each share in use.
    """
    place = np.empty(int(rows.max()) + 1, np.intp)
    place[rows] = np.arange(len(rows))
    node = np.concatenate([np.arange(len(rows)), place[held[0]]])
    time = np.concatenate([np.full(len(rows), now), held[1]])
    order = np.lexsort((time, node))
    node, time = node[order], time[order]
    given = np.concatenate([free.T, held[2:5]], axis=1)[:, order]
    first = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    total = np.cumsum(given, axis=1)
    base = total[:, first] - given[:, first]
    last = np.zeros(len(node), np.bool_)
    last[np.concatenate([first[1:] - 1, [len(node) - 1]])] = True
    segments = np.empty((_FIELDS, len(node)), np.int64)
    segments[NODE], segments[START] = rows[node], time
    segments[END] = np.where(last, NEVER, np.concatenate([time[1:], [NEVER]]))
    segments[CPUS : GPUS + 1] = np.where(last, full.T[:, node], total - base[:, node])
    segments[OWNER] = np.where(last, NO_VCLUSTER, owner[node])
    return segments[:, (segments[END] > segments[START]) & (segments[CPUS] > 0)]


def _pick(table: Ints, which: Rows) -> Openings:
    node, start, end = table[NODE : END + 1].take(which, axis=1)
    return Openings(node=node, start=start, end=end)


def _joined(pieces: Openings) -> Openings:
    """Neighbours in time on one node made one."""
    if not len(pieces.node):
        return pieces
    breaks = (pieces.node[1:] != pieces.node[:-1]) | (pieces.start[1:] != pieces.end[:-1])
    first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    last = np.concatenate([first[1:] - 1, [len(pieces.node) - 1]])
    return Openings(node=pieces.node[first], start=pieces.start[first], end=pieces.end[last])
