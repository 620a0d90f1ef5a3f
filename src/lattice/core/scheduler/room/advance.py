"""Advance reservations as a plan sees them: which nodes are closed to which work, and when.

Work that a reservation does not admit may neither be inside one of its windows nor run into it. Of a repeated reservation the
next windows are looked at, and nothing is predicted beyond them. See docs/architecture/scheduler.md.
"""

from collections.abc import Sequence

import numpy as np

from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.scheduler.room.timeline import Openings
from lattice.core.scheduler.tables.slots import Bools, Ints
from lattice.core.scheduler.tables.snapshot import NEVER, NodeColumns

_REPEATS = 8
Window = tuple[int, int]


class Calendar:
    """The windows that are open or still to come. Work is classified by the reservations that do not admit it."""

    def __init__(self, reservations: Sequence[AdvanceReservation], nodes: NodeColumns, now: int) -> None:
        self._nodes = nodes
        self._entries: list[tuple[AdvanceReservation, tuple[Window, ...], Bools]] = []
        for record in reservations:
            windows = _windows(record, now)
            if windows:
                self._entries.append((record, windows, _covered(record, nodes)))
        self._closing: dict[tuple[int, ...], Ints] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def closing(self, tenant: str, user: str) -> Ints | None:
        """For each node, when it is next closed for such work (in the past = it is closed now); None = nothing is."""
        foreign = self._foreign(tenant, user)
        if not foreign:
            return None
        if foreign not in self._closing:
            closing = np.full(len(self._nodes.ids), NEVER, np.int64)
            for index in foreign:
                _, windows, covered = self._entries[index]
                closing[covered] = np.minimum(closing[covered], windows[0][0])
            self._closing[foreign] = closing
        return self._closing[foreign]

    def cut(self, openings: Openings, tenant: str, user: str) -> Openings:
        """The openings without the times at which their nodes are closed for such work."""
        for index in self._foreign(tenant, user):
            _, windows, covered = self._entries[index]
            for start, end in windows:
                openings = _without(openings, covered, start, end)
        return openings

    def in_the_way(self, tenant: str, user: str, rows: Bools, end: int) -> tuple[AdvanceReservation, Window] | None:
        """The first reservation that keeps work ending at `end` from some of the rows now."""
        found = [
            (record, windows[0])
            for record, windows, covered in (self._entries[index] for index in self._foreign(tenant, user))
            if windows[0][0] < end and (covered & rows).any()
        ]
        return min(found, key=lambda pair: (pair[1], pair[0].name)) if found else None

    def _foreign(self, tenant: str, user: str) -> tuple[int, ...]:
        return tuple(i for i, (record, _, _) in enumerate(self._entries) if not record.admits(tenant, user))


def _windows(record: AdvanceReservation, now: int) -> tuple[Window, ...]:
    first = record.occurrence(now)
    if first is None:
        return ()
    if not record.repeat_s:
        return (first,)
    steps = [index * record.repeat_s * 1000 for index in range(_REPEATS)]
    windows = [(first[0] + step, first[1] + step) for step in steps]
    windows.append((windows[-1][0] + record.repeat_s * 1000, NEVER))
    return tuple(window for window in windows if not record.until or window[0] < record.until)


def _covered(record: AdvanceReservation, nodes: NodeColumns) -> Bools:
    if not record.nodes:
        return np.ones(len(nodes.ids), np.bool_)
    covered = np.zeros(len(nodes.ids), np.bool_)
    covered[[nodes.rows[node] for node in record.nodes if node in nodes.rows]] = True
    return covered


def _without(openings: Openings, covered: Bools, start: int, end: int) -> Openings:
    hit = covered[openings.node] & (openings.start < end) & (openings.end > start)
    if not hit.any():
        return openings
    left, right = hit & (openings.start < start), hit & (openings.end > end)
    return Openings(
        node=np.concatenate([openings.node[~hit], openings.node[left], openings.node[right]]),
        start=np.concatenate(
            [openings.start[~hit], openings.start[left], np.full(np.count_nonzero(right), end, np.int64)]
        ),
        end=np.concatenate([openings.end[~hit], np.full(np.count_nonzero(left), start, np.int64), openings.end[right]]),
    )
