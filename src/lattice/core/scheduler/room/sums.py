"""Amounts that the whole machine shares, over time: power that busy nodes draw, storage bandwidth that work asks for.

See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.room.journal import Undo
from lattice.core.scheduler.room.timeline import Openings
from lattice.core.scheduler.tables.distinct import distinct
from lattice.core.scheduler.tables.slots import Ints
from lattice.core.scheduler.tables.snapshot import NEVER


class Sum:
    """One such amount with its limit, and who takes how much of it from when to when."""

    def __init__(self, limit: int, now: int, ends: Ints, amounts: Ints) -> None:
        self.limit = limit
        self.now = now
        # Starts, ends and amounts; what is given back is an entry below 0. Only `take` appends, only an undo shortens.
        self._entries: list[tuple[Ints, Ints, Ints]] = [(np.full(len(ends), now, np.int64), ends, amounts)]
        self._steps: tuple[Ints, Ints] | None = None  # the profile of `_entries`; None = not made since the last entry

    def mark(self) -> Undo:
        """What puts everything back as it is now."""
        count, steps = len(self._entries), self._steps

        def undo() -> None:
            del self._entries[count:]
            self._steps = steps

        return undo

    def take(self, start: int, end: int, amount: int) -> None:
        if amount:
            self._entries.append((np.array([start]), np.array([end]), np.array([amount])))
            self._steps = None

    def fits(self, amount: int, end: int) -> bool:
        """Whether this much more may be taken from now to `end`."""
        times, used = self._profile()
        return not amount or bool(used[times < end].max() + amount <= self.limit)

    def fits_from(self, starts: Ints, amounts: Ints, end: int) -> bool:
        """The same for several amounts, each from a moment of its own on."""
        times, used = self._profile()
        moments = distinct(np.concatenate([times[times < end], starts]))
        more = (amounts * (starts <= moments[:, np.newaxis])).sum(axis=1)
        return bool((used[np.searchsorted(times, moments, side="right") - 1] + more).max() <= self.limit)

    def used(self) -> int:
        return int(self._profile()[1][0])

    def starts(self, amount: int, length: int) -> tuple[Ints, Ints]:
        """Stretches of time, first and last moment, at which work of that length may start."""
        times, used = self._profile()
        good = np.concatenate([[False], used + amount <= self.limit, [False]])
        change = np.flatnonzero(good[1:] != good[:-1])
        edges = np.concatenate([times, [NEVER]])
        free = Openings(node=change[::2], start=edges[change[::2]], end=edges[change[1::2]])
        latest = free.latest(length)
        fits = latest >= free.start
        return free.start[fits], latest[fits]

    def _profile(self) -> tuple[Ints, Ints]:
        """Moments, the first of them now, and what is taken from each of them on."""
        if self._steps is None:
            starts, ends, amounts = (np.concatenate(column) for column in zip(*self._entries, strict=True))
            times, place = np.unique(np.concatenate([[self.now], starts, ends]), return_inverse=True)
            change = np.zeros(len(times), np.int64)
            np.add.at(change, place[1:], np.concatenate([amounts, -amounts]))
            self._steps = (times[times < NEVER], np.cumsum(change)[times < NEVER])
        return self._steps
