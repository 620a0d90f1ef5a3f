"""First come, first served: the first in the queue that does not fit blocks all others."""

from collections.abc import Sequence

from lattice.replay.traces.workload import Workload


class Fcfs:
    def __init__(self, work: Workload) -> None:
        self._procs = work.procs
        self._free = work.procs_total
        self._head = 0

    def step(self, now: int, ended: Sequence[int], arrived: range) -> list[int]:
        procs, free, head = self._procs, self._free, self._head
        for position in ended:
            free += procs[position]
        while head < arrived.stop and procs[head] <= free:
            free -= procs[head]
            head += 1
        started = list(range(self._head, head))
        self._free, self._head = free, head
        return started
