"""Every change of state that people see, in the order of the log: one bounded ring for all who watch, whatever wire they use.

A change carries the log index of its entry, so that a place in one server's ring is found again in that of the next. The ring
belongs to the server, not to its term as leader: it is filled while the log is replayed at the start and while following.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, assert_never

from msgspec import Struct

from lattice.api.limits import KEPT_CHANGES
from lattice.core.machine import events as ev
from lattice.core.machine.commands import Envelope
from lattice.core.machine.parts.services import endpoints_of, is_registered
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, Part, PartPhase, TaskGroup
from lattice.ports.quorum.replica import Replica
from lattice.wire.work.allocations import group_state


class Change(Struct, frozen=True, kw_only=True, gc=False):
    """One change. `what` is allocation (also a task or a task group), dag, node, tenant, project, vcluster, reservation, setting, service.

    What is neither an allocation nor a DAG has no number but a `label`.
    """

    index: int
    at: int
    kind: str
    state: str
    what: str = "allocation"
    number: int = 0
    label: str = ""
    name: str = ""
    user: str = ""
    tenant: str = ""
    project: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    cause: str = ""
    exit_code: int | None = None
    run: int = 0
    nodes: tuple[str, ...] = ()
    group: int = 0
    task_index: int = -1
    dag: int = 0
    session: bool = False
    reason: str = ""
    reservation: AdvanceReservation | None = None  # as it was set, or before it was deleted


_A = AllocationState
OfAllocation = (
    ev.AllocationPlaced
    | ev.NodeJoined
    | ev.NodeLeft
    | ev.PartChanged
    | ev.ServiceRevised
    | ev.RolloutChanged
    | ev.InstanceRenewed
    | ev.AllocationStarted
    | ev.AllocationStopping
    | ev.AllocationEnded
    | ev.AllocationRequeued
    | ev.AllocationHeld
    | ev.AllocationReleased
    | ev.AllocationUpdated
    | ev.AllocationPaused
    | ev.CheckpointRequested
    | ev.CheckpointEnded
    | ev.CheckpointStored
)
_OfTasks = ev.TaskGroupSubmitted | ev.TasksCancelled | ev.TaskGroupHeld
_OfNamed = ev.NodeMoved | ev.TenantSet | ev.ProjectSet | ev.VclusterSet | ev.SettingSet | ev.RecordDeleted
Shown = (
    OfAllocation
    | _OfTasks
    | _OfNamed
    | ev.AllocationSubmitted
    | ev.WaitChanged
    | ev.AllocationStaged
    | ev.DagSubmitted
    | ev.DagEnded
    | ev.NodeSpecified
    | ev.NodeMeasured
    | ev.ReservationSet
    | ev.ReservationDeleted
)
# Events that change what people see of one allocation, with the state they lead to (None: whatever it is).
ALLOCATION_EVENTS: dict[type[OfAllocation], tuple[str, AllocationState | None]] = {
    ev.AllocationPlaced: ("placed", _A.STARTING),
    ev.NodeJoined: ("node_joined", None),
    ev.NodeLeft: ("node_left", None),
    ev.PartChanged: ("restarting", None),
    ev.ServiceRevised: ("revised", None),
    ev.RolloutChanged: ("rollout", None),
    ev.InstanceRenewed: ("instance_renewed", None),
    ev.AllocationStarted: ("started", _A.RUNNING),
    ev.AllocationStopping: ("stopping", _A.STOPPING),
    ev.AllocationEnded: ("ended", None),
    ev.AllocationRequeued: ("requeued", None),  # Pending, or Suspended
    ev.AllocationHeld: ("held", None),
    ev.AllocationReleased: ("released", None),
    ev.AllocationUpdated: ("updated", None),
    ev.AllocationPaused: ("paused", None),
    ev.CheckpointRequested: ("checkpointing", None),
    ev.CheckpointEnded: ("checkpointed", None),
    ev.CheckpointStored: ("checkpoint_stored", None),
}
# Events that change no visible state.
SILENT = (
    ev.StepsRecorded,  # shown with their allocation
    ev.TerminalShared,  # its owner's own business
    ev.CheckpointRevised,  # what follows the checkpoint is shown when it does
    ev.CheckpointAdvanced,  # one node of several; the allocation's own change follows
    ev.InstancesWanted,  # the nodes that come and go are shown
    ev.TaskReleased,  # a pending task is pending still
    ev.TasksUnblocked,
    ev.TasksFolded,  # kept in another form
    ev.AllocationsArchived,
    ev.DagCancelled,  # its members tell
    ev.NodeRegistered,  # a change of its state is an event of its own
    ev.TimeLimitNeared,  # sent only to subscribers
    ev.AlertNoted,  # the same; streams of figures have it from the node
    ev.NotificationQueued,
    ev.DriftNoted,  # where it has consequences, the node moves
    ev.DriftEscalated,
    ev.DriftVerified,
    ev.DriftCleared,
    ev.BaselineSet,
    ev.BaselineUnset,
    ev.FingerprintAccepted,
    ev.FingerprintForgotten,
    ev.NodeJudged,
    ev.NodeEnrolled,
    ev.AuditRecorded,  # has readers of its own
    ev.AuditKeySet,
    ev.AuditSealed,
    ev.AuditArchived,
    ev.NotificationDropped,
    ev.NotificationsSettled,
    ev.NotifyDefaultSet,
    ev.BudgetNoted,
    ev.CopyChanged,  # the work that waits for it tells
    ev.CopyForgotten,
    ev.SnapshotRecorded,
    ev.LevelRaised,
    ev.UpgradeChanged,  # the nodes it drains tell
    ev.EvictionBegan,  # its victims tell
    ev.EvictionChanged,
    ev.EvictionEnded,
)

_OF_INSTANCE = (ev.PartChanged, ev.NodeLeft, ev.NodeJoined, ev.InstanceRenewed)

# Events after which an allocation may be in the registry, out of it, or there with other endpoints.
OF_SERVICES = (
    ev.PartChanged,
    ev.InstanceRenewed,
    ev.NodeLeft,
    ev.AllocationStarted,
    ev.AllocationStopping,
    ev.AllocationEnded,
    ev.AllocationRequeued,
)


class ServicePorts(NamedTuple):
    """What an allocation has in the registry: by name, the nodes of its endpoints."""

    user: str
    tenant: str
    names: dict[str, tuple[str, ...]]


NO_SERVICE = ServicePorts("", "", {})

Listener = Callable[[Iterable[int], Iterable[range]], None]


class ChangeRing:
    """Follows the replica. `first` is the place of the oldest kept change, `end` the place behind the newest.

    Listeners are called once per command with the numbers, and the blocks of numbers, that something happened to.
    """

    def __init__(self, replica: Replica, kept: int = KEPT_CHANGES) -> None:
        self._replica = replica
        self._kept: deque[Change] = deque(maxlen=kept)
        self._ever = 0
        self._since = 0  # everything after this index was seen
        self._group_states: dict[int, AllocationState] = {}
        self._reservations: dict[str, AdvanceReservation] = {}  # as they were before the entry that is noted
        self._endpoints: dict[int, ServicePorts] = {}  # of the services that are registered, by allocation
        self._listeners: list[Listener] = []
        self._touched: set[int] = set()
        self._blocks: list[range] = []
        self.unsubscribe: Callable[[], None] = replica.subscribe(self._note)
        self.begin()

    def begin(self) -> None:
        """Takes the present state as known; what changes it from now on is kept."""
        self._since = self._replica.applied_index
        groups = self._replica.state.groups
        self._group_states = {number: group_state(group) for number, group in groups.items() if not group.is_done}
        self._reservations = dict(self._replica.state.reservations)
        registered = self._replica.state.services.registered()
        self._endpoints = {each.number: _service_ports(each) for _, running in registered for each in running}

    @property
    def first(self) -> int:
        return self._ever - len(self._kept)

    @property
    def end(self) -> int:
        return self._ever

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls back after each command that changed something; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def place_after(self, index: int) -> tuple[int, bool]:
        """Where to read what came after log entry `index`, and whether all of that is still kept."""
        complete = index >= (self._kept[0].index if self.first else self._since)
        place = self._ever
        for change in reversed(self._kept):
            if change.index <= index:
                break
            place -= 1
        return place, complete

    def read(self, place: int, most: int) -> list[Change]:
        """Up to `most` changes from `place` on, which must not lie before `first`."""
        skip = place - self.first
        return [self._kept[k] for k in range(skip, min(skip + most, len(self._kept)))]

    def is_last_of_entry(self, place: int) -> bool:
        """Whether no change of the same log entry follows the one at `place`."""
        k = place - self.first
        if k < 0:
            return True
        index = self._kept[k].index
        if k + 1 < len(self._kept):
            return self._kept[k + 1].index != index
        return self._replica.applied_index >= index

    def _note(self, index: int, envelope: Envelope, events: tuple[ev.AnyEvent, ...]) -> None:
        before = self._ever
        groups: dict[int, None] = {}
        for event in events:
            if isinstance(event, ev.AllocationSubmitted) or not isinstance(event, SILENT):
                self._note_event(index, envelope.at, event, groups)
        for number in groups:
            self._note_group(index, envelope.at, number)
        for number in dict.fromkeys(each.number for each in events if isinstance(each, OF_SERVICES)):
            self._note_service(index, envelope.at, number)
        if self._ever != before:
            touched, blocks = self._touched, self._blocks
            self._touched, self._blocks = set(), []
            for listener in tuple(self._listeners):
                listener(touched, blocks)

    def _note_event(self, index: int, at: int, event: Shown, groups: dict[int, None]) -> None:
        match event:
            # The most frequent comes first, and is not compared with all the others.
            case ev.AllocationSubmitted():
                record = event.allocation
                self._keep(_change(index, at, "submitted", record.state, record))
            case (
                ev.AllocationPlaced()
                | ev.PartChanged()
                | ev.ServiceRevised()
                | ev.RolloutChanged()
                | ev.InstanceRenewed()
                | ev.NodeJoined()
                | ev.NodeLeft()
                | ev.AllocationStarted()
                | ev.AllocationStopping()
                | ev.AllocationEnded()
                | ev.AllocationRequeued()
                | ev.AllocationHeld()
                | ev.AllocationReleased()
                | ev.AllocationUpdated()
                | ev.AllocationPaused()
                | ev.CheckpointRequested()
                | ev.CheckpointEnded()
                | ev.CheckpointStored()
            ):
                self._note_allocation(index, at, event, groups)
            case ev.WaitChanged():
                if not event.waits_for:
                    self._note_eligible(index, at, event.number)
            case ev.AllocationStaged():
                self._note_eligible(index, at, event.number)
            case ev.TaskGroupSubmitted() | ev.TasksCancelled() | ev.TaskGroupHeld():
                self._note_tasks(index, at, event, groups)
            case ev.DagSubmitted() | ev.DagEnded():
                self._note_dag(index, at, event)
            case ev.NodeSpecified() | ev.NodeMeasured():
                self._note_judged(index, at, event)
            case ev.ReservationSet() | ev.ReservationDeleted():
                self._note_reservation(index, at, event)
            case (
                ev.NodeMoved()
                | ev.TenantSet()
                | ev.ProjectSet()
                | ev.VclusterSet()
                | ev.SettingSet()
                | ev.RecordDeleted()
            ):
                self._keep_named(index, at, *_named(event))
            case _:
                assert_never(event)

    def _note_allocation(self, index: int, at: int, event: OfAllocation, groups: dict[int, None]) -> None:
        if isinstance(event, ev.PartChanged) and event.part.phase is not PartPhase.RESTARTING:
            return  # one node of several; the allocation's own change follows
        number, kind = event.number, ALLOCATION_EVENTS[type(event)]
        state = self._replica.state
        record = state.allocations.get(number)
        if record is None:
            group = state.groups.get(number)
            if group is not None:
                self._keep_group(index, at, kind[0], group)
            return
        about = _of_instance(event.part) if isinstance(event, _OF_INSTANCE) else {}
        self._keep(_change(index, at, kind[0], kind[1] or record.state, record, **about))
        if record.group:
            self._touched.add(record.group)
            groups[record.group] = None

    def _note_group(self, index: int, at: int, number: int) -> None:
        """A group begins with its first task and ends with its last."""
        group = self._replica.state.groups.get(number)
        before = self._group_states.get(number, _A.PENDING)
        if group is None or group_state(group) is before:
            return
        state = self._group_states[number] = group_state(group)
        kind = "started" if state is _A.RUNNING else "ended" if group.is_done else "requeued"
        self._keep_group(index, at, kind, group)
        if group.is_done:
            del self._group_states[number]

    def _note_service(self, index: int, at: int, number: int) -> None:
        """An entry of the registry comes, changes its endpoints, or goes."""
        before = self._endpoints.get(number, NO_SERVICE)
        record = self._replica.state.allocations.get(number)
        after = NO_SERVICE if record is None or not is_registered(record) else _service_ports(record)
        if after == before:
            return
        whole = after if after is not NO_SERVICE else before
        for name, nodes in whole.names.items():
            kind = "changed"
            if after is NO_SERVICE or before is NO_SERVICE:
                kind = "registered" if before is NO_SERVICE else "deregistered"
            shown = Change(
                index=index,
                at=at,
                kind=kind,
                state=kind,
                what="service",
                number=number,
                label=name,
                user=whole.user,
                tenant=whole.tenant,
                nodes=nodes if after is not NO_SERVICE else (),
            )
            self._keep(shown)
        if after is NO_SERVICE:
            del self._endpoints[number]
        else:
            self._endpoints[number] = after

    def _note_tasks(self, index: int, at: int, event: _OfTasks, groups: dict[int, None]) -> None:
        state = self._replica.state
        match event:
            case ev.TaskGroupSubmitted():
                self._keep_group(index, at, "submitted", event.group)
            case ev.TasksCancelled():
                group = state.groups[event.group]
                if not group.is_done:
                    self._keep_group(index, at, "updated", group)
                groups[event.group] = None
                self._blocks.append(_block(group))
            case ev.TaskGroupHeld():
                kind = "held" if event.hold or event.held else "released"
                self._keep_group(index, at, kind, state.groups[event.group])
            case _:
                assert_never(event)

    def _note_eligible(self, index: int, at: int, number: int) -> None:
        """It waits for nothing but its turn from now on."""
        state = self._replica.state
        record, group = state.allocations.get(number), state.groups.get(number)
        if group is not None:
            self._keep_group(index, at, "eligible", group)
        elif record is not None:
            self._keep(_change(index, at, "eligible", record.state, record))

    def _note_dag(self, index: int, at: int, event: ev.DagSubmitted | ev.DagEnded) -> None:
        dag = event.dag if isinstance(event, ev.DagSubmitted) else self._replica.state.dependencies.dags.get(event.dag)
        if dag is None:
            return
        kind = "submitted" if isinstance(event, ev.DagSubmitted) else "ended"
        shown = Change(
            index=index,
            at=at,
            kind=kind,
            what="dag",
            state=dag.state,
            number=dag.number,
            dag=dag.number,
            name=dag.name,
            user=dag.user,
            tenant=dag.tenant,
        )
        self._keep(shown)

    def _note_reservation(self, index: int, at: int, event: ev.ReservationSet | ev.ReservationDeleted) -> None:
        """With its owner and purpose, also after its end: they decide who receives the change."""
        if isinstance(event, ev.ReservationSet):
            record, state = event.reservation, "set"
            self._reservations[record.name] = record
        elif event.name in self._reservations:
            record, state = self._reservations.pop(event.name), "deleted"
        else:
            return
        self._keep_named(index, at, "reservation", record.name, {"state": state, "reservation": record})

    def _note_judged(self, index: int, at: int, event: ev.NodeSpecified | ev.NodeMeasured) -> None:
        """A node that was declared, or may not work."""
        node = self._replica.state.nodes[event.node]
        if not node.registered_at or event.shortfall:
            self._keep_named(index, at, "node", node.id, {"state": node.state, "reason": event.shortfall})

    def _keep_named(self, index: int, at: int, what: str, label: str, fields: dict[str, Any]) -> None:
        self._keep(Change(index=index, at=at, kind=what, what=what, label=label, **{"state": "set", **fields}))

    def _keep_group(self, index: int, at: int, kind: str, group: TaskGroup) -> None:
        ended = {"cause": group.cause or "", "exit_code": group.exit_code} if group.is_done else {}
        self._keep(_change(index, at, kind, group_state(group), group.template, number=group.number, **ended))
        # Pending tasks have no record of their own; waiters for one of them look again.
        self._blocks.append(_block(group))

    def _keep(self, change: Change) -> None:
        self._kept.append(change)
        self._ever += 1
        if change.number:
            self._touched.add(change.number)


def _service_ports(record: Allocation) -> ServicePorts:
    names = {each.name: tuple(place.node for place in endpoints_of(record, each)) for each in record.exposes}
    return ServicePorts(record.user, record.tenant, names)


def _block(group: TaskGroup) -> range:
    return range(group.number, group.number + group.size + 1)


def _named(event: _OfNamed) -> tuple[str, str, dict[str, Any]]:
    """What was changed, its name, and what is said of it."""
    match event:
        case ev.NodeMoved():
            return "node", event.node, {"state": event.state, "reason": event.reason}
        case ev.TenantSet():
            return "tenant", event.tenant.name, {"tenant": event.tenant.name}
        case ev.ProjectSet():
            return "project", event.project.name, {"tenant": event.project.tenant, "project": event.project.name}
        case ev.VclusterSet():
            return "vcluster", event.vcluster.name, {"state": "up" if event.vcluster.is_up else "down"}
        case ev.SettingSet():
            return "setting", event.key, {"reason": event.value}
        case ev.RecordDeleted():
            return str(event.what), event.name, {"state": "deleted", **_owner(event)}
        case _:
            assert_never(event)


def _owner(event: ev.RecordDeleted) -> dict[str, Any]:
    """Whose it was, which decides who receives the change."""
    if event.what is Deletable.TENANT:
        return {"tenant": event.name}
    return {"tenant": event.tenant, "project": event.name} if event.what is Deletable.PROJECT else {}


def _of_instance(part: Part) -> dict[str, Any]:
    """What is said of one instance of a service: the node, and how it ended there."""
    if part.cause is None:
        return {"nodes": (part.node,)}
    exit_code = part.exit_code if part.cause is Cause.EXIT else None
    return {"nodes": (part.node,), "cause": part.cause, "exit_code": exit_code, "reason": part.message}


def _change(index: int, at: int, kind: str, state: str, record: Allocation, **others: Any) -> Change:  # noqa: ANN401
    fields: dict[str, Any] = {
        "number": record.number,
        "name": record.name,
        "user": record.user,
        "tenant": record.tenant,
        "project": record.project,
        "tags": record.tags,
        "cause": record.cause or "",
        "exit_code": record.exit_code,
        "run": record.run,
        "nodes": record.nodes,
        "group": record.group,
        "task_index": record.task_index,
        "dag": record.dag,
        "session": record.session,
        **others,
    }
    return Change(index=index, at=at, kind=kind, state=state, **fields)
