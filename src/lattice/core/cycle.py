"""Joins the state machine and the scheduler: events keep the columns true, a plan becomes commands.

`note` is called on the thread that owns the state, after each command; so is `snapshot`, which copies. `plan` works on such a
copy alone and may run anywhere. See docs/architecture/core.md.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from lattice.core.machine import events as ev
from lattice.core.machine.commands import EvictAllocations, PlaceAllocation
from lattice.core.machine.rules.sensitive import pool_size
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.scheduler_signals import NO_SIGNALS
from lattice.core.model.site.settings import setting_value
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.core.model.work.evictions import NO_TAKING, limits_of
from lattice.core.scheduler.plan import plan
from lattice.core.scheduler.proposals import Plan, Reservation
from lattice.core.scheduler.score.profiles import Profile
from lattice.core.scheduler.tables.columns import Columns
from lattice.core.scheduler.tables.snapshot import Budgets, Snapshot, Tuning


class Cycle:
    """The scheduler's side of the state, from start-up on."""

    def __init__(self, profiles: Mapping[str, Profile] | None = None) -> None:
        self.profiles = dict(profiles or {})
        self.signals = NO_SIGNALS
        self._columns = Columns()
        self._promised: dict[int, Reservation] = {}

    def load(self, state: State) -> None:
        """Starts from a whole state, at start-up or when the state was replaced by a snapshot."""
        self._columns = Columns()
        self._promised = {}
        self._tune(state)
        touched = _Touched()
        touched.nodes.update(dict.fromkeys(state.nodes))
        touched.numbers.update(dict.fromkeys(state.allocations))
        touched.numbers.update(dict.fromkeys(state.groups))
        touched.vclusters.update(dict.fromkeys(state.vclusters))
        touched.tenants.update(dict.fromkeys(state.tenants))
        touched.projects.update(dict.fromkeys(state.projects))
        touched.reservations.update(dict.fromkeys(state.reservations))
        touched.evictions.update(dict.fromkeys(state.evictions.records))
        self._take_over(state, touched)
        for entries in state.ledger.values():
            self._columns.put_entries(entries)
        ended = [record for record in state.allocations.values() if record.is_terminal]
        for record in sorted(ended, key=lambda record: (record.ended_at, record.number)):
            self._columns.learn(record)

    def note(self, state: State, events: Iterable[ev.AnyEvent]) -> None:
        """Takes over what the events changed; `state` is the state after them, or any later one."""
        touched = _Touched()
        for event in events:
            touched.add(event)
        if touched.deleted:
            # Rare enough to load everything again: columns have no holes.
            promised = self._promised
            self.load(state)
            self._promised = promised
            return
        self._take_over(state, touched)

    def snapshot(self, observations: Observations | None = None) -> Snapshot:
        """What `plan` needs; without observations every Ready node counts as connected."""
        return self._columns.snapshot(
            None if observations is None else observations.connected(),
            signals=self.signals,
            promised=self._promised,
        )

    def snapshot_with(self, record: Allocation | TaskGroup, observations: Observations | None = None) -> Snapshot:
        """A snapshot in which one more allocation or group waits, under a number that is not in use. Nothing stays of it."""
        columns = self._columns
        try:
            if isinstance(record, TaskGroup):
                columns.put_group(record)
            else:
                columns.put_allocation(record)
            return self.snapshot(observations)
        finally:
            columns.drop_allocation(record.number)
            columns.drop_group(record.number)

    def plan(self, observations: Observations | None, now: int) -> Plan:
        """Snapshot and plan in one call."""
        made = plan(self.snapshot(observations), self.profiles, now)
        self.remember(made)
        return made

    def with_images(self) -> tuple[int, ...]:
        """Numbers of all in the queue that bring images."""
        return self._columns.with_images()

    def remember(self, made: Plan) -> None:
        """Keeps what the plan promised, so that the next one can hold to it."""
        self._promised = {kept.number: kept for kept in made.reservations}

    def put_node(self, node: Node) -> None:
        """This and the following serve callers that keep no State: they report one record at a time."""
        self._columns.put_node(node)

    def put_vcluster(self, vcluster: Vcluster) -> None:
        self._columns.put_vcluster(vcluster)

    def put_tenant(self, tenant: Tenant) -> None:
        self._columns.put_tenant(tenant)

    def put_allocation(self, allocation: Allocation) -> None:
        self._columns.put_allocation(allocation)

    def drop_allocation(self, number: int) -> None:
        self._columns.drop_allocation(number)

    def end_allocation(self, allocation: Allocation) -> None:
        """A run is over: enters what it used, learns how long it took, forgets the record."""
        self._columns.add_use(allocation)
        self._columns.learn(allocation)
        self._columns.drop_allocation(allocation.number)

    def _tune(self, state: State) -> None:
        def value(key: str) -> float:
            return float(setting_value(state.settings, f"scheduler.{key}"))

        self._columns.tune(
            Tuning(reference_wait_s=value("reference_wait_s"), budget_days=int(value("budget_period_days"))),
            Budgets(power_w=int(value("power_budget_w")), storage_gbps=value("storage_bandwidth_gbps")),
            value("fairshare_half_life_s"),
        )
        self._columns.set_pool_size(pool_size(state))
        # Servers of the release before know of no evictions.
        self._columns.set_limits(limits_of(state.settings) if state.level >= 2 else NO_TAKING)

    def _take_over(self, state: State, touched: "_Touched") -> None:
        columns = self._columns
        for name in touched.vclusters:
            columns.put_vcluster(state.vclusters[name])
        for name in touched.tenants:
            columns.put_tenant(state.tenants[name])
        for key in touched.projects:
            columns.put_project(state.projects[key])
        self._take_over_reservations(state, touched.reservations)
        if touched.settings:
            self._tune(state)
        nodes = touched.nodes
        for number in touched.numbers:
            nodes.update((share.node, None) for share in columns.shares_of(number))
            record = state.allocations.get(number)
            if record is not None and record.is_holding:
                nodes.update((share.node, None) for share in record.shares)
        for node in nodes:
            columns.put_node(state.nodes[node], state.last_at)
        for number in touched.numbers:
            self._take_over_number(state, number)
        for number in touched.ended:
            self._take_over_end(state, number)
        for number in touched.evictions:
            self._take_over_eviction(state, number)

    def _take_over_reservations(self, state: State, names: Iterable[str]) -> None:
        for name in names:
            if name in state.reservations:
                self._columns.put_reservation(state.reservations[name])
            else:
                self._columns.drop_reservation(name)

    def _take_over_eviction(self, state: State, number: int) -> None:
        eviction = state.evictions.records.get(number)
        if eviction is not None:
            self._columns.put_eviction(eviction)
        else:
            self._columns.drop_eviction(number)

    def _take_over_end(self, state: State, number: int) -> None:
        """A run is over: what it used is in the ledger, how long it took may help to predict the next."""
        record = state.allocations.get(number)
        if record is None:
            return
        entries = state.ledger.get((record.tenant, record.project, record.user))
        if entries is not None:
            self._columns.put_entries(entries)
        if record.is_terminal:
            self._columns.learn(record)

    def _take_over_number(self, state: State, number: int) -> None:
        """An allocation, a task or a group, whatever the number stands for now."""
        columns = self._columns
        group = state.groups.get(number)
        if group is not None:
            columns.put_group(group)
            return
        record = state.allocations.get(number)
        if record is None:
            columns.drop_allocation(number)
            columns.drop_group(number)
            return
        columns.put_allocation(record)
        columns.put_use(record.tenant, state.use_of(record.tenant))
        holding = state.user_use(record.tenant, record.user).holding
        columns.put_user_holding(record.tenant, record.user, holding)
        if record.project:
            key = (record.tenant, record.project)
            columns.put_project_nodes(*key, state.project_nodes.get(key, 0))
        if record.group in state.groups:
            columns.put_group(state.groups[record.group])


