"""Which rows could start at all, judged for the whole queue in one step.

A bound may let a row through that cannot start; it never stops one that can. Room only shrinks while a plan is made, so a bound
stays true once it was, until the room is rolled back: then the bounds go back with it. See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.room.journal import Undo
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.tables.slots import Bools, Ints, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, QueueColumns

_FEW = 8


class Bounds:
    """Bounds for one plan. `sharing` = by vCluster, whether its work takes shares."""

    def __init__(self, room: Room, queue: QueueColumns, sharing: Bools) -> None:
        self._room = room
        self._queue = queue
        self._sharing = sharing
        walltime_ms = queue.walltime_s * 1000
        # When each row would end if it started now; fixed for the plan.
        self._end: Ints = np.where(walltime_ms > 0, walltime_ms + room.now, NEVER)
        # By signature and vCluster: the bars, rising, of the nodes that rows of that sort could have now. Emptied by `possible`.
        self._short: dict[tuple[int, int], Ints] = {}

    def mark(self) -> Undo:
        """What puts everything back as it is now."""
        short = dict(self._short)

        def undo() -> None:
            self._short = dict(short)

        return undo

    def note_shortage(self, row: int, demand: Demand) -> None:
        """The row wants whole nodes and there are too few: rows that want as many of the same sort need not be tried."""
        request = demand.request
        if demand.is_whole and not request.node_list and not request.exclude:
            key = (int(self._queue.signature[row]), int(self._queue.vcluster[row]))
            self._short[key] = np.sort(self._room.bar[self._room.unheld(demand)])

    def possible(self, rows: Rows) -> Bools:
        """For each of the rows, whether it might start."""
        queue, end = self._queue, self._end[rows]
        shares = self._sharing[queue.vcluster[rows]]
        if not shares.any():
            possible: Bools = queue.nodes[rows] <= self._free_nodes(end)
        else:
            cpus, gpus = self._free_amounts(end)
            possible = (np.maximum(1, queue.cpus[rows]) <= cpus) & (queue.gpus[rows] <= gpus)
            if not shares.all():
                possible = np.where(shares, possible, queue.nodes[rows] <= self._free_nodes(end))
        for (signature, vcluster), bars in self._short.items():
            alike = np.flatnonzero((queue.signature[rows] == signature) & (queue.vcluster[rows] == vcluster) & possible)
            if len(alike):
                plain = alike[~shares[alike]]
                left = len(bars) - np.searchsorted(bars, end[plain], side="left")
                possible[plain] = queue.nodes[rows[plain]] <= left
        self._short.clear()
        return possible

    def _free_nodes(self, end: Ints) -> Ints | int:
        """How many nodes could be given whole to work that ends then."""
        if not self._room.has_bars:
            return int(np.count_nonzero(self._room.free))
        bars = np.sort(self._room.bar[self._room.free])
        return len(bars) - np.searchsorted(bars, end, side="left")

    def _free_amounts(self, end: Ints) -> tuple[Ints, Ints]:
        """The most CPUs and GPUs that any one node could give to work that ends then."""
        until, cpus, gpus = self._amounts_ahead()
        if (until[1:] < until[:-1]).any():
            order = np.argsort(until, kind="stable")
            until, cpus, gpus = until[order], cpus[order], gpus[order]
        best_cpus = np.maximum.accumulate(cpus[::-1])[::-1]
        best_gpus = np.maximum.accumulate(gpus[::-1])[::-1]
        place = np.searchsorted(until, end, side="left")
        return best_cpus[place], best_gpus[place]

    def _amounts_ahead(self) -> tuple[Ints, Ints, Ints]:
        """(until, CPUs, GPUs): what one node can give to work that ends by then. The last entry holds forever."""
        room = self._room
        clear: Bools = room.usable & (room.bar >= NEVER) if room.has_bars else room.usable
        most = (int(room.cpus[clear].max(initial=0)), int(room.gpus[clear].max(initial=0)))
        entries = []
        if room.has_bars:
            barred = np.flatnonzero(room.usable & ~clear & (room.cpus > 0))
            if len(barred) <= _FEW:
                entries += [room.timeline.ahead(row, room.now) for row in barred.tolist()]
            else:
                now = (int(room.cpus[barred].max()), int(room.gpus[barred].max()))
                entries.append(np.array([[NEVER], [now[0]], [now[1]]], np.int64))
        entries.append(np.array([[NEVER], [most[0]], [most[1]]], np.int64))
        until, cpus, gpus = np.concatenate(entries, axis=1)
        return until, cpus, gpus
