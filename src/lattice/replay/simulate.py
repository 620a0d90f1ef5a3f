"""The simulated clock: ends and arrivals in their order, and a policy that says who starts.

At one instant come all ends, then all arrivals, then one pass of the policy. Entries of length zero that start in a pass end at
the same instant, which is followed by a new pass.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from lattice.replay.traces.workload import Workload

Progress = Callable[[int], None]
_REPORT_EVERY = 1024
_END_OF_TIME = 1 << 62


class Policy(Protocol):
    """Decides who starts. It sees estimates, and learns of a run's length when it has ended."""

    def step(self, now: int, ended: Sequence[int], arrived: range) -> list[int]:
        """Positions to start at this instant, in the order in which they were chosen."""
        ...


def simulate(work: Workload, policy: Policy, progress: Progress | None = None) -> list[int]:
    """When each entry starts under the policy, by position."""
    clock = _Clock(work, progress)
    while clock.advance():
        clock.pass_over(policy)
    return clock.starts


class _Clock:
    """Ends ahead are numbers, time above and position below, which a heap orders faster than pairs."""

    def __init__(self, work: Workload, progress: Progress | None) -> None:
        self.starts = [-1] * len(work)
        self._work = work
        self._progress = progress
        self._reported = 0
        self._started = 0
        self._next = 0
        self._now = 0
        self._ends: list[int] = []
        self._shift = len(work).bit_length()
        self._mask = (1 << self._shift) - 1

    def advance(self) -> bool:
        """Goes to the next instant at which something happens; False when nothing is left."""
        submits, ends = self._work.submits, self._ends
        now = submits[self._next] if self._next < len(submits) else _END_OF_TIME
        if ends and ends[0] >> self._shift < now:
            now = ends[0] >> self._shift
        self._now = now
        return now != _END_OF_TIME

    def pass_over(self, policy: Policy) -> None:
        now, ended = self._now, self._due()
        while True:
            started = policy.step(now, ended, self._arrivals())
            for position in started:
                self.starts[position] = now
                heappush(self._ends, (now + self._work.runs[position] << self._shift) | position)
            self._count(len(started))
            ended = self._due()
            if not ended:
                return

    def _due(self) -> list[int]:
        ends, mask, limit = self._ends, self._mask, self._now + 1 << self._shift
        due: list[int] = []
        while ends and ends[0] < limit:
            due.append(heappop(ends) & mask)
        return due

    def _arrivals(self) -> range:
        submits, first, last = self._work.submits, self._next, self._next
        while last < len(submits) and submits[last] == self._now:
            last += 1
        self._next = last
        return range(first, last)

    def _count(self, started: int) -> None:
        self._started += started
        if self._progress is not None and self._started - self._reported >= _REPORT_EVERY:
            self._reported = self._started
            self._progress(self._started)
