"""The columns of nodes, holdings and queue, kept up to date one change at a time and never rebuilt for a cycle.

The owner of a `Columns` reports every changed record to it; afterwards it gives the same snapshots as one that was given
all records once. Nodes come before the allocations that hold them. `snapshot` copies, so a plan may run on what it returns
while the columns move on. See docs/architecture/scheduler.md.
"""

from collections.abc import Mapping

import numpy as np

from lattice.core.model.capacity.lending import lending_of
from lattice.core.model.nodes.nodes import Node, Share
from lattice.core.model.scheduler_signals import NO_SIGNALS, Signals
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import SENSITIVE, Lends, Project, Tenant, TenantUse, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup
from lattice.core.model.work.evictions import CRITICAL_CLASS, NO_TAKING, Eviction, Limits
from lattice.core.model.work.ledger import UNKNOWN_NODE_GPUS
from lattice.core.model.work.ledger import Ledger as Entries
from lattice.core.scheduler.proposals import Reservation
from lattice.core.scheduler.tables.held import HeldTable
from lattice.core.scheduler.tables.nodes import NodeTable
from lattice.core.scheduler.tables.predictor import Predictor
from lattice.core.scheduler.tables.queue import QueueTable
from lattice.core.scheduler.tables.slots import Bools, Names
from lattice.core.scheduler.tables.snapshot import Budgets, Pool, Snapshot, Tuning
from lattice.core.scheduler.tables.takeable import TakeableTable
from lattice.core.scheduler.tables.use import UseTable, units_of

Key = tuple[str, str]


