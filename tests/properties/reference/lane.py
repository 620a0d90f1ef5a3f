# mypy: ignore-errors
"""As it was before plans could be taken back; kept to compare with, never changed. The timeline of a machine that is one node shared by many: the same answers as `Timeline`, an order of magnitude faster.

One step is a stretch of time in which the free amounts do not change; steps follow each other without gaps, the last never ends.
"""

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.tables.slots import Ints, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, NO_VCLUSTER
from tests.properties.reference.timeline import Openings

_CPUS, _MEMORY, _GPUS, _OWNER = range(4)


class Lane:
    """`free`, `full` = CPUs, memory and GPUs of the node, now and when empty; `held` = ends and amounts of shares in use."""

    def __init__(self, now: int, row: int, owner: int, free: Ints, full: Ints, ends: Ints, held: Ints) -> None:
        order = np.argsort(ends)
        count = len(order) + 1
        times = np.empty(count, np.int64)
        times[0], times[1:] = now, ends[order]
        steps = np.empty((4, count), np.int64)
        steps[:_OWNER, 0], steps[:_OWNER, 1:] = free, held[:, order]
        np.cumsum(steps[:_OWNER], axis=1, out=steps[:_OWNER])
        steps[_OWNER] = owner
        steps[:_OWNER, -1], steps[_OWNER, -1] = (full, NO_VCLUSTER) if times[-1] < NEVER else (free, owner)
        last = np.empty(count, np.bool_)  # of those that begin at one moment
        np.not_equal(times[1:], times[:-1], out=last[:-1])
        last[-1] = times[-1] < NEVER
        self._row = row
        self._times = times[last] if not last.all() else times
        self._steps = steps[:, last] if not last.all() else steps

    def openings(self, demand: Demand) -> Openings:
        steps = self._steps
        if not demand.usable[self._row]:
            good = np.zeros(len(self._times), np.bool_)
        elif demand.is_whole:
            good = steps[_OWNER] == NO_VCLUSTER
        else:
            good = steps[_CPUS] >= demand.cpus
            memory_mb = int(demand.memory_mb[0])
            if memory_mb:
                good &= steps[_MEMORY] >= memory_mb
            if demand.gpus:
                good &= steps[_GPUS] >= demand.gpus
            good &= (steps[_OWNER] == demand.vcluster) | (steps[_OWNER] == NO_VCLUSTER)
        edges = np.flatnonzero(good[1:] != good[:-1]) + 1
        starts, stops = (edges[1::2], edges[::2]) if good[0] else (edges[::2], edges[1::2])
        start, end = self._times[starts], self._times[stops]
        if good[0]:
            start = np.concatenate([self._times[:1], start])
        if good[-1]:
            end = np.concatenate([end, [NEVER]])
        return Openings(node=np.full(len(start), self._row), start=start, end=end)

    def soonest(self, demand: Demand, length: int) -> None:
        """Only the openings tell here."""

    def is_open(self, demand: Demand, row: int, start: int, end: int) -> bool | None:
        """Only the openings can tell."""
        return None

    def ahead(self, row: int, now: int) -> Ints:
        """Columns (until, CPUs, GPUs): what stays free from now until then."""
        steps = self._steps
        until = np.concatenate([self._times[1:], [NEVER]])
        return np.stack([until, np.minimum.accumulate(steps[_CPUS]), np.minimum.accumulate(steps[_GPUS])])

    def occupy(self, demand: Demand, rows: Rows, start: int, end: int) -> None:
        """Takes what the demand needs of the node for that time. It must be free."""
        first = self._step_at(start)
        stop = self._step_at(end) if end < NEVER else len(self._times)
        taken = self._steps[:, first:stop]
        if demand.is_whole:
            taken[:_OWNER] = 0
        else:
            taken[_CPUS] -= demand.cpus
            taken[_MEMORY] -= int(demand.memory_mb[0])
            taken[_GPUS] -= demand.gpus
        taken[_OWNER] = demand.vcluster

    def _step_at(self, at: int) -> int:
        """The place of the step that begins at that moment, made where there is none."""
        place = int(np.searchsorted(self._times, at))
        if place < len(self._times) and self._times[place] == at:
            return place
        self._times = np.concatenate([self._times[:place], [at], self._times[place:]])
        steps = self._steps
        self._steps = np.concatenate([steps[:, :place], steps[:, place - 1 : place], steps[:, place:]], axis=1)
        return place
