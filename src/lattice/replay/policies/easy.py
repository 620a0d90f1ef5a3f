"""EASY backfilling: the head of the queue has a reservation, and rows that do not delay it may go first.

What waits is kept by the number of processors it wants, so that a pass looks at one entry per number and not at the whole
queue. Between two ends room only shrinks and the reservation only comes nearer: no row that could not start before can
start then, and only those who have just come are looked at.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from lattice.replay.policies.timeline import Instant, Timeline
from lattice.replay.policies.waiting import Waiting, waiting_of
from lattice.replay.traces.workload import Workload

Candidate = tuple[int, int, Waiting]  # position, place in its queue, that queue


class Easy:
    def __init__(self, work: Workload) -> None:
        self._procs = work.procs
        self._estimates = work.estimates
        self._timeline = Timeline(work.procs_total)
        self._due: list[Instant] = [0] * len(work)  # estimated ends of those that were started
        self._is_gone = bytearray(len(work))
        self._head = 0
        self._queues: dict[int, Waiting] = {}
        self._sizes: list[int] = []  # numbers of processors that rows wait for, sorted
        self._now = 0
        self._started: list[int] = []

    def step(self, now: int, ended: Sequence[int], arrived: range) -> list[int]:
        self._now, self._started = now, []
        timeline = self._timeline
        for position in ended:
            timeline.stop(self._due[position], self._procs[position])
        self._start_from_head(arrived)
        rest = range(max(self._head, arrived.start), arrived.stop)
        if ended or self._head >= arrived.start:
            for position in rest:
                self._queue(position)
            if self._sizes and self._sizes[0] <= timeline.free:
                self._backfill()
        elif rest:
            self._backfill_arrivals(rest)
        return self._started

    def _start_from_head(self, arrived: range) -> None:
        head, procs, is_gone, timeline = self._head, self._procs, self._is_gone, self._timeline
        while head < arrived.stop:
            if not is_gone[head]:
                if procs[head] > timeline.free:
                    break
                if head < arrived.start:
                    queue = self._queues[procs[head]]
                    self._leave(queue, queue.first())
                self._start(head)
            head += 1
        self._head = head

    def _backfill(self) -> None:
        """Merges the queues of all sizes that fit, in queue order."""
        timeline, estimates = self._timeline, self._estimates
        shadow, extra = timeline.reservation(self._procs[self._head])
        time_left = int(shadow) - self._now
        candidates = self._candidates(time_left, extra)
        while candidates:
            position, place, queue = candidates[0]
            procs = queue.procs
            is_short = estimates[position] <= time_left
            if procs <= timeline.free and (is_short or procs <= extra):
                if not is_short:
                    extra -= procs
                self._leave(queue, place)
                self._start(position)
            following = _next_of(queue, time_left, extra) if procs <= timeline.free else None
            if following is None:
                heappop(candidates)
            else:
                heapreplace(candidates, following)

    def _candidates(self, time_left: int, extra: int) -> list[Candidate]:
        found: list[Candidate] = []
        for procs in self._sizes:
            if procs > self._timeline.free:
                break
            candidate = _next_of(self._queues[procs], time_left, extra)
            if candidate is not None:
                found.append(candidate)
        heapify(found)
        return found

    def _backfill_arrivals(self, arrived: range) -> None:
        timeline = self._timeline
        time_left = extra = -1
        for position in arrived:
            procs, estimate = self._procs[position], self._estimates[position]
            if procs > timeline.free:
                self._queue(position)
                continue
            if time_left < 0:
                shadow, extra = timeline.reservation(self._procs[self._head])
                time_left = int(shadow) - self._now
            if estimate > time_left:
                if procs > extra:
                    self._queue(position)
                    continue
                extra -= procs
            self._start(position)

    def _start(self, position: int) -> None:
        due = self._now + self._estimates[position]
        self._due[position] = due
        self._timeline.start(due, self._procs[position])
        self._is_gone[position] = True
        self._started.append(position)

    def _queue(self, position: int) -> None:
        waiting_of(self._procs[position], self._queues, self._sizes).add(position, self._estimates[position])

    def _leave(self, queue: Waiting, place: int) -> None:
        queue.leave(place)
        if not queue:
            self._sizes.remove(queue.procs)


def _next_of(queue: Waiting, time_left: int, extra: int) -> Candidate | None:
    """The first of the queue that may start besides the reservation."""
    if queue.procs <= extra and queue:
        place = queue.first()
    elif queue.shortest <= time_left:
        place = queue.first_within(time_left)
    else:
        return None
    return queue.position(place), place, queue