class Columns:
    """The scheduler's own view of the state, in columns."""

    def __init__(self) -> None:
        # Tables that give numbers to each other's rows; only the methods below put into them, in the order of events.
        self._vcluster_names = Names()
        self._tenant_names = Names()
        self._nodes = NodeTable(self._vcluster_names)
        self._held = HeldTable(self._nodes, self._tenant_names, self._vcluster_names)
        self._takeable = TakeableTable(self._vcluster_names, self._tenant_names)
        self._use = UseTable()
        self._predictor = Predictor()
        self._queue = QueueTable(self._vcluster_names, self._use, self._predictor)
        # The newest records and counts, as the state has them; a snapshot gets copies.
        self._groups: dict[int, TaskGroup] = {}
        self._vclusters: dict[str, Vcluster] = {}
        self._members: dict[str, tuple[int, Bools | None]] = {}  # with the number of nodes it was made for
        self._tenants: dict[str, Tenant] = {}
        self._projects: dict[Key, Project] = {}
        self._uses: dict[str, TenantUse] = {}
        self._user_holding: dict[Key, int] = {}
        self._project_nodes: dict[Key, int] = {}
        self._pool_size = 0
        self._users_of: dict[str, tuple[str, bool]] = {}  # of nodes in use: the vCluster, and whether it is claimed
        self._with_budget: tuple[str, ...] = ()
        self._reservations: dict[str, AdvanceReservation] = {}
        self._budgets = Budgets()
        self._tuning = Tuning()
        self._limits = NO_TAKING  # until somebody says otherwise
        self._evictions: dict[int, Eviction] = {}
        self._idle_since: dict[str, int] = {}
        self._lenders: tuple[str, ...] = ()  # vClusters that lend nodes

    def put_node(self, node: Node, at: int = 0) -> None:
        """`at` = when the record became what it is."""
        self._nodes.put(node)
        if not node.is_free:
            self._idle_since.pop(node.id, None)
        elif at:
            self._idle_since.setdefault(node.id, at)
        if node.vcluster or node.claimant:
            self._users_of[node.id] = (node.vcluster, bool(node.claimant))
        else:
            self._users_of.pop(node.id, None)

    def put_allocation(self, allocation: Allocation) -> None:
        self._held.put(allocation)
        units, gpus = self._amounts(allocation)
        self._use.put(allocation, units, gpus)
        self._takeable.put(allocation, gpus)
        if allocation.is_queued and not allocation.waits_for:
            self._queue.put_allocation(allocation)
        else:
            self._queue.drop(allocation.number)

    def drop_allocation(self, number: int) -> None:
        """The record is gone; harmless when it was never here."""
        self._held.drop(number)
        self._takeable.drop(number)
        self._use.drop(number)
        self._queue.drop(number)

    def learn(self, allocation: Allocation) -> None:
        """Remembers how long a run took that has ended."""
        if allocation.started_at and allocation.ended_at >= allocation.started_at:
            self._predictor.learn(
                allocation.user, allocation.name, (allocation.ended_at - allocation.started_at) // 1000
            )

    def add_use(self, allocation: Allocation) -> None:
        """Enters what a run has used that has ended, where no ledger is kept."""
        if allocation.started_at:
            self._use.add(allocation, *self._amounts(allocation))

    def put_entries(self, entries: Entries) -> None:
        """What one account has used by day."""
        self._use.put_entries(entries)

    def _amounts(self, allocation: Allocation) -> tuple[int, int]:
        """Units of nodes, and GPUs, of the shares of the present or last run."""
        units = gpus = 0
        for share in allocation.shares:
            hardware = self._nodes.hardware_of(share.node)
            units += units_of(share, hardware.cpus if hardware else 0)
            gpus += share.gpus if not share.whole else hardware.gpus if hardware else UNKNOWN_NODE_GPUS
        return units, gpus

    def shares_of(self, number: int) -> tuple[Share, ...]:
        """What the allocation held when it was last put."""
        return self._held.shares_of(number)

    def put_group(self, group: TaskGroup) -> None:
        if group.is_done:
            self.drop_group(group.number)
            return
        self._groups[group.number] = group
        if group.pending and group.template.state is AllocationState.PENDING:
            self._queue.put_group(group)
        else:
            self._queue.drop(group.number)

    def with_images(self) -> tuple[int, ...]:
        """Numbers in the queue of work that brings images."""
        return tuple(self._queue.with_images)

    def drop_group(self, number: int) -> None:
        """The record is gone; harmless when it was never here."""
        self._groups.pop(number, None)
        self._queue.drop(number)

    def put_vcluster(self, vcluster: Vcluster) -> None:
        self._vclusters[vcluster.name] = vcluster
        self._members.pop(vcluster.name, None)
        self._lenders = tuple(name for name, each in self._vclusters.items() if lending_of(each).lends is Lends.IDLE)

    def put_tenant(self, tenant: Tenant) -> None:
        self._tenants[tenant.name] = tenant
        self._with_budget = tuple(
            name
            for name, kept in self._tenants.items()
            if kept.gpu_hours_budget is not None or kept.node_hours_budget is not None
        )

    def put_project(self, project: Project) -> None:
        self._projects[project.tenant, project.name] = project

    def put_eviction(self, eviction: Eviction) -> None:
        self._evictions[eviction.number] = eviction

    def drop_eviction(self, number: int) -> None:
        """Nothing is kept for the number any more; harmless when nothing was."""
        self._evictions.pop(number, None)

    def put_reservation(self, reservation: AdvanceReservation) -> None:
        self._reservations[reservation.name] = reservation

    def drop_reservation(self, name: str) -> None:
        self._reservations.pop(name, None)

    def tune(self, tuning: Tuning, budgets: Budgets, half_life_s: float) -> None:
        """Settings of the cluster."""
        self._tuning = tuning
        self._budgets = budgets
        self._use.set_half_life(half_life_s * 1000)

    def set_limits(self, limits: Limits) -> None:
        """What may be taken for work of a higher class."""
        self._limits = limits

    def set_pool_size(self, nodes: int) -> None:
        """How many nodes may do sensitive work; 0 = no limit."""
        self._pool_size = nodes

    def _pool(self) -> Pool:
        if not self._pool_size:
            return Pool()
        sensitive = {name for name, each in self._vclusters.items() if each.scheduler == SENSITIVE}
        used = sum(is_claimed or vcluster in sensitive for vcluster, is_claimed in self._users_of.values())
        return Pool(limit=self._pool_size, used=used)

    def put_use(self, tenant: str, use: TenantUse) -> None:
        if use == TenantUse():
            self._uses.pop(tenant, None)
        else:
            self._uses[tenant] = use

    def put_user_holding(self, tenant: str, user: str, allocations: int) -> None:
        _count(self._user_holding, (tenant, user), allocations)

    def put_project_nodes(self, tenant: str, project: str, nodes: int) -> None:
        _count(self._project_nodes, (tenant, project), nodes)

    def snapshot(
        self,
        connected: frozenset[str] | None = None,
        *,
        signals: Signals = NO_SIGNALS,
        promised: Mapping[int, Reservation] | None = None,
    ) -> Snapshot:
        """The columns as they are now; `connected` = nodes whose agent can be reached, None = all."""
        queue = self._queue.columns()
        highest = int(queue.preemption_class.max(initial=0)) if self._limits.max_victims else 0
        if self._lenders and len(queue.number):
            highest = CRITICAL_CLASS  # what is lent is taken back whatever its class
        return Snapshot(
            nodes=self._nodes.columns(connected, signals.fingerprints, signals.cached),
            queue=queue,
            held=self._held.records(),
            shapes=self._queue.all_shapes(),
            members={name: self._members_of(name) for name in self._vclusters},
            vcluster_names=self._vcluster_names.all(),
            tenant_names=self._tenant_names.all(),
            vclusters=dict(self._vclusters),
            tenants=dict(self._tenants),
            projects=dict(self._projects),
            groups=dict(self._groups),
            uses=dict(self._uses),
            user_holding=dict(self._user_holding),
            project_nodes=dict(self._project_nodes),
            ledger=self._use.ledger(self._with_budget),
            reservations=tuple(self._reservations[name] for name in sorted(self._reservations)),
            promised=promised or {},
            signals=signals,
            budgets=self._budgets,
            tuning=self._tuning,
            pool=self._pool(),
            takeable=self._takeable.records(highest),
            evictions=tuple(sorted(self._evictions.values(), key=lambda each: (each.at, each.number))),
            limits=self._limits,
            idle_since=dict(self._idle_since) if self._lenders else {},
        )

    def _members_of(self, name: str) -> Bools | None:
        """Which nodes belong to the vCluster; rebuilt only after one of the two changed."""
        count = len(self._nodes)
        cached = self._members.get(name)
        if cached is not None and cached[0] == count:
            return cached[1]
        listed = self._vclusters[name].nodes
        members: Bools | None = None
        if listed:
            rows = self._nodes.rows()
            members = np.zeros(count, np.bool_)
            members[[rows[node] for node in listed if node in rows]] = True
        self._members[name] = (count, members)
        return members


def _count(counts: dict[Key, int], key: Key, value: int) -> None:
    if value:
        counts[key] = value
    else:
        counts.pop(key, None)
