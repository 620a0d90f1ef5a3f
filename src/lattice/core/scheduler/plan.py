"""The plan: one pass over the queue that starts what fits, keeps nodes for the first that does not, and fills in around it.

Rows are taken in the order of the queue. A row that cannot start closes its shape: room and limits only shrink within a plan,
so no later row of the same shape could start either. What is never looked at costs nothing.
See docs/architecture/core.md, "The plan".
"""

from collections.abc import Iterator, Mapping

import numpy as np

from lattice.core.model.nodes import Share
from lattice.core.model.tenants import Vcluster
from lattice.core.scheduler.backfill import earliest_start
from lattice.core.scheduler.explain import Explanations, Why
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.headroom import Headroom
from lattice.core.scheduler.profiles import Profile, profile_of
from lattice.core.scheduler.proposals import Placement, Plan, Reservation
from lattice.core.scheduler.room import Room
from lattice.core.scheduler.snapshot import NEVER, Shape, Snapshot
from lattice.core.scheduler.solver import choose_nodes, limit_new_nodes
from lattice.core.scheduler.tables import Ints, Rows

_CHUNK = 256
_LOOKOUTS = 8  # so many blocked allocations of a vCluster may ask when they could start, until one gets an answer
_SEEN_PER_TRIED = 8  # rows stopped by a limit are cheap to look at, but not free


def plan(snapshot: Snapshot, profiles: Mapping[str, Profile], now: int) -> Plan:
    """What to start at `now` (milliseconds since 1970), and why the rest waits. Same input, same plan.

    `profiles` is by name of vCluster; one that is missing is ordered by the default.
    """
    return _Pass(snapshot, profiles, now).run()


