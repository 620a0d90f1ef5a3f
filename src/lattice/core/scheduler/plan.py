"""The plan: one pass over the queue that starts what fits, keeps nodes for the highest that do not, and fills in around them.

Theory. A plan is a greedy pass. Rows are taken in the order of their score, those with a promise before them, and each is decided
once: it starts, or it stops at a limit, or it finds no room. What makes one pass enough is that the room and the limits only
shrink while it runs. So a row that cannot start closes its shape (no later row of the same shape could start either), a bound that
held once holds to the end, and whatever is never looked at costs nothing. A row without room may ask when it could start; the
nodes that it will get then are kept for it, as many rows as the vCluster's depth says, and work behind it may use them only until
then: that is backfilling, and it is why no work is delayed by work of a lower rank.

A reservation of the last plan is a promise. Promised rows are decided again first, because they may start earlier now. If one of
them came out later, the pass goes back to where it began (room, limits, bounds and decisions, see `_Mark`) and enters every
promise exactly where it was. That is the only place where anything grows again, and nothing of what was learned survives it.

A row that would start too late may take running work of a lower class (`Victims`): it is tried in the room and rolled back, and
what it will get is kept from now on. Decisions of earlier plans (`Snapshot.evictions`) are entered before anything else.

The drawing of the pass is in docs/architecture/scheduler.md, "The pass".
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lattice.core.model.capacity.lending import lending_of
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.model.work.evictions import Eviction, EvictionReason
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.placement.backfill import Start, earliest_start
from lattice.core.scheduler.placement.borrowing import Borrowing
from lattice.core.scheduler.placement.bounds import Bounds
from lattice.core.scheduler.placement.explain import Explanations, Why
from lattice.core.scheduler.placement.headroom import Headroom
from lattice.core.scheduler.placement.loans import Loans
from lattice.core.scheduler.placement.progress import BEHIND, NOT_YET, Progress
from lattice.core.scheduler.placement.promises import could_start, entered_as, opens_now, promised_first
from lattice.core.scheduler.placement.reach import Reaches
from lattice.core.scheduler.placement.solver import (
    alike_rows,
    avoid_drifted,
    choose_nodes,
    largest_alike,
    least_nodes,
    limit_new_nodes,
    shares_on,
)
from lattice.core.scheduler.placement.victims import Choice, Fits, Victims
from lattice.core.scheduler.proposals import Placement, Plan, Reservation, Taking
from lattice.core.scheduler.room.journal import Undo
from lattice.core.scheduler.room.room import Mark, Room
from lattice.core.scheduler.score.profiles import Profile
from lattice.core.scheduler.score.score import Scores, score
from lattice.core.scheduler.tables.slots import Bools, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, Shape, Snapshot

# Plain numbers: NumPy looks long at a member of an enumeration.
_PLACED, _NO_ROOM, _LIMIT = int(Why.PLACED), int(Why.NO_ROOM), int(Why.LIMIT)
_CHUNK = 64
_REFUSED = 8  # number of refusals after which the bounds are recomputed
_SEEN_PER_TRIED = 8  # rows stopped by a limit are cheap to look at, but not free
_RECLAIM = -1  # in place of a class: not found in what was lent
_BORROWERS = 64  # shapes that find nothing to borrow, after which a plan stops asking
_SEARCHES = 32  # searches for victims in one plan; the next plan continues


def plan(snapshot: Snapshot, profiles: Mapping[str, Profile], now: int) -> Plan:
    """What to start at `now` (milliseconds since 1970), and why the rest waits. Same input, same plan.

    `profiles` is by name of vCluster; one that is missing follows from the vCluster's own record.
    """
    return arrange(snapshot, score(snapshot, profiles, now), now)


def arrange(snapshot: Snapshot, scores: Scores, now: int) -> Plan:
    """The second half of `plan`, for callers that measure how long scoring takes."""
    passed = _Pass(snapshot, scores, now)
    passed.run()
    return passed.outcome()


class _Mark(NamedTuple):
    """Where a pass was, to go back to."""

    room: Mark
    headroom: Undo
    bounds: Undo
    victims: Undo
    progress: Progress


class _Pass:
    """One pass over the queue. What it decided so far is in `_progress`; the room, the headroom and the bounds follow from that."""

    def __init__(self, snapshot: Snapshot, scores: Scores, now: int) -> None:
        # Fixed for the whole pass.
        self._snapshot = snapshot
        self._scores = scores
        self._now = now
        self._vclusters = [
            snapshot.vclusters.get(name) for name in snapshot.vcluster_names
        ]  # by number; None = deleted
        self._profiles = scores.profiles  # by number of the vCluster
        # Changed by `_place` (both), `_reserve` and `_keep_to_the_letter` (the room alone), and put back by `_rollback`.
        self._room = Room(snapshot, now)
        self._headroom = Headroom(snapshot)
        self._progress = Progress.at_start(snapshot, self._profiles, self._vclusters, now)
        self._depth = tuple(self._progress.depth)  # reservations that each vCluster may give, before the first
        # The rows that may be considered, most wanted first; `run` moves those with a promise ahead, once.
        order = scores.order()
        self._order: Rows = order[self._progress.why[order] == BEHIND]
        # Learns from `_choose`; true as long as the room only shrinks, so it goes back whenever the room does.
        sharing = [v is not None and v.node_sharing is NodeSharing.SHARED for v in self._vclusters]
        self._bounds = Bounds(self._room, snapshot.queue, np.array(sharing, np.bool_))
        # Who may be taken, and how often that may still be asked.
        self._victims = Victims(snapshot, self._room, now)
        self._searches = (
            _SEARCHES  # only falls, and stays where it is when the rest is rolled back: it bounds work, not decisions
        )
        # What is lent, changed by `_borrow` alone, which comes last and is never rolled back; and the questions about it.
        self._loans = Loans(snapshot, self._room, now)
        self._borrowing = Borrowing(snapshot, self._room, self._headroom, self._loans, now)

    def run(self) -> None:
        """Goes through the queue: first those that nodes are kept for, then promised rows."""
        for eviction in self._snapshot.evictions:
            self._enter_eviction(eviction)
        keeping = np.array([profile.keeps_promises for profile in self._profiles], np.bool_)
        self._order, safe = promised_first(self._snapshot, self._order, keeping)
        if safe:
            self._keep_promises(safe)
        rest: Rows = self._order[len(safe) :]
        while len(rest):
            rest = self._worth_trying(rest)
            rest = rest[self._try(rest[:_CHUNK].tolist()) :]
        if self._loans.borrowers:
            self._borrow()

    def _mark(self) -> _Mark:
        return _Mark(
            self._room.mark(), self._headroom.mark(), self._bounds.mark(), self._victims.mark(), self._progress.copy()
        )

    def _rollback(self, mark: _Mark) -> None:
        self._room.rollback(mark.room)
        mark.headroom()
        mark.bounds()
        mark.victims()
        self._progress = mark.progress

    def _try(self, rows: list[int]) -> int:
        """Considers rows until those that cannot start show that the bounds should be recomputed; returns how many."""
        refused, was_asking = 0, self._progress.asking.any()
        for count, row in enumerate(rows, 1):
            before = len(self._progress.placements)
            self._consider(row)
            refused += self._progress.why[row] != _PLACED
            is_stale = refused > _REFUSED or (refused and (before or was_asking))
            if is_stale and not self._progress.asking.any():
                return count
        return len(rows)

    def _worth_trying(self, rows: Rows) -> Rows:
        """The rows that may start or, in vClusters that still give reservations, may get one."""
        queue = self._snapshot.queue
        shape, vcluster = queue.shape[rows], queue.vcluster[rows]
        asking = self._progress.asking[vcluster] | self._may_take(rows)
        idle = self._progress.no_start[shape] & (self._progress.limited[shape] | ~asking)
        rows = rows[~(idle | self._progress.closed_vcluster[vcluster])]
        if not len(rows) or asking.all():
            return rows
        asking = self._progress.asking[queue.vcluster[rows]] | self._may_take(rows)
        return rows[asking | self._bounds.possible(rows)]

    # evictions

    def _may_take(self, rows: Rows) -> Bools:
        """Rows of a class above that of some work that may be taken, while it may still be asked for."""
        if not self._searches:
            return np.zeros(len(rows), np.bool_)
        queue = self._snapshot.queue
        may: Bools = queue.preemption_class[rows] > self._victims.lowest
        if self._loans.borrowers:
            lent = [self._loans.lent_of(name) is not None for name in self._snapshot.vcluster_names]
            may |= np.array(lent, np.bool_)[queue.vcluster[rows]]
        return may

    def _enter_eviction(self, eviction: Eviction) -> None:
        """Starts the row on the very nodes that were freed for it, or keeps them further. Nothing else gets them."""
        queue, nodes = self._snapshot.queue, self._snapshot.nodes
        found = np.flatnonzero(queue.number == eviction.number)
        if not len(found):
            return
        row = int(found[0])
        shape = self._snapshot.shape_of(row)
        demand = self._room.demand(shape.request, self._snapshot.vclusters[shape.vcluster])
        rows: Rows = np.sort(np.array([nodes.rows[share.node] for share in eviction.shares], np.intp))
        is_free = np.isin(rows, self._room.candidates(demand, shape)).all()
        refusal = self._headroom.refusal(shape)
        if is_free and refusal is None and self._progress.why[row] == BEHIND:
            self._place(eviction.number, int(queue.run[row]), shape, demand, rows, is_backfill=False)
            self._progress.why[row] = _PLACED
        else:
            due = max((victim.due_at for victim in eviction.victims), default=0)
            self._keep_from_now(row, shape, demand, rows, max(self._now, due))
        self._order = self._order[self._order != row]
        self._progress.seen[int(queue.vcluster[row])] += 1
        if refusal is not None:
            self._stop_at_limit(row, refusal)

    def _keep_from_now(self, row: int, shape: Shape, demand: Demand, rows: Rows, due: int) -> None:
        """Keeps nodes that are being freed for the row: they are lost to others from now on, not from when it starts.

        `due` = when the last of those that leave is stopped.
        """
        start = self._room.freed_at(rows, due)
        end = start + shape.walltime_s * 1000 if shape.walltime_s else NEVER
        number = int(self._snapshot.queue.number[row])
        if self._progress.why[row] == BEHIND:
            self._progress.why[row] = _NO_ROOM
        self._room.keep(number, demand, rows, self._now, end)
        self._headroom.take(shape, nodes=len(rows), new_nodes=len(rows))
        nodes = tuple(self._snapshot.nodes.ids[node] for node in rows.tolist())
        self._progress.reservations[number] = Reservation(number=number, start_at=start, nodes=nodes)

    def _take_victims(self, row: int, shape: Shape, demand: Demand, predicted: int | None) -> bool:
        """Takes running work for a row that would start too late; False when it need not or cannot."""
        queue, limits = self._snapshot.queue, self._snapshot.limits
        if self._reclaim(row, shape, demand, predicted):
            return True
        klass = int(queue.preemption_class[row])
        key = (int(queue.shape[row]), klass)
        if klass <= self._victims.lowest or not self._searches or key in self._progress.victimless:
            return False
        if predicted is not None and predicted <= self._now + limits.patience_s * 1000:
            return False
        self._searches -= 1
        if self._borrowing.would_do(row, shape, demand):
            return False
        choice = self._victims.search(demand, shape, klass, self._fits(shape, demand))
        if choice is None:
            self._progress.victimless.add(key)
            return False
        if predicted is not None and predicted < self._room.freed_at(choice.rows, self._now):
            return False
        self._enter_choice(row, shape, demand, choice, EvictionReason.PRIORITY)
        return True

    def _has_lent(self, row: int) -> bool:
        """Whether nodes of the row's vCluster work for others, and may be asked back for it."""
        queue = self._snapshot.queue
        if self._loans.lent_of(self._snapshot.vcluster_names[int(queue.vcluster[row])]) is None:
            return False
        return self._searches > 0 and (int(queue.shape[row]), _RECLAIM) not in self._progress.victimless

    def _reclaim(self, row: int, shape: Shape, demand: Demand, predicted: int | None) -> bool:
        """Asks nodes back that its vCluster has lent, just enough, for a row that would otherwise wait longer than that takes."""
        lent = self._loans.lent_of(shape.vcluster)
        if lent is None or not self._has_lent(row):
            return False
        key = (int(self._snapshot.queue.shape[row]), _RECLAIM)
        due = self._now + lending_of(self._snapshot.vclusters[shape.vcluster]).return_grace_s * 1000
        if predicted is not None and predicted <= due:
            return False
        self._searches -= 1
        choice = self._victims.reclaim(demand, shape, lent, self._fits(shape, demand))
        if choice is None:
            self._progress.victimless.add(key)
            return False
        self._enter_choice(row, shape, demand, choice, EvictionReason.RECLAIM, due)
        return True

    def _enter_choice(
        self, row: int, shape: Shape, demand: Demand, choice: Choice, reason: EvictionReason, due: int = 0
    ) -> None:
        placed = {placement.number for placement in self._progress.placements}
        number = next(number for number in self._snapshot.startable(row) if number not in placed)
        self._victims.take(choice)
        self._keep_from_now(row, shape, demand, choice.rows, max(self._now, due))
        shares = shares_on(self._snapshot, demand, choice.rows)
        run = int(self._snapshot.queue.run[row])
        self._progress.takings.append(
            Taking(number=number, run=run, victims=choice.victims, shares=shares, reason=reason)
        )

    def _fits(self, shape: Shape, demand: Demand) -> Fits:
        return lambda: least_nodes(self._room, self._headroom, shape, demand)

    # borrowing

    def _borrow(self) -> None:
        """Starts work on idle nodes of other vClusters, when all work had its chance on its own ones."""
        queue = self._snapshot.queue
        waiting: Bools = np.isin(self._progress.why[self._order], (_NO_ROOM, BEHIND))
        waiting &= ~self._progress.limited[queue.shape[self._order]]
        shut: set[int] = set()
        for row, vcluster in self._borrowing.in_turn(self._order, waiting):
            if len(shut) >= _BORROWERS:
                return
            if int(queue.shape[row]) not in shut and not self._borrow_for(row, vcluster):
                shut.add(int(queue.shape[row]))

    def _borrow_for(self, row: int, vcluster: Vcluster) -> bool:
        """Starts the row, or tasks of it, on its own nodes and as few foreign ones as it takes; False when something is left."""
        queue, shape = self._snapshot.queue, self._snapshot.shape_of(row)
        number = int(queue.number[row])
        own = range(number, number + int(queue.block[row]) + 1)
        if any(taking.number in own for taking in self._progress.takings) or not self._loans.may_borrow(
            vcluster, shape, int(queue.preemption_class[row])
        ):
            return False
        demand = self._room.demand(shape.request, vcluster)
        placed = {placement.number for placement in self._progress.placements}
        for each in self._snapshot.startable(row):
            if each in placed:
                continue
            rows = self._borrowing.nodes_for(vcluster, row, shape, demand)
            if rows is None:
                return False
            if number in self._progress.reservations:
                self._room.release(number)
                del self._progress.reservations[number]
            self._loans.lend(vcluster, rows)
            self._place(each, int(queue.run[row]), shape, demand, rows, is_backfill=True)
        self._progress.why[row] = _PLACED
        return True

    # promises

    def _keep_promises(self, rows: list[int]) -> None:
        """Starts or reserves for each row again; where one would come later than promised, all are kept to the letter instead."""
        mark = self._mark()
        if self._all_in_time(rows):
            self._room.commit(mark.room)
        else:
            self._rollback(mark)
            self._keep_to_the_letter(rows)

    def _all_in_time(self, rows: list[int]) -> bool:
        """Starts or reserves for each row again; False, in the middle of it, when one would start later than promised."""
        queue, promised = self._snapshot.queue, self._snapshot.promised
        for row in rows:
            self._consider(row)
            number = int(queue.number[row])
            kept = self._progress.reservations.get(number)
            starts_at = NEVER if kept is None else kept.start_at
            if starts_at > max(promised[number].start_at, self._now) and self._progress.why[row] == _NO_ROOM:
                return False
        return True

    def _keep_to_the_letter(self, rows: list[int]) -> None:
        """Enters each promise where it was, then starts what can start immediately without affecting the others."""
        queue, promised = self._snapshot.queue, self._snapshot.promised
        entered = [self._enter(row, promised[int(queue.number[row])]) for row in rows]
        shut: set[int] = set()  # shapes that cannot start anywhere now; nothing but a start changes that
        for row, is_entered in zip(rows, entered, strict=True):
            number, shape = int(queue.number[row]), self._snapshot.shape_of(row)
            if is_entered and self._takes_instead(row, shape, promised[number]):
                continue
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
                self._start_early(row, number)
            else:
                self._consider(row)

    def _start_early(self, row: int, number: int) -> None:
        """Considers a row without its promise. It stands if takings would move it: nodes may be free, but not their power."""
        mark, place = self._mark(), int(self._snapshot.queue.vcluster[row])
        self._room.release(number)
        entered = self._progress.reservations.pop(number)
        self._progress.depth[place] += 1
        self._progress.lookouts[place] += 1
        self._consider(row)
        kept = self._progress.reservations.get(number)
        is_late = self._progress.why[row] == _NO_ROOM and (kept is None or kept.start_at > entered.start_at)
        if mark.progress.takings and is_late and self._progress.placements == mark.progress.placements:
            self._rollback(mark)
        else:
            self._room.commit(mark.room)

    def _takes_instead(self, row: int, shape: Shape, kept: Reservation) -> bool:
        """Whether running work is taken for a row whose promise is entered already."""
        is_low = int(self._snapshot.queue.preemption_class[row]) <= self._victims.lowest
        if not self._searches or (is_low and not self._has_lent(row)):
            return False
        demand = self._room.demand(shape.request, self._snapshot.vclusters[shape.vcluster])
        mark = self._room.mark()
        self._room.release(kept.number)
        if self._take_victims(row, shape, demand, kept.start_at):
            self._room.commit(mark)
            return True
        self._room.rollback(mark)
        return False

    def _enter(self, row: int, kept: Reservation) -> bool:
        """Enters a promise where it was; False when it is due now, or cannot be kept."""
        shape = self._snapshot.shape_of(row)
        demand = self._room.demand(shape.request, self._snapshot.vclusters[shape.vcluster])
        if self._headroom.refusal(shape) is not None:
            return False
        start = entered_as(self._room, demand, shape, kept)
        if start is None:
            return False
        self._progress.why[row] = _NO_ROOM
        self._reserve(row, shape, demand, start)
        return True

    # one row

    def _consider(self, row: int) -> None:
        queue = self._snapshot.queue
        shape_number, number = int(queue.shape[row]), int(queue.vcluster[row])
        vcluster = self._vclusters[number]
        if self._progress.closed_vcluster[number] or vcluster is None or self._progress.limited[shape_number]:
            return
        shape = self._snapshot.shape_of(row)
        if self._progress.no_start[shape_number]:
            self._stop_for_room(row, shape, self._room.demand(shape.request, vcluster))
            return
        self._progress.seen[number] += 1
        if self._start(row, shape, vcluster):
            self._progress.why[row] = _PLACED
        most = self._profiles[number].window
        if self._progress.tried[number] >= most or self._progress.seen[number] >= most * _SEEN_PER_TRIED:
            self._progress.closed_vcluster[number] = True

    def _start(self, row: int, shape: Shape, vcluster: Vcluster) -> bool:
        """Starts the allocation of the row, or as many tasks as can be; True when nothing of the row is left."""
        place = int(self._snapshot.queue.vcluster[row])
        run = int(self._snapshot.queue.run[row])
        demand = self._room.demand(shape.request, vcluster)
        for number in self._snapshot.startable(row):
            if self._progress.tried[place] >= self._profiles[place].window:
                return False
            refusal = self._headroom.refusal(shape)
            if refusal is not None:
                self._stop_at_limit(row, refusal)
                return False
            self._progress.tried[place] += 1
            rows = self._choose(row, shape, demand)
            if rows is None:
                return False
            self._place(number, run, shape, demand, rows, is_backfill=self._progress.depth[place] < self._depth[place])
        return True

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
            rows = limit_new_nodes(self._room, demand, rows, shape.tenant, left, row)
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
        chosen = choose_nodes(self._room, demand, rows, want, row)
        end = shape.end_if_started(self._now)
        shortage = self._room.shortage(demand, chosen, end)
        if shortage is not None and want > demand.least:
            chosen = choose_nodes(self._room, demand, rows, demand.least, row)
            shortage = self._room.shortage(demand, chosen, end)
        if shortage is None:
            return chosen
        self._progress.reasons[int(self._snapshot.queue.shape[row])] = shortage
        self._stop_for_room(row, shape, demand)
        return None

    def _place(self, number: int, run: int, shape: Shape, demand: Demand, rows: Rows, *, is_backfill: bool) -> None:
        new_nodes = self._room.take(demand, rows, shape.end_if_started(self._now), shape.tenant)
        self._headroom.take(shape, nodes=len(rows), new_nodes=new_nodes)
        shares = shares_on(self._snapshot, demand, rows)
        self._progress.placements.append(
            Placement(number=number, run=run, shares=shares, vcluster=shape.vcluster, is_backfill=is_backfill)
        )

    def _stop_at_limit(self, row: int, reason: str) -> None:
        shape_number = int(self._snapshot.queue.shape[row])
        self._progress.reasons[shape_number] = reason
        self._progress.no_start[shape_number] = self._progress.limited[shape_number] = True
        self._progress.why[row] = _LIMIT

    def _stop_for_room(self, row: int, shape: Shape, demand: Demand) -> None:
        queue = self._snapshot.queue
        number = int(queue.vcluster[row])
        self._progress.why[row] = _NO_ROOM
        self._progress.no_start[int(queue.shape[row])] = True
        may_take = int(queue.preemption_class[row]) > self._victims.lowest and self._searches > 0
        may_take = may_take or self._has_lent(row)
        if self._progress.lookouts[number] > 0 or may_take:
            before = self._snapshot.promised.get(int(queue.number[row]))
            found = earliest_start(self._room, demand, shape, before)
            if self._take_victims(row, shape, demand, None if found is None else found.at):
                return
        if self._progress.lookouts[number] > 0:
            self._progress.lookouts[number] -= 1
            if found is not None:
                self._reserve(row, shape, demand, found)
        if self._progress.lookouts[number] <= 0:
            self._progress.asking[number] = False
            if not self._room.has_any(self._snapshot.vclusters[shape.vcluster]):
                self._progress.closed_vcluster[number] = True

    def _reserve(self, row: int, shape: Shape, demand: Demand, start: Start) -> None:
        """Keeps nodes for the row."""
        end = start.at + shape.walltime_s * 1000 if shape.walltime_s else NEVER
        ids = self._snapshot.nodes.ids
        number, place = int(self._snapshot.queue.number[row]), int(self._snapshot.queue.vcluster[row])
        self._room.keep(number, demand, start.rows, start.at, end)
        nodes = tuple(ids[node] for node in start.rows.tolist())
        self._progress.reservations[number] = Reservation(number=number, start_at=start.at, nodes=nodes)
        self._progress.depth[place] -= 1
        if self._progress.depth[place] <= 0:
            self._progress.lookouts[place] = 0

    def outcome(self) -> Plan:
        queue = self._snapshot.queue
        if self._progress.limited.any():
            self._progress.why[(self._progress.why == BEHIND) & self._progress.limited[queue.shape]] = _LIMIT
        later = queue.eligible_at[self._progress.why == NOT_YET]
        return Plan(
            placements=tuple(self._progress.placements),
            reservations=tuple(self._progress.reservations[number] for number in sorted(self._progress.reservations)),
            explanations=Explanations(
                snapshot=self._snapshot,
                room=self._room,
                why=self._progress.why,
                scores=self._scores,
                order=self._order,
                reasons=self._progress.reasons,
                reservations=self._progress.reservations,
                placed=frozenset(placement.number for placement in self._progress.placements),
                reaches=Reaches(self._snapshot, self._victims, self._progress.takings, self._now),
            ),
            considered=sum(self._progress.seen),
            wake_at=int(later.min()) if len(later) else None,
            takings=tuple(self._progress.takings),
            is_full=not any(map(self._room.has_any, self._snapshot.vclusters.values())),
        )
