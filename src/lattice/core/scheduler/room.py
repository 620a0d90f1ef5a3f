"""What is left of the machine while a plan is made: free nodes and shares, and nodes kept for a reservation.

A node kept from `bar` on may be given only to work that has ended by then.
"""

from dataclasses import dataclass

import numpy as np

from lattice.core.model.allocations import Request
from lattice.core.model.tenants import NodeSharing, Vcluster
from lattice.core.scheduler.feasibility import Demand, demand_of, usable_nodes
from lattice.core.scheduler.snapshot import NEVER, NO_VCLUSTER, Snapshot
from lattice.core.scheduler.tables import Bools, Ints, Rows

OVERDUE_MS = 1_000  # work past its end is expected to be gone after so long


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """Shares in use, one per entry: on which node row, until when, how much."""

    node: Rows
    end: Ints
    cpus: Ints
    memory_mb: Ints
    gpus: Ints


class Room:
    """Copies of the snapshot's columns that shrink as a plan places work."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        nodes = snapshot.nodes
        self.snapshot = snapshot
        self.now = now
        self.usable = usable_nodes(nodes)
        self.free: Bools = nodes.is_free & self.usable
        self.cpus = nodes.cpus.copy()
        self.memory_mb = nodes.memory_mb.copy()
        self.gpus = nodes.gpus.copy()
        self.vcluster = nodes.vcluster.copy()
        self.cell: Rows = nodes.group * len(nodes.kinds) + nodes.kind
        self.bar: Ints = np.full(len(nodes.ids), NEVER, np.int64)
        self.bar_end: Ints = np.zeros(len(nodes.ids), np.int64)
        self.has_bars = False
        self._demands: dict[tuple[Request, str], Demand] = {}
        self._memory_needs: dict[tuple[int, int], Ints] = {}
        self._present: dict[str, Bools] = {}
        self._taken: list[Holdings] = []
        self._holdings: Holdings | None = None

    def demand(self, request: Request, vcluster: Vcluster) -> Demand:
        key = (request, vcluster.name)
        if key not in self._demands:
            self._demands[key] = demand_of(self.snapshot, request, vcluster, self.usable)
        return self._demands[key]

    def candidates(self, demand: Demand, end: int) -> Rows:
        """Rows, by id, that could be given now to work ending at `end`."""
        given = self.free if demand.is_whole else self.share_fits(demand) & self.shareable(demand)
        rows: Rows = np.flatnonzero(demand.usable & given)
        if self.has_bars:
            rows = rows[self.bar[rows] >= end]
        return rows

    def share_fits(self, demand: Demand) -> Bools:
        """Nodes with enough left for the share."""
        fits: Bools = self.cpus >= demand.cpus
        fits &= self.memory_mb >= self._memory_need(demand)
        if demand.gpus:
            fits &= self.gpus >= demand.gpus
        return fits

    def shareable(self, demand: Demand) -> Bools:
        """Nodes that are empty or shared by the demand's own vCluster."""
        shareable: Bools = (self.vcluster == NO_VCLUSTER) | (self.vcluster == demand.vcluster)
        return shareable

    def _memory_need(self, demand: Demand) -> Ints:
        key = (demand.cpus, demand.request.memory_mb)
        if key not in self._memory_needs:
            self._memory_needs[key] = demand.memory_mb[self.snapshot.nodes.kind]
        return self._memory_needs[key]

    def has_any(self, vcluster: Vcluster) -> bool:
        """Whether anything at all could still be given to work of the vCluster."""
        shared = vcluster.node_sharing is NodeSharing.SHARED
        left: Bools = self.usable & (self.cpus > 0) if shared else self.free
        members = self.snapshot.members.get(vcluster.name)
        return bool(left.any() if members is None else (left & members).any())

    def present(self, tenant: str) -> Bools:
        """Nodes on which the tenant has a share; such a node does not count again towards its quota."""
        if tenant not in self._present:
            held, names = self.snapshot.held, self.snapshot.tenant_names
            rows = np.zeros(len(self.free), np.bool_)
            if tenant in names:
                rows[held["node"][(held["tenant"] == names.index(tenant)) & (held["cpus"] > 0)]] = True
            self._present[tenant] = rows
        return self._present[tenant]

    def take(self, demand: Demand, rows: Rows, end: int, tenant: str) -> int:
        """Gives the rows away; returns by how many nodes the tenant's use grows."""
        kinds = self.snapshot.nodes.kind[rows]
        if demand.is_whole:
            amounts = (self.cpus[rows], self.memory_mb[rows], self.gpus[rows])
        else:
            count = len(rows)
            amounts = (np.full(count, demand.cpus), demand.memory_mb[kinds], np.full(count, demand.gpus))
        self.free[rows] = False
        self.cpus[rows] -= amounts[0]
        self.memory_mb[rows] -= amounts[1]
        self.gpus[rows] -= amounts[2]
        self._holdings = None
        ends = np.full(len(rows), end, np.int64)
        self._taken.append(Holdings(node=rows, end=ends, cpus=amounts[0], memory_mb=amounts[1], gpus=amounts[2]))
        if demand.is_whole:
            return len(rows)
        self.vcluster[rows] = demand.vcluster
        present = self.present(tenant)
        grown = int(np.count_nonzero(~present[rows]))
        present[rows] = True
        return grown

    def keep(self, rows: Rows, start: int, end: int) -> None:
        """Reserves the rows for work that starts at `start`."""
        self.bar[rows] = np.minimum(self.bar[rows], start)
        self.bar_end[rows] = np.maximum(self.bar_end[rows], end)
        self.has_bars = True

    def holdings(self) -> Holdings:
        """All that is in use, by what ran before and by this plan, with ends that lie ahead."""
        if self._holdings is None:
            self._holdings = self._join_holdings()
        return self._holdings

    def _join_holdings(self) -> Holdings:
        held, nodes = self.snapshot.held, self.snapshot.nodes
        node = held["node"].astype(np.intp)
        kind = nodes.kind[node]
        whole = held["cpus"] == 0
        full = np.array([(k.cpus, k.memory_mb, k.gpus) for k in nodes.kinds], np.int64).reshape(-1, 3)
        end = np.where(held["end"] < 0, self.now - held["end"], held["end"])
        taken = self._taken
        return Holdings(
            node=np.concatenate([node, *(t.node for t in taken)]),
            end=np.concatenate([np.maximum(end, self.now + OVERDUE_MS), *(t.end for t in taken)]),
            cpus=np.concatenate([np.where(whole, full[kind, 0], held["cpus"]), *(t.cpus for t in taken)]),
            memory_mb=np.concatenate(
                [np.where(whole, full[kind, 1], held["memory_mb"]), *(t.memory_mb for t in taken)]
            ),
            gpus=np.concatenate([np.where(whole, full[kind, 2], held["gpus"]), *(t.gpus for t in taken)]),
        )
