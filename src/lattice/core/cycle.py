"""Joins the state machine and the scheduler: events keep the columns true, a plan becomes commands.

`note` is called on the thread that owns the state, after each command; so is `snapshot`, which copies. `plan` works on such a
copy alone and may run anywhere.
"""

from collections.abc import Iterable, Mapping

from lattice.core.machine import events as ev
from lattice.core.machine.commands import PlaceAllocation
from lattice.core.machine.state import State
from lattice.core.model.observations import Observations
from lattice.core.scheduler.columns import Columns
from lattice.core.scheduler.plan import plan
from lattice.core.scheduler.profiles import Profile
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.snapshot import Snapshot


class Cycle:
    """The scheduler's side of the state, from start-up on."""

    def __init__(self, profiles: Mapping[str, Profile] | None = None) -> None:
        self.profiles = dict(profiles or {})
        self._columns = Columns()

    def load(self, state: State) -> None:
        """Starts from a whole state, at start-up or when the state was replaced by a snapshot."""
        self._columns = Columns()
        touched = _Touched()
        touched.nodes.update(dict.fromkeys(state.nodes))
        touched.numbers.update(dict.fromkeys(state.allocations))
        touched.numbers.update(dict.fromkeys(state.groups))
        touched.vclusters.update(dict.fromkeys(state.vclusters))
        touched.tenants.update(dict.fromkeys(state.tenants))
        touched.projects.update(dict.fromkeys(state.projects))
        self._take_over(state, touched)

    def note(self, state: State, events: Iterable[ev.AnyEvent]) -> None:
        """Takes over what the events changed; `state` is the state after them, or any later one."""
        touched = _Touched()
        for event in events:
            touched.add(event)
        self._take_over(state, touched)

    def snapshot(self, observations: Observations | None = None) -> Snapshot:
        """What `plan` needs; without observations every Ready node counts as connected."""
        return self._columns.snapshot(None if observations is None else observations.connected())

    def plan(self, observations: Observations | None, now: int) -> Plan:
        """Snapshot and plan in one call."""
        return plan(self.snapshot(observations), self.profiles, now)

    def _take_over(self, state: State, touched: "_Touched") -> None:
        columns = self._columns
        for name in touched.vclusters:
            columns.put_vcluster(state.vclusters[name])
        for name in touched.tenants:
            columns.put_tenant(state.tenants[name])
        for key in touched.projects:
            columns.put_project(state.projects[key])
        nodes = touched.nodes
        for number in touched.numbers:
            nodes.update((share.node, None) for share in columns.shares_of(number))
            record = state.allocations.get(number)
            if record is not None and record.is_holding:
                nodes.update((share.node, None) for share in record.shares)
        for node in nodes:
            columns.put_node(state.nodes[node])
        for number in touched.numbers:
            self._take_over_number(state, number)

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


class _Touched:
    """What a run of events changed; dicts, for their order."""

    def __init__(self) -> None:
        self.nodes: dict[str, None] = {}
        self.numbers: dict[int, None] = {}
        self.vclusters: dict[str, None] = {}
        self.tenants: dict[str, None] = {}
        self.projects: dict[tuple[str, str], None] = {}

    def add(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.PartChanged() | ev.SettingSet() | ev.SnapshotRecorded():
                return
            case ev.ReservationSet() | ev.ReservationDeleted():
                return
            case ev.AllocationSubmitted():
                self.numbers[event.allocation.number] = None
            case ev.TaskGroupSubmitted():
                self.numbers[event.group.number] = None
            case ev.TaskReleased():
                self.numbers[event.group] = None
                self.numbers[event.group + 1 + event.position] = None
            case ev.TasksCancelled() | ev.TaskGroupHeld():
                self.numbers[event.group] = None
            case ev.AllocationsArchived():
                self.numbers.update(dict.fromkeys(event.numbers))
            case ev.NodeRegistered() | ev.NodeMoved():
                self.nodes[event.node] = None
            case ev.VclusterSet():
                self.vclusters[event.vcluster.name] = None
            case ev.TenantSet():
                self.tenants[event.tenant.name] = None
            case ev.ProjectSet():
                self.projects[event.project.tenant, event.project.name] = None
            case _:
                self.numbers[event.number] = None


def commands(plan: Plan) -> list[PlaceAllocation]:
    """The plan's placements as proposals, in the order in which they were made."""
    return [
        PlaceAllocation(number=placement.number, run=placement.run, shares=placement.shares)
        for placement in plan.placements
    ]
