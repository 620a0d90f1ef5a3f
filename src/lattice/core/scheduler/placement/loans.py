"""Nodes of other vClusters: which may be borrowed now, how many are, and which of a vCluster's own are lent.

Borrowing comes last in a plan, when all work had its chance on its own nodes, so whatever is free then is idle.
See docs/architecture/lending.md.
"""

from dataclasses import replace

import numpy as np

from lattice.core.model.capacity.lending import borrows, lending_of, lends_to
from lattice.core.model.site.tenants import SENSITIVE, Lends, Vcluster
from lattice.core.model.work.evictions import FIRST_UNPREEMPTED_CLASS
from lattice.core.scheduler.feasibility import Demand, suitable_nodes
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.tables.slots import Bools, Ints, Rows
from lattice.core.scheduler.tables.snapshot import Shape, Snapshot

_UNUSED = -1


class Loans:
    """What is lent at the moment of a plan. `lend` counts what the plan adds; nothing is taken back within it."""

    def __init__(self, snapshot: Snapshot, room: Room, now: int) -> None:
        self._snapshot = snapshot
        self._room = room
        self._now = now
        vclusters = snapshot.vclusters.values()
        # Fixed for the plan: who has nodes of its own, who of them lends, and who may ask.
        self._homes = [each for each in vclusters if each.nodes]
        self._lenders = [each for each in self._homes if lending_of(each).lends is Lends.IDLE]
        # One that never had any work has no number, and nothing to borrow for.
        known = frozenset(snapshot.vcluster_names) if self._lenders else frozenset()
        self.borrowers = [each for each in vclusters if each.name in known and borrows(each)]
        # Whom each node works for, as a number of a vCluster; only where something can be lent.
        self._user: Ints = np.full(len(snapshot.nodes.ids), _UNUSED, np.int64)
        if self._lenders:
            self._user[snapshot.held["node"]] = snapshot.held["vcluster"]
        self._lent: dict[str, Bools | None] = dict.fromkeys(each.name for each in self._lenders)
        if self._lenders:
            self._count_lent()
        self._borrowable: dict[str, Bools] = {}  # remembered

    def lent_of(self, home: str) -> Bools | None:
        """The nodes of this vCluster that work for others which do not list them; None when it lends none."""
        return self._lent.get(home)

    def _count_lent(self) -> None:
        abroad = self._abroad()
        for home in self._lenders:
            lent: Bools = abroad & self._members(home.name)
            self._lent[home.name] = lent if lent.any() else None

    def _abroad(self) -> Bools:
        """Nodes that work for a vCluster which does not list them, though it lists some."""
        abroad: Bools = np.zeros(len(self._user), np.bool_)
        for number, name in enumerate(self._snapshot.vcluster_names):
            members = self._snapshot.members.get(name)
            if members is not None:
                abroad |= (self._user == number) & ~members
        return abroad

    def _members(self, name: str) -> Bools:
        members = self._snapshot.members.get(name)
        return members if members is not None else np.zeros(len(self._user), np.bool_)

    def may_borrow(self, vcluster: Vcluster, shape: Shape, klass: int) -> bool:
        """Only work that can be taken off the nodes again, that ends, and soon enough where the vCluster says so."""
        longest_s = lending_of(vcluster).max_borrow_s
        return klass < FIRST_UNPREEMPTED_CLASS and 0 < shape.walltime_s <= (longest_s or shape.walltime_s)

    def rows(self, vcluster: Vcluster, demand: Demand, shape: Shape, own: Rows) -> Rows:
        """The foreign nodes that are open for the demand, as many as may be lent; empty when they are too few beside its `own`."""
        none: Rows = np.zeros(0, np.intp)
        need = demand.least - len(own)
        suits = suitable_nodes(self._snapshot, demand.request, vcluster, everywhere=True)
        usable = suits & self._room.usable_by(vcluster.name) & self.borrowable(vcluster)
        found = self._within_limits(vcluster, self._room.candidates(replace(demand, usable=usable), shape), need)
        return found if len(found) >= need > 0 else none

    def borrowable(self, vcluster: Vcluster) -> Bools:
        """Nodes that somebody lists, that all who list them lend to this vCluster, and that were idle for long enough."""
        if vcluster.name in self._borrowable:
            return self._borrowable[vcluster.name]
        may: Bools = np.zeros(len(self._user), np.bool_)
        wait: Ints = np.zeros(len(self._user), np.int64)
        for home in self._lenders:
            if lends_to(home, vcluster.name):
                members = self._members(home.name)
                may |= members
                wait[members] = np.maximum(wait[members], lending_of(home).lend_after_s * 1000)
        for home in self._homes:
            if not lends_to(home, vcluster.name) or home.scheduler == SENSITIVE:
                may &= ~self._members(home.name)
        if wait.any():
            ids, since = self._snapshot.nodes.ids, self._snapshot.idle_since
            idle = np.array([self._now - since.get(node, self._now) for node in ids], np.int64)
            may &= idle >= wait
        self._borrowable[vcluster.name] = may
        return may

    def _within_limits(self, vcluster: Vcluster, rows: Rows, need: int) -> Rows:
        most = lending_of(vcluster).max_borrowed
        if most:
            number = self._snapshot.vcluster_names.index(vcluster.name)
            has = int(np.count_nonzero((self._user == number) & ~self._members(vcluster.name)))
            if has + need > most:
                return rows[:0]
        for home in self._lenders:
            most = lending_of(home).max_lent
            if most:
                lent = self._lent[home.name]
                left = max(0, most - (int(lent.sum()) if lent is not None else 0))
                inside = self._members(home.name)[rows]
                rows = np.sort(np.concatenate([rows[~inside], rows[inside][:left]]))
        return rows

    def lend(self, vcluster: Vcluster, rows: Rows) -> None:
        """These work for the vCluster from now on."""
        self._user[rows] = self._snapshot.vcluster_names.index(vcluster.name)
        self._count_lent()
