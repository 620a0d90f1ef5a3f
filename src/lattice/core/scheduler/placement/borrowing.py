"""Nodes for work that finds too few of its own: the open ones of its vCluster, and the fewest foreign ones that make up the rest.

Finds, and enters nothing: a pass that starts work on what was found calls `Loans.lend`. See docs/architecture/lending.md.
"""

import numpy as np

from lattice.core.model.capacity.lending import lending_of
from lattice.core.model.site.tenants import Vcluster
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.placement.headroom import Headroom
from lattice.core.scheduler.placement.loans import Loans
from lattice.core.scheduler.placement.solver import alike_rows, choose_nodes
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.tables.slots import Bools, Rows
from lattice.core.scheduler.tables.snapshot import Shape, Snapshot


class Borrowing:
    """Answers from the room, the headroom and the loans as they are when it is asked; keeps nothing of its own."""

    def __init__(self, snapshot: Snapshot, room: Room, headroom: Headroom, loans: Loans, now: int) -> None:
        self._snapshot = snapshot
        self._room = room
        self._headroom = headroom
        self._loans = loans
        self._now = now

    def in_turn(self, order: Rows, is_waiting: Bools) -> list[tuple[int, Vcluster]]:
        """Those rows of the order that wait in a vCluster that borrows: its priority first, then the order."""
        queue = self._snapshot.queue
        places = {self._snapshot.vcluster_names.index(each.name): each for each in self._loans.borrowers}
        rows = order[is_waiting & np.isin(queue.vcluster[order], list(places))]
        found = [(row, places[int(queue.vcluster[row])]) for row in rows.tolist()]
        return sorted(found, key=lambda each: -lending_of(each[1]).borrow_priority)

    def would_do(self, row: int, shape: Shape, demand: Demand) -> bool:
        """Whether idle nodes of others would do, as things are: they are preferred to work that runs."""
        vcluster = self._snapshot.vclusters[shape.vcluster]
        may = self._loans.may_borrow(vcluster, shape, int(self._snapshot.queue.preemption_class[row]))
        return may and vcluster in self._loans.borrowers and self.nodes_for(vcluster, row, shape, demand) is not None

    def nodes_for(self, vcluster: Vcluster, row: int, shape: Shape, demand: Demand) -> Rows | None:
        """For the row of the queue: its own open nodes and the fewest foreign ones that make up what it needs; None when they do not suffice."""
        if self._headroom.refusal(shape) is not None:
            return None
        if self._headroom.most_nodes(shape, demand.most, is_whole=demand.is_whole) < demand.least:
            return None
        own = self._room.candidates(demand, shape)[: demand.least]
        foreign = self._loans.rows(vcluster, demand, shape, own)
        if not len(foreign):
            return None
        if demand.request.require_conformance and demand.least > 1:
            own, foreign = own[:0], alike_rows(self._room, foreign, demand.least)
            if not len(foreign):
                return None
        lent = choose_nodes(self._room, demand, foreign, demand.least - len(own), row)
        rows: Rows = np.sort(np.concatenate([own, lent]))
        if self._room.shortage(demand, rows, shape.end_if_started(self._now)) is not None:
            return None
        left = None if demand.is_whole else self._headroom.nodes_left(shape.tenant)
        if left is not None and int(np.count_nonzero(~self._room.present(shape.tenant)[rows])) > left:
            return None
        return rows