# Events that change nothing a plan looks at.
NOT_PLANNED = (
    ev.PartChanged,
    ev.CheckpointRevised,
    ev.CheckpointAdvanced,
    ev.InstancesWanted,
    ev.ServiceRevised,
    ev.RolloutChanged,
    ev.InstanceRenewed,
    ev.SnapshotRecorded,
    ev.DagSubmitted,
    ev.DagCancelled,
    ev.DagEnded,
    ev.TimeLimitNeared,
    ev.AlertNoted,
    ev.NotificationQueued,
    ev.NotificationDropped,
    ev.NotificationsSettled,
    ev.NotifyDefaultSet,
    ev.BudgetNoted,
    ev.DriftNoted,  # a plan receives drift through the signals
    ev.DriftEscalated,
    ev.DriftVerified,
    ev.DriftCleared,
    ev.BaselineSet,
    ev.BaselineUnset,
    ev.FingerprintAccepted,
    ev.FingerprintForgotten,
    ev.NodeJudged,
    ev.NodeEnrolled,
    ev.AuditRecorded,
    ev.AuditKeySet,
    ev.AuditSealed,
    ev.AuditArchived,
    ev.CopyChanged,  # a plan receives readiness through the signals
    ev.CopyForgotten,
    ev.UpgradeChanged,  # the nodes it drains tell
)


