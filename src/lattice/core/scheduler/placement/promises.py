"""What was promised in the last plan and must not be broken by work that came later.

Rows with a reservation of the last plan go before the others. Only a row that ranks higher and is older than all of them behind
it, or of a higher class, may pass. Their start times are searched again, because they may have become earlier. Should one come out
later than promised, because those before it moved, then every promise is entered exactly where it was.
See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.placement.backfill import Start
from lattice.core.scheduler.proposals import Reservation
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.tables.slots import Bools, Ints, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, STOP_GRACE_MS, Shape, Snapshot


def promised_first(snapshot: Snapshot, order: Rows, keeping: Bools) -> tuple[Rows, list[int]]:
    """The order with promised rows ahead, and those rows that nothing may pass. `keeping` = vClusters that keep promises."""
    promised, queue = snapshot.promised, snapshot.queue
    if not promised or not len(order) or not keeping.any():
        return order, []
    is_promised = _among(queue.number[order], tuple(promised)) & keeping[queue.vcluster[order]]
    submitted_at, klass = queue.submitted_at[order], queue.preemption_class[order]
    oldest_behind = np.minimum.accumulate(np.where(is_promised, submitted_at, NEVER)[::-1])[::-1]
    highest_behind = np.maximum.accumulate(np.where(is_promised, klass, -1)[::-1])[::-1]
    has_behind = highest_behind >= 0
    may_pass = ~is_promised & has_behind & ((submitted_at <= oldest_behind) | (klass > highest_behind))
    first = is_promised | may_pass
    safe = is_promised & (np.cumsum(may_pass) == 0)
    return np.concatenate([order[first], order[~first]]), order[safe].tolist()


def entered_as(room: Room, demand: Demand, shape: Shape, kept: Reservation) -> Start | None:
    """Where the promise is entered: where it was, or a little later on the same nodes; None when it has to be looked for again.

    Work that is late, or has not started yet, pushes what was promised its nodes ahead of it. Were the promise dropped for that,
    those behind it would keep their places, and lose them to it in the next plan.
    """
    if kept.start_at > room.now:
        rows = slot_rows(room, demand, shape, kept)
        if rows is not None:
            return Start(at=kept.start_at, rows=rows)
    openings = room.timeline.openings(demand)
    if room.calendar:
        openings = room.calendar.cut(openings, shape.tenant, shape.user)
    wanted = max(kept.start_at, room.now)
    start = np.maximum(openings.start, wanted)
    fits = openings.end >= (start + shape.walltime_s * 1000 if shape.walltime_s else NEVER)
    first = np.full(len(room.bar), NEVER, np.int64)
    np.minimum.at(first, openings.node[fits], start[fits])
    at = int(first[[room.snapshot.nodes.rows[node] for node in kept.nodes]].max())
    if not wanted < at <= wanted + STOP_GRACE_MS:
        return None
    rows = slot_rows(room, demand, shape, Reservation(number=kept.number, start_at=at, nodes=kept.nodes))
    return None if rows is None else Start(at=at, rows=rows)


def slot_rows(room: Room, demand: Demand, shape: Shape, kept: Reservation) -> Rows | None:
    """The nodes that were promised, if they are all still there at that time for long enough; else None."""
    rows: Rows = np.array([room.snapshot.nodes.rows[node] for node in kept.nodes], np.intp)
    end = kept.start_at + shape.walltime_s * 1000 if shape.walltime_s else NEVER
    if len(rows) == demand.least == 1 and not room.calendar:
        known = room.timeline.is_open(demand, int(rows[0]), kept.start_at, end)
        if known is not None:
            return rows if known else None
    openings = room.timeline.openings(demand)
    if room.calendar:
        openings = room.calendar.cut(openings, shape.tenant, shape.user)
    is_open = np.zeros(len(room.bar), np.bool_)
    is_open[openings.node[(openings.start <= kept.start_at) & (openings.end >= end)]] = True
    return rows if len(rows) >= demand.least and is_open[rows].all() else None


def opens_now(room: Room, demand: Demand, shape: Shape) -> bool:
    """Whether any node could take some of the demand now; while none can, no promise of it can start early."""
    openings = room.timeline.openings(demand)
    if room.calendar:
        openings = room.calendar.cut(openings, shape.tenant, shape.user)
    return bool((openings.start <= room.now).any())


def could_start(room: Room, demand: Demand, shape: Shape, kept: Reservation) -> bool:
    """Whether enough nodes are free from now on if only the row's own reservation were not there."""
    openings = room.timeline.openings(demand)
    if room.calendar:
        openings = room.calendar.cut(openings, shape.tenant, shape.user)
    own = np.array([room.snapshot.nodes.rows[node] for node in kept.nodes], np.intp)
    own_end = kept.start_at + shape.walltime_s * 1000 if shape.walltime_s else NEVER
    until = np.full(len(room.bar), -1, np.int64)
    is_open = openings.start <= room.now
    until[openings.node[is_open]] = openings.end[is_open]
    until[own] = np.where(until[own] >= kept.start_at, np.maximum(until[own], own_end), until[own])
    touches = openings.start <= until[openings.node]
    np.maximum.at(until, openings.node[touches], openings.end[touches])
    return int(np.count_nonzero(until >= shape.end_if_started(room.now))) >= demand.least


def _among(numbers: Ints, wanted: tuple[int, ...]) -> Bools:
    if len(wanted) > 2:
        return np.isin(numbers, np.array(wanted, np.int64))
    found: Bools = numbers == wanted[0]
    return found if len(wanted) == 1 else found | (numbers == wanted[1])
