"""When processors come back by the estimates of what runs, with a mark at the moment that was asked for last.

The mark makes the question cheap: between two of them little changes, and the answer lies near the last one.
"""

from bisect import bisect_left, bisect_right, insort

Instant = int | float


class Timeline:
    """`free` processors now, more at each estimated end. `_at_mark` is what is free at `_mark` if nothing else starts."""

    __slots__ = ("_at_mark", "_mark", "ending", "free", "instants")

    def __init__(self, procs_total: int) -> None:
        self.free = procs_total
        self.instants: list[Instant] = []  # estimated ends, sorted, each once
        self.ending: dict[Instant, int] = {}  # processors that come back then
        self._mark: Instant = -1
        self._at_mark = procs_total

    def start(self, end: Instant, procs: int) -> None:
        """This many processors are taken until `end`, by estimate."""
        self.free -= procs
        if end in self.ending:
            self.ending[end] += procs
        else:
            self.ending[end] = procs
            insort(self.instants, end)
        if end > self._mark:
            self._at_mark -= procs

    def stop(self, end: Instant, procs: int) -> None:
        """What would have ended at `end` by estimate has ended now."""
        self.free += procs
        left = self.ending[end] - procs
        if left:
            self.ending[end] = left
        else:
            del self.ending[end]
            del self.instants[bisect_left(self.instants, end)]
        if end > self._mark:
            self._at_mark += procs

    def reservation(self, procs: int) -> tuple[Instant, int]:
        """When this many will be free, and how many more then; they must not be free now, and fit the machine."""
        instants, ending, free = self.instants, self.ending, self._at_mark
        place = bisect_right(instants, self._mark) - 1
        while free < procs:
            place += 1
            free += ending[instants[place]]
        while (before := free - ending[instants[place]]) >= procs:
            free = before
            place -= 1
        self._mark, self._at_mark = instants[place], free
        return self._mark, free - procs