class _Pass:
    """One pass over the queue: what was placed so far, and what is closed."""

    def __init__(self, snapshot: Snapshot, profiles: Mapping[str, Profile], now: int) -> None:
        self._snapshot = snapshot
        self._now = now
        self._room = Room(snapshot, now)
        self._headroom = Headroom(snapshot)
        self._vclusters = [snapshot.vclusters.get(name) for name in snapshot.vcluster_names]
        self._window = [profile_of(profiles, v).window if v else 0 for v in self._vclusters]
        self._tried = [0] * len(self._vclusters)
        self._seen = [0] * len(self._vclusters)
        self._lookouts = [_LOOKOUTS] * len(self._vclusters)
        self._closed_shape = np.zeros(len(snapshot.shapes), np.bool_)
        self._closed_vcluster = np.zeros(len(self._vclusters), np.bool_)
        self._why = _standing(snapshot, self._vclusters, now)
        self._limits: dict[int, str] = {}
        self._placements: list[Placement] = []
        self._reservations: dict[int, Reservation] = {}  # by vCluster

    def run(self) -> Plan:
        queue = self._snapshot.queue
        rest: Rows = np.flatnonzero(self._why == Why.BEHIND)
        while len(rest):
            closed = self._closed_shape[queue.shape[rest]] | self._closed_vcluster[queue.vcluster[rest]]
            rest = rest[~closed]
            for row in rest[:_CHUNK].tolist():
                self._consider(row)
            rest = rest[_CHUNK:]
        return self._outcome()

    def _consider(self, row: int) -> None:
        queue = self._snapshot.queue
        shape_number, number = int(queue.shape[row]), int(queue.vcluster[row])
        vcluster = self._vclusters[number]
        if self._closed_shape[shape_number] or self._closed_vcluster[number] or vcluster is None:
            return
        self._seen[number] += 1
        if self._start(row, self._snapshot.shape_of(row), vcluster):
            self._why[row] = Why.PLACED
        most = self._window[number]
        if self._tried[number] >= most or self._seen[number] >= most * _SEEN_PER_TRIED:
            self._closed_vcluster[number] = True

    def _start(self, row: int, shape: Shape, vcluster: Vcluster) -> bool:
        """Starts the allocation of the row, or as many tasks as can be; True when nothing of the row is left."""
        place = int(self._snapshot.queue.vcluster[row])
        run = int(self._snapshot.queue.run[row])
        demand = self._room.demand(shape.request, vcluster)
        for number in self._numbers(row):
            if self._tried[place] >= self._window[place]:
                return False
            refusal = self._headroom.refusal(shape)
            if refusal is not None:
                self._stop_at_limit(row, refusal)
                return False
            self._tried[place] += 1
            rows = self._choose(row, shape, demand)
            if rows is None:
                return False
            self._place(number, run, shape, demand, rows)
        return True

    def _numbers(self, row: int) -> Iterator[int]:
        """The allocation of the row, or the pending tasks of its group, first positions first."""
        number = int(self._snapshot.queue.number[row])
        if not self._snapshot.queue.block[row]:
            yield number
            return
        for start, stop in self._snapshot.groups[number].pending:
            yield from range(number + 1 + start, number + 1 + stop)

    def _choose(self, row: int, shape: Shape, demand: Demand) -> Rows | None:
        """Nodes for one allocation; None, with the reason noted and the shape closed, when there are none."""
        most = self._headroom.most_nodes(shape, demand.most, is_whole=demand.is_whole)
        if most < demand.least:
            self._stop_at_limit(row, self._headroom.node_refusal(shape))
            return None
        rows = self._room.candidates(demand, shape.end_if_started(self._now))
        if len(rows) < demand.least:
            self._stop_for_room(row, shape, demand)
            return None
        left = None if demand.is_whole else self._headroom.nodes_left(shape.tenant)
        if left is not None and left < most:
            rows = limit_new_nodes(self._room, demand, rows, shape.tenant, left)
            if len(rows) < demand.least:
                self._stop_at_limit(row, self._headroom.node_refusal(shape))
                return None
        return choose_nodes(self._room, demand, rows, min(most, len(rows)))

    def _place(self, number: int, run: int, shape: Shape, demand: Demand, rows: Rows) -> None:
        new_nodes = self._room.take(demand, rows, shape.end_if_started(self._now), shape.tenant)
        self._headroom.take(shape, nodes=len(rows), new_nodes=new_nodes)
        shares = _shares(self._snapshot, demand, rows)
        self._placements.append(Placement(number=number, run=run, shares=shares))

    def _stop_at_limit(self, row: int, reason: str) -> None:
        shape_number = int(self._snapshot.queue.shape[row])
        self._limits[shape_number] = reason
        self._closed_shape[shape_number] = True
        self._why[row] = Why.LIMIT

    def _stop_for_room(self, row: int, shape: Shape, demand: Demand) -> None:
        queue = self._snapshot.queue
        number = int(queue.vcluster[row])
        vcluster = self._snapshot.vclusters[shape.vcluster]
        self._why[row] = Why.NO_ROOM
        self._closed_shape[int(queue.shape[row])] = True
        if self._lookouts[number]:
            self._lookouts[number] -= 1
            self._reserve(row, shape, demand)
        if not self._lookouts[number] and not self._room.has_any(vcluster):
            self._closed_vcluster[number] = True

    def _reserve(self, row: int, shape: Shape, demand: Demand) -> None:
        """Keeps nodes for the row, if it is known when there will be enough; else the next that is blocked may ask."""
        found = earliest_start(self._room, demand)
        if found is None:
            return
        start, rows = found
        end = start + shape.walltime_s * 1000 if shape.walltime_s else NEVER
        self._room.keep(rows, start, end)
        queue, ids = self._snapshot.queue, self._snapshot.nodes.ids
        vcluster = int(queue.vcluster[row])
        self._lookouts[vcluster] = 0
        self._reservations[vcluster] = Reservation(
            number=int(queue.number[row]), start_at=start, nodes=tuple(ids[node] for node in rows.tolist())
        )

    def _outcome(self) -> Plan:
        queue = self._snapshot.queue
        limited = np.zeros(len(self._snapshot.shapes), np.bool_)
        limited[list(self._limits)] = True
        self._why[(self._why == Why.BEHIND) & limited[queue.shape]] = Why.LIMIT
        reservations = tuple(sorted(self._reservations.values(), key=lambda kept: kept.number))
        later = queue.eligible_at[self._why == Why.NOT_YET]
        return Plan(
            placements=tuple(self._placements),
            reservations=reservations,
            explanations=Explanations(
                snapshot=self._snapshot,
                room=self._room,
                why=self._why,
                limits=self._limits,
                reservations={kept.number: kept for kept in reservations},
                placed=frozenset(placement.number for placement in self._placements),
            ),
            considered=sum(self._seen),
            wake_at=int(later.min()) if len(later) else None,
        )


def _standing(snapshot: Snapshot, vclusters: list[Vcluster | None], now: int) -> Ints:
    """For each queue row, why it cannot be considered at all; BEHIND when it can."""
    queue = snapshot.queue
    is_up = np.fromiter((v is not None and v.is_up for v in vclusters), np.bool_, len(vclusters))
    why: Ints = np.full(len(queue.number), int(Why.BEHIND), np.int64)
    why[~is_up[queue.vcluster]] = Why.NO_VCLUSTER
    why[queue.eligible_at > now] = Why.NOT_YET
    why[queue.hold != 0] = Why.HELD
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
