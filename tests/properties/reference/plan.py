# mypy: ignore-errors
"""As it was before plans could be taken back; kept to compare with, never changed. The plan: one pass over the queue that starts what fits, keeps nodes for the highest that do not, and fills in around them.

Rows are taken in the order of their score, those with a promise before them. A row that cannot start closes its shape: room and
limits only shrink within a plan, so no later row of the same shape could start either. What is never looked at costs nothing.
See docs/architecture/scheduler.md.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.placement.backfill import Start, earliest_start
from lattice.core.scheduler.placement.explain import Explanations, Why
from lattice.core.scheduler.placement.promises import could_start, entered_as, opens_now, promised_first
from lattice.core.scheduler.placement.reach import Reaches
from lattice.core.scheduler.placement.solver import (
    alike_rows,
    avoid_drifted,
    choose_nodes,
    largest_alike,
    limit_new_nodes,
)
from lattice.core.scheduler.placement.victims import Victims
from lattice.core.scheduler.proposals import Placement, Plan, Reservation
from lattice.core.scheduler.score.profiles import Profile
from lattice.core.scheduler.score.score import Scores, score
from lattice.core.scheduler.tables.slots import Ints, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, Shape, Snapshot
from tests.properties.reference.bounds import Bounds
from tests.properties.reference.headroom import Headroom
from tests.properties.reference.room import Room

# Plain numbers: NumPy looks long at a member of an enumeration.
_BEHIND, _PLACED, _NO_ROOM, _LIMIT = int(Why.BEHIND), int(Why.PLACED), int(Why.NO_ROOM), int(Why.LIMIT)
_HELD, _NOT_YET, _NO_VCLUSTER = int(Why.HELD), int(Why.NOT_YET), int(Why.NO_VCLUSTER)
_TOO_LONG, _TOO_MANY = int(Why.TOO_LONG), int(Why.TOO_MANY)
_CHUNK = 64
_REFUSED = 8  # after so many refusals the bounds have something to learn from them
_SPARE_LOOKOUTS = 8  # so many more blocked allocations than get a reservation may ask when they could start
_SEEN_PER_TRIED = 8  # rows stopped by a limit are cheap to look at, but not free


def plan(snapshot: Snapshot, profiles: Mapping[str, Profile], now: int) -> Plan:
    """What to start at `now` (milliseconds since 1970), and why the rest waits. Same input, same plan.

    `profiles` is by name of vCluster; one that is missing follows from the vCluster's own record.
    """
    scores = score(snapshot, profiles, now)
    passed = _Pass(snapshot, scores, now)
    if not passed.run():
        passed = _Pass(snapshot, scores, now)
        passed.run(to_the_letter=True)
    return passed.outcome()


class _Pass:
    """One pass over the queue: what was placed so far, and what is closed."""

    def __init__(self, snapshot: Snapshot, scores: Scores, now: int) -> None:
        self._snapshot = snapshot
        self._scores = scores
        self._now = now
        self._room = Room(snapshot, now)
        self._headroom = Headroom(snapshot)
        self._vclusters = [snapshot.vclusters.get(name) for name in snapshot.vcluster_names]
        self._profiles = scores.profiles
        count = len(self._vclusters)
        self._tried, self._seen = [0] * count, [0] * count
        self._depth = [_depth(p, v) for p, v in zip(self._profiles, self._vclusters, strict=True)]
        self._first_depth = tuple(self._depth)
        self._lookouts = [depth + _SPARE_LOOKOUTS if depth else 0 for depth in self._depth]
        self._asking = np.array(self._lookouts, np.int64) > 0  # vClusters whose blocked rows may still ask
        self._no_start = np.zeros(len(snapshot.shapes), np.bool_)
        self._limited = np.zeros(len(snapshot.shapes), np.bool_)
        self._closed_vcluster = np.zeros(count, np.bool_)
        self._why = _standing(snapshot, self._vclusters, now)
        order = scores.order()
        self._order: Rows = order[self._why[order] == _BEHIND]
        sharing = [v is not None and v.node_sharing is NodeSharing.SHARED for v in self._vclusters]
        self._bounds = Bounds(self._room, snapshot.queue, np.array(sharing, np.bool_))
        self._reasons: dict[int, str] = {}  # by shape
        self._placements: list[Placement] = []
        self._reservations: dict[int, Reservation] = {}  # by number

    def run(self, *, to_the_letter: bool = False) -> bool:
        """Goes through the queue; False, in the middle of it, when a promise would be broken: then it must be to the letter."""
        keeping = np.array([profile.keeps_promises for profile in self._profiles], np.bool_)
        self._order, safe = promised_first(self._snapshot, self._order, keeping)
        if to_the_letter:
            self._keep_to_the_letter(safe)
        elif not self._keep_promises(safe):
            return False
        rest: Rows = self._order[len(safe) :]
        while len(rest):
            rest = self._worth_trying(rest)
            rest = rest[self._try(rest[:_CHUNK].tolist()) :]
        return True

    def _try(self, rows: list[int]) -> int:
        """Considers rows until those that cannot start show that the bounds should be looked at anew; returns how many."""
        refused, was_asking = 0, self._asking.any()
        for count, row in enumerate(rows, 1):
            before = len(self._placements)
            self._consider(row)
            refused += self._why[row] != _PLACED
            is_stale = refused > _REFUSED or (refused and (before or was_asking))
            if is_stale and not self._asking.any():
                return count
        return len(rows)

    def _worth_trying(self, rows: Rows) -> Rows:
        """The rows that may start or, in vClusters that still give reservations, may get one."""
        queue = self._snapshot.queue
        shape, vcluster = queue.shape[rows], queue.vcluster[rows]
        asking = self._asking[vcluster]
        idle = self._no_start[shape] & (self._limited[shape] | ~asking)
        rows = rows[~(idle | self._closed_vcluster[vcluster])]
        if not len(rows) or asking.all():
            return rows
        return rows[self._asking[queue.vcluster[rows]] | self._bounds.possible(rows)]

    # promises

    def _keep_promises(self, rows: list[int]) -> bool:
        """Starts or reserves for each row anew; False when one would start later than promised."""
        queue, promised = self._snapshot.queue, self._snapshot.promised
        for row in rows:
            self._consider(row)
            number = int(queue.number[row])
            kept = self._reservations.get(number)
            starts_at = NEVER if kept is None else kept.start_at
            if starts_at > max(promised[number].start_at, self._now) and self._why[row] == _NO_ROOM:
                return False
        return True

    def _keep_to_the_letter(self, rows: list[int]) -> None:
        """Enters each promise where it was, then starts what could start at once without touching the others."""
        queue, promised = self._snapshot.queue, self._snapshot.promised
        entered = [self._enter(row, promised[int(queue.number[row])]) for row in rows]
        shut: set[int] = set()  # shapes that cannot start anywhere now; nothing but a start changes that
        for row, is_entered in zip(rows, entered, strict=True):
            number, shape = int(queue.number[row]), self._snapshot.shape_of(row)
            if is_entered:
                demand = self._room.demand(shape.request, self._snapshot.vclusters[shape.vcluster])
                if int(queue.shape[row]) in shut:
                    continue
                if not opens_now(self._room, demand, shape):
                    shut.add(int(queue.shape[row]))
                    continue
                if not could_start(self._room, demand, shape, promised[number]):
                    continue
                shut.clear()
                self._room.release(number)
                del self._reservations[number]
                self._depth[int(queue.vcluster[row])] += 1
                self._lookouts[int(queue.vcluster[row])] += 1
            self._consider(row)

    def _enter(self, row: int, kept: Reservation) -> bool:
        """Enters a promise where it was; False when it is due now, or cannot be kept."""
        shape = self._snapshot.shape_of(row)
        demand = self._room.demand(shape.request, self._snapshot.vclusters[shape.vcluster])
        if self._headroom.refusal(shape) is not None:
            return False
        start = entered_as(self._room, demand, shape, kept)
        if start is None:
            return False
        self._why[row] = _NO_ROOM
        self._reserve(row, shape, demand, start)
        return True

    # one row

    def _consider(self, row: int) -> None:
        queue = self._snapshot.queue
        shape_number, number = int(queue.shape[row]), int(queue.vcluster[row])
        vcluster = self._vclusters[number]
        if self._closed_vcluster[number] or vcluster is None or self._limited[shape_number]:
            return
        shape = self._snapshot.shape_of(row)
        if self._no_start[shape_number]:
            self._stop_for_room(row, shape, self._room.demand(shape.request, vcluster))
            return
        self._seen[number] += 1
        if self._start(row, shape, vcluster):
            self._why[row] = _PLACED
        most = self._profiles[number].window
        if self._tried[number] >= most or self._seen[number] >= most * _SEEN_PER_TRIED:
            self._closed_vcluster[number] = True

    def _start(self, row: int, shape: Shape, vcluster: Vcluster) -> bool:
        """Starts the allocation of the row, or as many tasks as can be; True when nothing of the row is left."""
        place = int(self._snapshot.queue.vcluster[row])
        run = int(self._snapshot.queue.run[row])
        demand = self._room.demand(shape.request, vcluster)
        for number in self._numbers(row):
            if self._tried[place] >= self._profiles[place].window:
                return False
            refusal = self._headroom.refusal(shape)
            if refusal is not None:
                self._stop_at_limit(row, refusal)
                return False
            self._tried[place] += 1
            rows = self._choose(row, shape, demand)
            if rows is None:
                return False
            self._place(number, run, shape, demand, rows, is_backfill=self._depth[place] < self._first_depth[place])
        return True

    def _numbers(self, row: int) -> Iterator[int]:
        """The allocation of the row, or the pending tasks of its group, first positions first."""
        number = int(self._snapshot.queue.number[row])
        if not self._snapshot.queue.block[row]:
            yield number
            return
        for start, stop in self._snapshot.groups[number].startable:
            yield from range(number + 1 + start, number + 1 + stop)

    def _choose(self, row: int, shape: Shape, demand: Demand) -> Rows | None:
        """Nodes for one allocation; None, with the reason noted and the shape closed, when there are none."""
        most = self._headroom.most_nodes(shape, demand.most, is_whole=demand.is_whole)
        if most < demand.least:
            self._stop_at_limit(row, self._headroom.node_refusal(shape))
            return None
        rows = self._room.candidates(demand, shape)
        if len(rows) < demand.least:
            self._bounds.note_shortage(row, demand)
            self._stop_for_room(row, shape, demand)
            return None
        left = None if demand.is_whole else self._headroom.nodes_left(shape.tenant)
        if left is not None and left < most:
            rows = limit_new_nodes(self._room, demand, rows, shape.tenant, left)
            if len(rows) < demand.least:
                self._stop_at_limit(row, self._headroom.node_refusal(shape))
                return None
        if demand.request.require_conformance and most > 1:
            rows = alike_rows(self._room, rows, demand.least)
            if not len(rows):
                self._stop_for_room(row, shape, demand)
                return None
        rows = avoid_drifted(self._room, demand, rows)
        if demand.request.require_conformance:
            most = min(most, max(1, largest_alike(self._room, rows)))
        return self._within_sums(row, shape, demand, rows, min(most, len(rows)))

    def _within_sums(self, row: int, shape: Shape, demand: Demand, rows: Rows, want: int) -> Rows | None:
        """The nodes chosen, fewer where the sums of the whole machine leave no more; None when they leave too few."""
        chosen = choose_nodes(self._room, demand, rows, want)
        end = shape.end_if_started(self._now)
        shortage = self._room.shortage(demand, chosen, end)
        if shortage is not None and want > demand.least:
            chosen = choose_nodes(self._room, demand, rows, demand.least)
            shortage = self._room.shortage(demand, chosen, end)
        if shortage is None:
            return chosen
        self._reasons[int(self._snapshot.queue.shape[row])] = shortage
        self._stop_for_room(row, shape, demand)
        return None

    def _place(self, number: int, run: int, shape: Shape, demand: Demand, rows: Rows, *, is_backfill: bool) -> None:
        new_nodes = self._room.take(demand, rows, shape.end_if_started(self._now), shape.tenant)
        self._headroom.take(shape, nodes=len(rows), new_nodes=new_nodes)
        shares = _shares(self._snapshot, demand, rows)
        self._placements.append(
            Placement(number=number, run=run, shares=shares, vcluster=shape.vcluster, is_backfill=is_backfill)
        )

    def _stop_at_limit(self, row: int, reason: str) -> None:
        shape_number = int(self._snapshot.queue.shape[row])
        self._reasons[shape_number] = reason
        self._no_start[shape_number] = self._limited[shape_number] = True
        self._why[row] = _LIMIT

    def _stop_for_room(self, row: int, shape: Shape, demand: Demand) -> None:
        queue = self._snapshot.queue
        number = int(queue.vcluster[row])
        self._why[row] = _NO_ROOM
        self._no_start[int(queue.shape[row])] = True
        if self._lookouts[number] > 0:
            self._lookouts[number] -= 1
            before = self._snapshot.promised.get(int(queue.number[row]))
            found = earliest_start(self._room, demand, shape, before)
            if found is not None:
                self._reserve(row, shape, demand, found)
        if self._lookouts[number] <= 0:
            self._asking[number] = False
            if not self._room.has_any(self._snapshot.vclusters[shape.vcluster]):
                self._closed_vcluster[number] = True

    def _reserve(self, row: int, shape: Shape, demand: Demand, start: Start) -> None:
        """Keeps nodes for the row."""
        end = start.at + shape.walltime_s * 1000 if shape.walltime_s else NEVER
        ids = self._snapshot.nodes.ids
        number, place = int(self._snapshot.queue.number[row]), int(self._snapshot.queue.vcluster[row])
        self._room.keep(number, demand, start.rows, start.at, end)
        nodes = tuple(ids[node] for node in start.rows.tolist())
        self._reservations[number] = Reservation(number=number, start_at=start.at, nodes=nodes)
        self._depth[place] -= 1
        if self._depth[place] <= 0:
            self._lookouts[place] = 0

    def outcome(self) -> Plan:
        queue = self._snapshot.queue
        if self._limited.any():
            self._why[(self._why == _BEHIND) & self._limited[queue.shape]] = _LIMIT
        later = queue.eligible_at[self._why == _NOT_YET]
        return Plan(
            placements=tuple(self._placements),
            reservations=tuple(self._reservations[number] for number in sorted(self._reservations)),
            explanations=Explanations(
                snapshot=self._snapshot,
                room=self._room,
                why=self._why,
                scores=self._scores,
                order=self._order,
                reasons=self._reasons,
                reservations=self._reservations,
                placed=frozenset(placement.number for placement in self._placements),
                reaches=Reaches(self._snapshot, Victims(self._snapshot, self._room, self._now), (), self._now),
            ),
            considered=sum(self._seen),
            wake_at=int(later.min()) if len(later) else None,
        )


def _depth(profile: Profile, vcluster: Vcluster | None) -> int:
    if vcluster is None or profile.claims_only:
        return 0
    return vcluster.backfill_depth if profile.backfill_depth is None else profile.backfill_depth


def _standing(snapshot: Snapshot, vclusters: list[Vcluster | None], now: int) -> Ints:
    """For each queue row, why it cannot be considered at all; BEHIND when it can."""
    queue = snapshot.queue
    is_up = np.fromiter((v is not None and v.is_up for v in vclusters), np.bool_, len(vclusters))
    why: Ints = np.full(len(queue.number), _BEHIND, np.int64)
    longest = np.fromiter((v.max_walltime_s if v is not None else 0 for v in vclusters), np.int64, len(vclusters))
    most = np.fromiter((v.max_nodes if v is not None else 0 for v in vclusters), np.int64, len(vclusters))
    # A limit of 0 is none.
    if most.any():
        why[(queue.nodes > most[queue.vcluster]) & (most[queue.vcluster] > 0)] = _TOO_MANY
    if longest.any():
        why[(queue.walltime_s > longest[queue.vcluster]) & (longest[queue.vcluster] > 0)] = _TOO_LONG
    why[~is_up[queue.vcluster]] = _NO_VCLUSTER
    why[queue.eligible_at > now] = _NOT_YET
    why[queue.hold != 0] = _HELD
    return why


def _shares(snapshot: Snapshot, demand: Demand, rows: Rows) -> tuple[Share, ...]:
    ids = snapshot.nodes.ids
    if demand.is_whole:
        return tuple(Share(node=ids[row]) for row in rows.tolist())
    memory_mb = demand.memory_mb[snapshot.nodes.kind[rows]]
    return tuple(
        Share(node=ids[row], whole=False, cpus=demand.cpus, memory_mb=memory, gpus=demand.gpus)
        for row, memory in zip(rows.tolist(), memory_mb.tolist(), strict=True)
    )
