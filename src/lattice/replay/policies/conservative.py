"""Conservative backfilling: every row has a reservation, made in queue order, and all are made again at each end.

Only those who start now matter before the next end, so reservations are made from the head on until none behind could
start now any more, and the rest when a row arrives that could. An end exactly at its estimate changes nothing that was
expected: whatever is reserved stays, and what is reserved for this instant starts.
"""

from collections.abc import Sequence

from lattice.replay.policies.profile import Profile
from lattice.replay.policies.timeline import Instant, Timeline
from lattice.replay.policies.waiting import Waiting, waiting_of
from lattice.replay.traces.workload import Workload

# An estimate of nothing still holds its processors within the pass that starts it.
_AN_INSTANT = 0.5


class Conservative:
    def __init__(self, work: Workload) -> None:
        self._procs = work.procs
        self._lengths: list[Instant] = [estimate or _AN_INSTANT for estimate in work.estimates]
        self._timeline = Timeline(work.procs_total)
        self._due: list[Instant] = [0] * len(work)
        self._is_gone = bytearray(len(work))
        self._head = 0
        self._next = 0  # the first without a reservation
        self._profile = Profile(0, self._timeline)
        self._is_stale = False
        self._starting: dict[Instant, list[int]] = {}
        self._queues: dict[int, Waiting] = {}
        self._sizes: list[int] = []
        self._now = 0
        self._started: list[int] = []

    def step(self, now: int, ended: Sequence[int], arrived: range) -> list[int]:
        self._now, self._started = now, []
        for position in ended:
            self._timeline.stop(self._due[position], self._procs[position])
            self._is_stale |= self._due[position] != now
        for position in arrived:
            self._queue(position)
        if not self._is_stale:
            self._profile.advance(now)
            for position in self._starting.pop(now, ()):
                self._start(position)
        if self._is_stale:
            self._start_from_head()
            if self._might_start():
                self._begin_anew()
        if not self._is_stale:
            self._reserve()
        if not self._sizes:
            self._is_stale = True  # with an empty queue there is nothing to keep
        return self._started

    def _start_from_head(self) -> None:
        """A first row that fits has its reservation now."""
        while self._sizes:
            while self._is_gone[self._head]:
                self._head += 1
            if self._procs[self._head] > self._timeline.free:
                return
            self._start(self._head)

    def _might_start(self) -> bool:
        """Whether anybody fits beside a reservation of the head, who does not. Cheap, and mostly the answer is no."""
        free = self._timeline.free
        if not self._sizes or self._sizes[0] > free:
            return False
        shadow, extra = self._timeline.reservation(self._procs[self._head])
        time_left = shadow - self._now
        for procs in self._sizes:
            if procs > free:
                return False
            if procs <= extra or self._queues[procs].shortest <= time_left:
                return True
        return False

    def _reserve(self) -> None:
        while self._could_start():
            while self._is_gone[self._next]:
                self._next += 1
            position = self._next
            start = self._profile.reserve(self._procs[position], self._lengths[position])
            if start == self._now:
                self._start(position)
            else:
                self._starting.setdefault(start, []).append(position)
            self._next += 1

    def _begin_anew(self) -> None:
        self._next = self._head
        self._profile = Profile(self._now, self._timeline)
        self._starting = {}
        self._is_stale = False

    def _could_start(self) -> bool:
        """Whether anybody without a reservation fits beside those that were made.

        A row with a reservation did not fit when it was made, and room only shrank since: it is safe to look at all who wait.
        """
        stays_free = self._profile.stays_free
        for procs in self._sizes:
            long = stays_free(procs)
            if not long:
                return False
            if self._queues[procs].shortest <= long:
                return True
        return False

    def _start(self, position: int) -> None:
        due = self._now + self._lengths[position]
        self._due[position] = due
        self._timeline.start(due, self._procs[position])
        self._is_gone[position] = True
        self._started.append(position)
        queue = self._queues[self._procs[position]]
        queue.leave(queue.place_of(position))
        if not queue:
            self._sizes.remove(queue.procs)

    def _queue(self, position: int) -> None:
        waiting_of(self._procs[position], self._queues, self._sizes).add(position, self._lengths[position])
