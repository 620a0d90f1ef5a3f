"""How many processors are free from now on: a step function that reservations cut into."""

from bisect import bisect_right
from itertools import accumulate

from lattice.replay.policies.timeline import Instant, Timeline

Drop = tuple[Instant, int]
_FOR_EVER = 1 << 62


class Profile:
    """`_free[i]` processors from `_times[i]` to the next of them, the last for ever. The first of them is now."""

    def __init__(self, now: int, timeline: Timeline) -> None:
        self._times: list[Instant] = [now, *timeline.instants]
        ending = timeline.ending
        self._free = list(accumulate((ending[end] for end in timeline.instants), initial=timeline.free))
        self._known: dict[tuple[int, Instant], Instant] = {}
        # Each step that is lower than all before it, among the first `_seen`. Nothing lowers it yet: ends only give back.
        self._floor: list[Drop] = [(now, timeline.free)]
        self._seen = len(self._times)

    def advance(self, now: int) -> None:
        """Forgets what lies before now."""
        times = self._times
        past = bisect_right(times, now) - 1
        times[past] = now
        if past:
            del times[:past], self._free[:past]
            self._seen = 1
            del self._floor[1:]
        self._floor[0] = (now, self._free[0])

    def reserve(self, procs: int, length: Instant) -> Instant:
        """Take the earliest place for this many processors for this long, and return its start."""
        times, free = self._times, self._free
        first, after = self._place(procs, length)
        end = times[first] + length
        if after == len(times) or times[after] != end:
            times.insert(after, end)
            free.insert(after, free[after - 1])
            self._seen += after < self._seen
        for place in range(first, after):
            free[place] -= procs
        for drop in _floor(times[first : min(after, self._seen)], free[first:after]):
            self._lower(drop)
        return times[first]

    def _place(self, procs: int, length: Instant) -> tuple[int, int]:
        """The step with which the earliest place begins, and the first step that lies behind it."""
        times, free = self._times, self._free
        # Room only shrinks: an equal request finds nothing before the last one did.
        known = self._known.get((procs, length), times[0])
        first = max(0, bisect_right(times, known) - 1)
        count = len(times)
        while True:
            while free[first] < procs:
                first += 1
            end = times[first] + length
            after = first + 1
            while after < count and times[after] < end and free[after] >= procs:
                after += 1
            if after == count or times[after] >= end:
                self._known[procs, length] = times[first]
                return first, after
            first = after + 1

    def _lower(self, drop: Drop) -> None:
        floor = self._floor
        place = bisect_right(floor, drop[0], key=_time)
        if place and floor[place - 1][1] <= drop[1]:
            return
        behind = place
        while behind < len(floor) and floor[behind][1] >= drop[1]:
            behind += 1
        if place and floor[place - 1][0] == drop[0]:
            place -= 1
        floor[place:behind] = [drop]

    def stays_free(self, procs: int) -> Instant:
        """For how long from now on this many processors are free; 0 when they are not even now."""
        floor, now = self._floor, self._times[0]
        for time, level in floor:
            if level < procs:
                return time - now
        least = floor[-1][1]
        for place in range(self._seen, len(self._times)):
            if self._free[place] < least:
                least = self._free[place]
                floor.append((self._times[place], least))
                if least < procs:
                    self._seen = place + 1
                    return self._times[place] - now
        self._seen = len(self._times)
        return _FOR_EVER


def _floor(times: list[Instant], free: list[int]) -> list[Drop]:
    """Every step that is lower than all before it."""
    drops: list[Drop] = []
    least = _FOR_EVER
    for time, level in zip(times, free, strict=False):
        if level < least:
            least = level
            drops.append((time, level))
    return drops


def _time(drop: Drop) -> Instant:
    return drop[0]