_Administration = (
    ev.VclusterSet
    | ev.TenantSet
    | ev.ProjectSet
    | ev.ReservationSet
    | ev.ReservationDeleted
    | ev.RecordDeleted
    | ev.SettingSet
    | ev.LevelRaised
)


class _Touched:
    """What a run of events changed; dicts, for their order."""

    def __init__(self) -> None:
        self.nodes: dict[str, None] = {}
        self.numbers: dict[int, None] = {}
        self.vclusters: dict[str, None] = {}
        self.tenants: dict[str, None] = {}
        self.projects: dict[tuple[str, str], None] = {}
        self.reservations: dict[str, None] = {}
        self.ended: dict[int, None] = {}  # runs, or instances on one node, whose time is in the ledger now
        self.evictions: dict[int, None] = {}
        self.settings = False
        self.deleted = False

    def add(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.AllocationSubmitted):  # the most frequent is not compared with all the others
            self.numbers[event.allocation.number] = None
            return
        if isinstance(event, NOT_PLANNED):
            return
        match event:
            case ev.AllocationEnded() | ev.AllocationRequeued() | ev.NodeLeft():  # each enters time into the ledger
                self.numbers[event.number] = None
                self.ended[event.number] = None
            case (
                ev.AllocationPlaced()
                | ev.NodeJoined()
                | ev.AllocationStarted()
                | ev.AllocationStopping()
                | ev.AllocationHeld()
                | ev.AllocationReleased()
                | ev.AllocationUpdated()
                | ev.AllocationPaused()
                | ev.TerminalShared()
                | ev.CheckpointRequested()
                | ev.CheckpointEnded()
                | ev.CheckpointStored()
                | ev.StepsRecorded()
                | ev.WaitChanged()
                | ev.AllocationStaged()
            ):
                self.numbers[event.number] = None
            case ev.TaskGroupSubmitted():
                self.numbers[event.group.number] = None
            case ev.TaskReleased():
                self.numbers[event.group] = None
                self.numbers[event.group + 1 + event.position] = None
            case ev.TasksCancelled() | ev.TaskGroupHeld() | ev.TasksUnblocked():
                self.numbers[event.group] = None
            case ev.AllocationsArchived() | ev.TasksFolded():
                self.numbers.update(dict.fromkeys(event.numbers))
            case ev.NodeRegistered() | ev.NodeMoved() | ev.NodeSpecified() | ev.NodeMeasured():
                self.nodes[event.node] = None
            case ev.EvictionBegan() | ev.EvictionChanged():
                self.evictions[event.eviction.number] = None
            case ev.EvictionEnded():
                self.evictions[event.number] = None
            case _:
                self._add_administration(event)

    def _add_administration(self, event: _Administration) -> None:
        match event:
            case ev.VclusterSet():
                self.vclusters[event.vcluster.name] = None
            case ev.TenantSet():
                self.tenants[event.tenant.name] = None
            case ev.ProjectSet():
                self.projects[event.project.tenant, event.project.name] = None
            case ev.ReservationSet():
                self.reservations[event.reservation.name] = None
            case ev.ReservationDeleted():
                self.reservations[event.name] = None
            case ev.RecordDeleted():
                self.deleted = True
            case ev.SettingSet() | ev.LevelRaised():
                self.settings = True
            case _:
                assert_never(event)


def commands(plan: Plan) -> list[PlaceAllocation | EvictAllocations]:
    """The plan's placements as proposals, in the order in which they were made, then its evictions."""
    return [
        *(
            PlaceAllocation(number=placement.number, run=placement.run, shares=placement.shares)
            for placement in plan.placements
        ),
        *(
            EvictAllocations(
                number=each.number, run=each.run, victims=each.victims, shares=each.shares, reason=each.reason
            )
            for each in plan.takings
        ),
    ]
