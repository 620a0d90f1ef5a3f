"""Looks ahead: when enough nodes will be free for long enough, and which ones to keep.

The machine ahead is `Room.timeline`: running work ends at its walltime at the latest, work without one never, and what was
promised to others is taken. Advance reservations and the sums of the whole machine count as well.
See docs/architecture/scheduler.md.
"""

from dataclasses import dataclass

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.placement.solver import keep_nodes
from lattice.core.scheduler.proposals import Reservation
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.room.timeline import Openings
from lattice.core.scheduler.tables.distinct import distinct
from lattice.core.scheduler.tables.slots import Ints, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, Shape

Stretches = tuple[Ints, Ints]


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """When work can start, and on which nodes."""

    at: int
    rows: Rows


def earliest_start(room: Room, demand: Demand, shape: Shape, before: Reservation | None = None) -> Start | None:
    """The first moment at which the demand can be met without delaying others; None when no such moment is known.

    The nodes are those that were kept `before`, if they will do: predictions should not wander without need.
    """
    least = demand.least
    length = shape.walltime_s * 1000 or NEVER
    charges = room.charges(demand)
    if least == 1 and not room.calendar and not charges:
        soonest = room.timeline.soonest(demand, length)
        if soonest is not None:
            return _single(room, *soonest, before)
    openings = room.timeline.openings(demand)
    if room.calendar:
        openings = room.calendar.cut(openings, shape.tenant, shape.user)
    latest = openings.latest(length)
    fits = latest >= openings.start
    if not fits.all():
        openings, latest = openings.keep(fits), latest[fits]
    if len(openings.node) < least:
        return None
    stretches = [total.starts(amount, length) for total, amount in charges]
    if demand.request.require_conformance and least > 1:
        return _earliest_alike(room, demand, openings, latest, stretches)
    return _earliest(room, demand, openings, latest, stretches, before)


def _single(room: Room, at: int, ready: Rows, before: Reservation | None) -> Start | None:
    """On one of the nodes that are ready then: the one that was kept before, if it will do, else the first by id."""
    if at >= NEVER:
        return None
    first = int(np.minimum.reduce(ready))
    if before is not None and before.start_at == at and len(before.nodes) == 1:
        kept = room.snapshot.nodes.rows[before.nodes[0]]
        first = kept if kept in ready.tolist() else first
    return Start(at=at, rows=np.array([first], np.intp))


def _earliest(
    room: Room,
    demand: Demand,
    openings: Openings,
    latest: Ints,
    stretches: list[Stretches],
    before: Reservation | None = None,
) -> Start | None:
    at = _first_moment(openings.start, latest, demand.least, stretches)
    if at is None or at >= NEVER:
        return None
    ready = (openings.start <= at) & (latest >= at)
    if before is not None and before.start_at == at:
        rows = _same_rows(room, demand, openings.node[ready], before)
        if rows is not None:
            return Start(at=at, rows=rows)
    return Start(at=at, rows=keep_nodes(room, demand, openings.node[ready], openings.start[ready]))


def _same_rows(room: Room, demand: Demand, ready: Rows, before: Reservation) -> Rows | None:
    """The nodes that were kept before, if all of them are ready."""
    rows: Rows = np.array([room.snapshot.nodes.rows[node] for node in before.nodes], np.intp)
    is_ready = np.zeros(len(room.bar), np.bool_)
    is_ready[ready] = True
    return rows if len(rows) == demand.least and is_ready[rows].all() else None


def _earliest_alike(
    room: Room, demand: Demand, openings: Openings, latest: Ints, stretches: list[Stretches]
) -> Start | None:
    """The same on nodes of one conformance group; an unknown one matches no other."""
    group = room.snapshot.nodes.conformance[openings.node]
    best: Start | None = None
    known = group[group >= 0]
    sizes = np.bincount(known) if len(known) else np.zeros(0, np.int64)
    for number in np.flatnonzero(sizes >= demand.least).tolist():
        alike = group == number
        found = _earliest(room, demand, openings.keep(alike), latest[alike], stretches)
        if found is not None and (best is None or found.at < best.at):
            best = found
    return best


def _first_moment(start: Ints, latest: Ints, least: int, stretches: list[Stretches]) -> int | None:
    """The first moment that lies between `start` and `latest` of enough openings, and in one of each of the stretches."""
    if not stretches:
        if least == 1:
            return int(np.minimum.reduce(start))
        if int(latest.min()) >= NEVER:
            return int(np.partition(start, least - 1)[least - 1])
    moments = np.sort(start)
    open_at = np.arange(1, len(moments) + 1)
    if stretches:
        starts = moments
        moments = distinct(np.concatenate([starts, *(first for first, _ in stretches)]))
        open_at = np.searchsorted(starts, moments, side="right")
    good = open_at - np.searchsorted(np.sort(latest), moments, side="left") >= least
    for first, last in stretches:
        place = np.searchsorted(first, moments, side="right") - 1
        good &= (place >= 0) & (last[place] >= moments) if len(last) else False
    index = int(good.argmax())
    return int(moments[index]) if good[index] else None
