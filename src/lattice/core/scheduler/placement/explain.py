"""Says in one sentence with figures why an allocation waits, from the same columns that the plan decided on.

A sentence is written only on request: most of a long queue is never looked at. See docs/architecture/scheduler.md.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from functools import cached_property

import numpy as np

from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.units import format_duration
from lattice.core.scheduler.feasibility import Demand, suitable_nodes
from lattice.core.scheduler.placement.backfill import earliest_start
from lattice.core.scheduler.placement.reach import Reaches
from lattice.core.scheduler.placement.solver import largest_alike
from lattice.core.scheduler.proposals import Explanation, Reservation, WaitingTable
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.room.ties import Ties
from lattice.core.scheduler.score.score import Scores
from lattice.core.scheduler.tables.distinct import distinct
from lattice.core.scheduler.tables.slots import Bools, Ints, Rows
from lattice.core.scheduler.tables.snapshot import HOLDS, STATES, Shape, Snapshot

# Numbers in their order, and the row of each: lists, because one number at a time is looked for.
_Numbered = tuple[list[int], list[int]]


class Why(IntEnum):
    """What became of a queue row in this plan."""

    BEHIND = 0  # not looked at, or like one that was
    PLACED = 1
    NO_ROOM = 2
    LIMIT = 3
    HELD = 4
    NOT_YET = 5
    NO_VCLUSTER = 6
    TOO_LONG = 7  # longer than its vCluster allows
    TOO_MANY = 8  # more nodes than its vCluster allows


_OUT_OF_SERVICE = (
    ("drained", (NodeState.DRAINING, NodeState.DRAINED)),
    ("down", (NodeState.DOWN, NodeState.FAILED, NodeState.QUARANTINE)),
    ("degraded", (NodeState.DEGRADED,)),
    ("booting", (NodeState.UNKNOWN, NodeState.BOOTING)),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanations(WaitingTable):
    """Every row that still waits, by number; a pending task is found under its own number as well."""

    snapshot: Snapshot
    room: Room
    why: Ints
    scores: Scores
    order: Rows  # the rows in the order in which they were taken
    reasons: Mapping[int, str]  # by shape, where a limit or a sum stopped it
    reservations: Mapping[int, Reservation]  # by number
    placed: frozenset[int]
    reaches: Reaches
    _written: dict[tuple[Shape, int], str] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Explanation:
        row = self._row_of(number)
        if row is None:
            raise KeyError(number)
        return self._explain(row)

    def __iter__(self) -> Iterator[int]:
        """In the order in which they are considered; those that cannot be considered at all come last."""
        waits = self.why != Why.PLACED
        first = self.order[waits[self.order]]
        waits[first] = False
        return iter(self.snapshot.queue.number[np.concatenate([first, np.flatnonzero(waits)])].tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.why != Why.PLACED))

    def candidates(self, number: int) -> Candidates | None:
        row = self._row_of(number)
        if row is None or int(self.why[row]) not in (Why.BEHIND, Why.NO_ROOM):
            return None
        reservation = self.reservations.get(int(self.snapshot.queue.number[row]))
        is_looked_at = int(self.why[row]) == Why.NO_ROOM
        return self.reaches.of(row, None if reservation is None else reservation.start_at, is_looked_at=is_looked_at)

    def behind_others(self) -> frozenset[int]:
        rows = (self.why == Why.BEHIND) & (self._ahead > 0)
        return frozenset(self.snapshot.queue.number[rows].tolist() if self.snapshot.nodes.ids else ())

    @cached_property
    def _ties(self) -> Ties:
        return Ties(self.snapshot)

    @cached_property
    def _by_number(self) -> _Numbered:
        return _sorted(self.snapshot.queue.number, np.arange(len(self.why)))

    @cached_property
    def _groups_by_number(self) -> _Numbered:
        rows = np.flatnonzero(self.snapshot.queue.block)
        return _sorted(self.snapshot.queue.number[rows], rows)

    @cached_property
    def _ahead(self) -> Ints:
        """How many rows of the same vCluster wait before each row."""
        waits = (self.why == Why.BEHIND) | (self.why == Why.NO_ROOM)
        ahead = np.zeros(len(self.why), np.int64)
        for vcluster in range(len(self.snapshot.vcluster_names)):
            own = self.order[self.snapshot.queue.vcluster[self.order] == vcluster]
            ahead[own] = np.cumsum(waits[own]) - waits[own]
        return ahead

    def _row_of(self, number: int) -> int | None:
        if number in self.placed:
            return None
        row = _at_or_before(self._by_number, number)
        if row is None or self.snapshot.queue.number[row] != number:
            row = self._group_row_of(number)
        return None if row is None or self.why[row] == Why.PLACED else row

    def _group_row_of(self, task: int) -> int | None:
        """The row of the group in which the task is still pending."""
        row = _at_or_before(self._groups_by_number, task)
        if row is None:
            return None
        group = self.snapshot.groups[int(self.snapshot.queue.number[row])]
        return row if group.is_pending(task - group.number - 1) else None

    def _explain(self, row: int) -> Explanation:
        rank = int(self._ahead[row])
        number = int(self.snapshot.queue.number[row])
        reservation = self.reservations.get(number)
        return Explanation(
            reason=self._reason(row, rank),
            detail="" if reservation is None else f"kept for it: {_some(reservation.nodes)}",
            predicted_start=None if reservation is None else reservation.start_at,
            predicted_nodes=() if reservation is None else reservation.nodes,
            scores=self.scores.of(row),
            penalty=self.scores.penalty(row),
            images=self._images(row),
            rank=rank,
        )

    def _images(self, row: int) -> str:
        shape, missing = self.snapshot.shape_of(row), self._ties.missing(row)
        if missing is None or shape.vcluster not in self.snapshot.vclusters:
            return ""
        suitable = suitable_nodes(self.snapshot, shape.request, self.snapshot.vclusters[shape.vcluster])
        having, fit = int(np.count_nonzero(suitable & (missing == 0))), int(np.count_nonzero(suitable))
        return f"in the cache of {having} of {fit} suitable {'node' if fit == 1 else 'nodes'}"

    def _reason(self, row: int, rank: int) -> str:
        queue, shape = self.snapshot.queue, self.snapshot.shape_of(row)
        why = Why(int(self.why[row]))
        if why is Why.HELD:
            return f"held by {HOLDS[int(queue.hold[row])]}"
        if why is Why.NOT_YET:
            return f"not before {_moment(int(queue.eligible_at[row]))}"
        if why is Why.NO_VCLUSTER:
            gone = shape.vcluster not in self.snapshot.vclusters
            return f"vCluster {shape.vcluster} {'does not exist' if gone else 'is down'}"
        if why in (Why.TOO_LONG, Why.TOO_MANY):
            return _over(
                why, self.snapshot.vclusters[shape.vcluster], int(queue.walltime_s[row]), int(queue.nodes[row])
            )
        if why is Why.BEHIND and rank and self.snapshot.nodes.ids:
            return f"waiting behind {rank} other{'s' if rank > 1 else ''}"
        if int(queue.shape[row]) in self.reasons:
            return self.reasons[int(queue.shape[row])]
        if why is Why.BEHIND and self._has_room(shape):
            return "waiting for the next cycle"
        return self._no_room_once(shape, int(queue.number[row]))

    def _has_room(self, shape: Shape) -> bool:
        """Whether it was only not looked at."""
        demand = self.room.demand(shape.request, self.snapshot.vclusters[shape.vcluster])
        return len(self.room.candidates(demand, shape)) >= demand.least

    def _no_room_once(self, shape: Shape, number: int) -> str:
        """Alike requests have the same reason, apart from the one that nodes are kept for."""
        key = (shape, number if number in self.reservations else 0)
        if key not in self._written:
            self._written[key] = self._no_room(shape, number)
        return self._written[key]

    def _no_room(self, shape: Shape, number: int) -> str:
        vcluster = self.snapshot.vclusters[shape.vcluster]
        suitable = suitable_nodes(self.snapshot, shape.request, vcluster)
        members = self.snapshot.members.get(vcluster.name)
        total = len(suitable) if members is None else int(np.count_nonzero(members))
        wanted, fit = shape.request.nodes, int(np.count_nonzero(suitable))
        if not self.snapshot.nodes.ids:
            return "no nodes registered"
        if not total:
            return f"vCluster {vcluster.name} has no nodes"
        if fit < wanted:
            return (
                f"no nodes matching constraints: {fit} of {total} nodes of vCluster {vcluster.name} suit the request, "
                f"{wanted} requested"
            )
        demand = self.room.demand(shape.request, vcluster)
        forecast = self._forecast(shape, demand, number)
        return f"{self._obstacle(shape, demand, suitable, number)}; {forecast}"

    def _obstacle(self, shape: Shape, demand: Demand, suitable: Bools, number: int) -> str:
        """What keeps it from starting now, with figures."""
        figures = self._figures(shape, demand, suitable, number)
        unkept = self.room.unkept(demand, shape)
        rows = np.zeros(len(suitable), np.bool_)
        rows[unkept] = len(unkept) >= demand.least  # else there would be too few anyway
        closed = self.room.calendar.in_the_way(shape.tenant, shape.user, rows, shape.end_if_started(self.room.now))
        if closed is not None:
            record, (start, stop) = closed
            now = self.room.now
            # For whom others reserved nodes is not disclosed; maintenance admits no work.
            name = "for others" if record.tenants or record.users else f'"{record.name}"'
            return f"reservation {name} lasts from {_clock(start, now)} to {_clock(stop, now)}: {figures}"
        if demand.request.require_conformance and len(unkept) >= demand.least:
            alike = max(1, largest_alike(self.room, unkept))  # a node of which nothing is known is a group of one
            return f"insufficient conformance group: {alike} of {demand.least} requested nodes are alike; {figures}"
        return f"all suitable nodes occupied: {figures}"

    def _figures(self, shape: Shape, demand: Demand, suitable: Bools, number: int) -> str:
        nodes, room = self.snapshot.nodes, self.room
        unheld = room.unheld(demand)
        free = len(room.candidates(demand, shape))
        reservation = self.reservations.get(number)
        if reservation is not None:
            own = np.array([nodes.rows[node] for node in reservation.nodes], np.intp)
            own = own[room.bar[own] >= reservation.start_at]  # no other reservation starts before
            closing = room.calendar.closing(shape.tenant, shape.user)
            own = own if closing is None else own[closing[own] >= reservation.start_at]
            free = len(distinct(np.concatenate([room.candidates(demand, shape), own[np.isin(own, unheld)]])))
        kept = len(unheld) - free
        kind = f"{shape.request.gpu_type} " if shape.request.gpu_type else ""
        fit = int(np.count_nonzero(suitable))
        counts = [
            f"{free} of {fit} {kind}{'node' if fit == 1 else 'nodes'} {'free' if demand.is_whole else 'with room'}"
        ]
        counts += [f"{kept} kept for others"] if kept else []
        usable = suitable & room.usable_by(shape.vcluster)
        busy = int(np.count_nonzero(usable)) - len(unheld)
        differ = int(np.count_nonzero(suitable & room.usable & ~usable))
        for word, states in _OUT_OF_SERVICE:
            places = [STATES.index(state) for state in states]
            count = int(np.count_nonzero(suitable & np.isin(nodes.state, places)))
            counts += [f"{count} {word}"] if count else []
        ready = suitable & (nodes.state == STATES.index(NodeState.READY))
        claimed = int(np.count_nonzero(ready & nodes.claimed))
        silent = int(np.count_nonzero(ready & ~nodes.claimed & ~nodes.connected))
        counts += [f"{claimed} claimed"] if claimed else []
        counts += [f"{silent} not connected"] if silent else []
        counts += [f"{differ} not of the baseline"] if differ else []
        counts += [f"{busy} busy"] if busy else []
        return ", ".join(counts)

    def _forecast(self, shape: Shape, demand: Demand, number: int) -> str:
        reservation = self.reservations.get(number)
        last = _ordinal(shape.request.nodes)
        if reservation is not None:
            return f"the {last} is free at {_clock(reservation.start_at, self.room.now)}"
        found = earliest_start(self.room, demand, shape)
        if found is None:
            return f"when the {last} will be free is not known"
        return f"the {last} is free at {_clock(found.at, self.room.now)} at the earliest"


def _sorted(numbers: Ints, rows: Rows) -> _Numbered:
    order = np.argsort(numbers, kind="stable")
    return numbers[order].tolist(), rows[order].tolist()


def _at_or_before(numbered: _Numbered, number: int) -> int | None:
    """The row with the number, or else with the nearest smaller one."""
    numbers, rows = numbered
    place = bisect_right(numbers, number) - 1
    return None if place < 0 else rows[place]


def _some(names: tuple[str, ...], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 <= number % 100 <= 20 else ending}"


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clock(at: int, now: int) -> str:
    """The time of day, with the date when it is not today; all in UTC."""
    then, today = datetime.fromtimestamp(-(-at // 1000), UTC), datetime.fromtimestamp(now // 1000, UTC)
    return then.strftime("%H:%M UTC" if then.date() == today.date() else "%Y-%m-%d %H:%M UTC")


def _over(why: Why, vcluster: Vcluster, walltime_s: int, nodes: int) -> str:
    if why is Why.TOO_MANY:
        return f"vCluster {vcluster.name} allows at most {vcluster.max_nodes} nodes, {nodes} are asked for"
    asked, limit = format_duration(walltime_s), format_duration(vcluster.max_walltime_s)
    return f"vCluster {vcluster.name} allows a walltime of at most {limit}, {asked} is asked for"
