"""The replicated state: dicts of frozen records, and what is derived from them.

Only `evolve` (and the codec, when loading) calls the `put_*` and `drop_*` methods; they keep the digest and every derived
counter true. Readers on the owner's thread may look at the dicts; others take `frozen_view()`. See docs/architecture/core.md.
"""

from bisect import bisect_right, insort
from collections import deque

from msgspec import Struct

from lattice.core.machine.digest import Digest
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.parts.admission import AdmissionRegistry
from lattice.core.machine.parts.audit import AuditRegistry
from lattice.core.machine.parts.dependencies import DependencyRegistry
from lattice.core.machine.parts.drift import DriftRegistry
from lattice.core.machine.parts.evictions import EvictionRegistry
from lattice.core.machine.parts.folded_tasks import FoldedChunk, FoldedTasks, base_of, given_up_record, task_record
from lattice.core.machine.parts.node_history import NodeHistories, NodeHistoryEntry
from lattice.core.machine.parts.notifications import NotificationRegistry
from lattice.core.machine.parts.revisions import RevisionRegistry
from lattice.core.machine.parts.services import ServiceNames
from lattice.core.machine.parts.staging import StagingRegistry
from lattice.core.machine.parts.upgrades import UpgradeRegistry
from lattice.core.model.data.copies import Copy
from lattice.core.model.nodes.admission import Admission, Enrolment
from lattice.core.model.nodes.drift import AcceptedFingerprint, Baseline, Drift
from lattice.core.model.nodes.nodes import Hardware, Node
from lattice.core.model.services.rollouts import ServiceRevision
from lattice.core.model.site.audit import AuditHead, AuditKey, AuditSeal, ChainedEntry
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, TenantUse, Vcluster
from lattice.core.model.site.upgrades import Upgrade
from lattice.core.model.work.allocations import Allocation, AllocationState, Part, TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.evictions import Eviction
from lattice.core.model.work.ledger import Ledger
from lattice.core.model.work.notifications import BudgetNote, Notification, NotifyDefault

RECENT_WINDOW_MS = 180_000
RECENT_MAX = 200_000


class Recent(Struct, frozen=True, gc=False, omit_defaults=True, array_like=True):
    """What a command with an id came to, remembered for a while so that a repeat gets the same answer."""

    command_id: str
    at: int
    fingerprint: bytes
    number: int = 0
    rejected: Rejected | None = None


class SnapshotPointer(Struct, frozen=True, kw_only=True):
    """The newest snapshot that a server recorded in the log."""

    index: int = 0
    digest: str = ""
    sha256: str = ""


class UserUse(Struct, frozen=True, gc=False):
    """Live work of one user in one tenant; derived."""

    pending: int = 0
    holding: int = 0


class FrozenView(Struct, frozen=True, kw_only=True):
    """Shallow copies of the dicts at one index: safe to read from another thread."""

    nodes: dict[str, Node]
    allocations: dict[int, Allocation]
    groups: dict[int, TaskGroup]
    folded: dict[int, FoldedTasks]
    payloads: dict[int, bytes]
    tenants: dict[str, Tenant]
    projects: dict[tuple[str, str], Project]
    vclusters: dict[str, Vcluster]
    reservations: dict[str, AdvanceReservation]
    ledger: dict[tuple[str, str, str], Ledger]
    settings: dict[str, str]
    recent: tuple[Recent, ...]
    finished: dict[AllocationState, int]
    next_number: int
    last_at: int
    snapshot: SnapshotPointer
    level: int
    digest: str
    notifications: dict[int, Notification]
    notify_defaults: dict[str, NotifyDefault]
    next_notification: int
    dags: dict[int, Dag]
    budget_notes: tuple[BudgetNote, ...] = ()
    audit: tuple[ChainedEntry, ...] = ()
    audit_seals: tuple[AuditSeal, ...] = ()
    audit_keys: tuple[AuditKey, ...] = ()
    audit_head: AuditHead = AuditHead()
    histories: dict[str, tuple[NodeHistoryEntry, ...]] = {}
    drifts: tuple[Drift, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    accepted: tuple[AcceptedFingerprint, ...] = ()
    admissions: tuple[Admission, ...] = ()
    enrolments: tuple[Enrolment, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    copies: tuple[Copy, ...] = ()
    revisions: tuple[ServiceRevision, ...] = ()
    upgrades: tuple[Upgrade, ...] = ()


OLDEST_LEVEL = 1
_NO_USE = TenantUse()
_NO_USER_USE = UserUse()


class State:
    """All that was committed. Owned by one task."""

    def __init__(self) -> None:
        # Records, by id or number. Frozen, replaced as a whole by the `put_*` methods, part of the digest.
        self.nodes: dict[
            str, Node
        ] = {}  # every node ever registered or specified; dropped when an administrator deletes one
        self.allocations: dict[int, Allocation] = {}  # also tasks that have begun; dropped when archived or folded
        self.groups: dict[int, TaskGroup] = {}  # its tasks have the numbers after its own
        self.folded: dict[int, FoldedTasks] = {}  # by number of the group: ended tasks that are no records any more
        self.payloads: dict[int, bytes] = {}  # what to run, opaque; for allocations without a group and for groups
        self.tenants: dict[str, Tenant] = {}
        self.projects: dict[tuple[str, str], Project] = {}
        self.vclusters: dict[str, Vcluster] = {}
        self.reservations: dict[str, AdvanceReservation] = {}
        self.ledger: dict[tuple[str, str, str], Ledger] = {}
        self.settings: dict[str, str] = {}
        # Answers to commands that were seen lately, by command id, oldest first in `recent_order`.
        self.recent: dict[str, Recent] = {}
        self.recent_order: deque[str] = deque()
        self.finished: dict[AllocationState, int] = {}  # how many ever ended in a state
        self.next_number = 1  # the next allocation, group or DAG; never falls, a number is never given twice
        self.last_at = 0  # the time of the newest command; never falls
        self.level = OLDEST_LEVEL  # what may be written: core/machine/levels.py
        self.snapshot = SnapshotPointer()
        # Derived from the records by the same `put_*` and `drop_*`, and rebuilt with them when a snapshot is loaded.
        self.uses: dict[str, TenantUse] = {}
        self.user_uses: dict[tuple[str, str], UserUse] = {}
        self.project_nodes: dict[tuple[str, str], int] = {}
        self.state_counts: dict[AllocationState, int] = {}
        self.hardware_counts: dict[Hardware, int] = {}
        self._group_numbers: list[int] = []
        # The digest of all records, and the parts of the state that classes of their own keep.
        self._digest = Digest()
        self.notifications = NotificationRegistry(self._digest)
        self.dependencies = DependencyRegistry(self._digest)
        self.audit = AuditRegistry(self._digest)
        self.histories = NodeHistories()
        self.drift = DriftRegistry(self._digest)
        self.admission = AdmissionRegistry(self._digest)
        self.evictions = EvictionRegistry(self._digest)
        self.services = ServiceNames()
        self.staging = StagingRegistry(self._digest)
        self.revisions = RevisionRegistry(self._digest)
        self.upgrades = UpgradeRegistry(self._digest)

    @classmethod
    def empty(cls) -> "State":
        return cls()

    def digest(self) -> str:
        """Equal on all replicas that applied the same log."""
        head = Digest(self._digest.value)
        head.add(b"head", (self.next_number, self.last_at, self.snapshot))
        head.add(b"finished", sorted((str(k), v) for k, v in self.finished.items()))
        if self.level > OLDEST_LEVEL:
            head.add(b"level", self.level)
        if self.notifications.next_number > 1:
            head.add(b"next notice", self.notifications.next_number)
        if self.audit.is_on:
            head.add(b"audit head", self.audit.head)
        return head.hexdigest()

    # reading

    def payload_of(self, allocation: Allocation) -> bytes:
        """The cold part of an allocation; tasks share that of their group."""
        return self.payloads.get(allocation.group or allocation.number, b"")

    def payload_of_part(self, allocation: Allocation, part: Part) -> bytes:
        """What an instance of a service runs: while it is updated, not all run the same."""
        kept = self.revisions.of(allocation.number).get(allocation.revision_of(part.node))
        return self.payload_of(allocation) if kept is None else kept.payload

    def group_of(self, number: int) -> TaskGroup | None:
        """The group in whose block a task number lies."""
        place = bisect_right(self._group_numbers, number) - 1
        if place < 0:
            return None
        group = self.groups[self._group_numbers[place]]
        return group if group.number < number <= group.number + group.size else None

    def find(self, number: int) -> Allocation | None:
        """The allocation with this number; a task that is only an entry or a row of its group is made up from that."""
        record = self.allocations.get(number)
        if record is not None:
            return record
        group = self.group_of(number)
        if group is None:
            return None
        position = number - group.number - 1
        if group.is_pending(position):
            return task_record(group, position)
        rows = self.folded.get(group.number)
        if rows is not None and rows.has(position):
            return rows.record(group, position)
        return given_up_record(group, position)

    def use_of(self, tenant: str) -> TenantUse:
        return self.uses.get(tenant, _NO_USE)

    def user_use(self, tenant: str, user: str) -> UserUse:
        return self.user_uses.get((tenant, user), _NO_USER_USE)

    def node_history(self, node: str) -> tuple[NodeHistoryEntry, ...]:
        """The last moves of a node, oldest first."""
        return self.histories.of(node)

    def frozen_view(self) -> FrozenView:
        return FrozenView(
            nodes=dict(self.nodes),
            allocations=dict(self.allocations),
            groups=dict(self.groups),
            folded={number: rows.copy() for number, rows in self.folded.items()},
            payloads=dict(self.payloads),
            tenants=dict(self.tenants),
            projects=dict(self.projects),
            vclusters=dict(self.vclusters),
            reservations=dict(self.reservations),
            ledger=dict(self.ledger),
            settings=dict(self.settings),
            recent=tuple(self.recent.values()),
            finished=dict(self.finished),
            next_number=self.next_number,
            last_at=self.last_at,
            snapshot=self.snapshot,
            level=self.level,
            digest=self.digest(),
            notifications=dict(self.notifications.waiting),
            notify_defaults=dict(self.notifications.defaults),
            next_notification=self.notifications.next_number,
            budget_notes=tuple(self.notifications.budgets.values()),
            dags=dict(self.dependencies.dags),
            audit=tuple(self.audit.entries.values()),
            audit_seals=tuple(self.audit.seals.values()),
            audit_keys=tuple(self.audit.keys.values()),
            audit_head=self.audit.head,
            histories=dict(self.histories.histories),
            drifts=tuple(self.drift.drifts.values()),
            baselines=tuple(self.drift.baselines.values()),
            accepted=tuple(self.drift.accepted.values()),
            admissions=tuple(self.admission.names.values()),
            enrolments=tuple(self.admission.enrolments.values()),
            evictions=tuple(self.evictions.records.values()),
            copies=tuple(self.staging.copies.values()),
            revisions=self.revisions.every(),
            upgrades=self.upgrades.every(),
        )

    # writing, for evolve and the codec alone

    def put_node(self, node: Node) -> None:
        old = self.nodes.get(node.id)
        if old is not None:
            self._digest.remove(b"node", old)
        if old is None or old.hardware != node.hardware:
            if old is not None:
                self._count_hardware(old.hardware, -1)
            self._count_hardware(node.hardware, +1)
        self._digest.add(b"node", node)
        self.nodes[node.id] = node

    def _count_hardware(self, hardware: Hardware, step: int) -> None:
        count = self.hardware_counts.get(hardware, 0) + step
        if count:
            self.hardware_counts[hardware] = count
        else:
            del self.hardware_counts[hardware]

    def drop_node(self, name: str) -> None:
        """With all that was known of it; past work still names it."""
        old = self.nodes.pop(name)
        self._digest.remove(b"node", old)
        self._count_hardware(old.hardware, -1)
        self.histories.forget(name)
        self.drift.forget(name)
        self.admission.forget(name)

    def put_allocation(self, new: Allocation) -> None:
        old = self.allocations.get(new.number)
        if old is not None:
            self._digest.remove(b"allocation", old)
        self._digest.add(b"allocation", new)
        self.allocations[new.number] = new
        self.dependencies.note(old, new)
        self.services.note(old, new)
        self.staging.note(old, new)
        if old is None or old.state is not new.state:
            self._count_allocation(old, new)
        elif len(old.shares) != len(new.shares) and new.is_holding:
            self._count_project(new, len(new.shares) - len(old.shares))

    def drop_allocation(self, number: int) -> None:
        old = self.allocations.pop(number)
        self._digest.remove(b"allocation", old)
        self.dependencies.note(old, None)
        self.services.note(old, None)
        self.staging.note(old, None)
        self.revisions.drop(number)
        self._count_allocation(old, None)

    def _count_allocation(self, old: Allocation | None, new: Allocation | None) -> None:
        for record, step in ((old, -1), (new, +1)):
            if record is None:
                continue
            count = self.state_counts.get(record.state, 0) + step
            if count:
                self.state_counts[record.state] = count
            else:
                self.state_counts.pop(record.state, None)
            self._count_user(record, step)
            if record.is_holding:
                self._count_holding(record, step)

    def _count_user(self, record: Allocation, step: int) -> None:
        if record.is_terminal:
            return
        holding = step if record.is_holding else 0
        self.count_user(record.tenant, record.user, pending=step - holding, holding=holding)

    def count_user(self, tenant: str, user: str, *, pending: int = 0, holding: int = 0) -> None:
        key = (tenant, user)
        use = self.user_uses.get(key, _NO_USER_USE)
        after = UserUse(use.pending + pending, use.holding + holding)
        if after == _NO_USER_USE:
            self.user_uses.pop(key, None)
        else:
            self.user_uses[key] = after

    def _count_holding(self, record: Allocation, step: int) -> None:
        self.count_tenant(record.tenant, allocations=step)
        self._count_project(record, step * len(record.shares))

    def _count_project(self, record: Allocation, nodes: int) -> None:
        if record.project:
            key = (record.tenant, record.project)
            held = self.project_nodes.get(key, 0) + nodes
            if held:
                self.project_nodes[key] = held
            else:
                self.project_nodes.pop(key, None)

    def count_tenant(self, tenant: str, *, nodes: int = 0, allocations: int = 0) -> None:
        use = self.use_of(tenant)
        after = TenantUse(nodes=use.nodes + nodes, allocations=use.allocations + allocations)
        if after == _NO_USE:
            self.uses.pop(tenant, None)
        else:
            self.uses[tenant] = after

    def put_group(self, new: TaskGroup) -> None:
        old = self.groups.get(new.number)
        if old is None:
            insort(self._group_numbers, new.number)
        else:
            self._digest.remove(b"group", old)
        self._digest.add(b"group", new)
        self.groups[new.number] = new
        self.dependencies.note_group(old, new)
        self.staging.note_group(old, new)
        pending = new.pending_count - (old.pending_count if old is not None else 0)
        if pending:
            self.count_user(new.template.tenant, new.template.user, pending=pending)

    def drop_group(self, number: int) -> None:
        old = self.groups.pop(number)
        self._digest.remove(b"group", old)
        self.dependencies.note_group(old, None)
        self.staging.note_group(old, None)
        self._group_numbers.remove(number)
        rows = self.folded.pop(number, None)
        if rows is not None:
            self._digest.shift(-rows.digest_sum)

    def fold_task(self, number: int) -> None:
        """An ended task of a group that is still here becomes a row."""
        record = self.allocations[number]
        group = self.groups[record.group]
        self.drop_allocation(number)
        rows = self.folded.get(group.number)
        if rows is None:
            rows = self.folded[group.number] = FoldedTasks(group.number, group.size, base_of(group))
            self._digest.shift(rows.digest_sum)
        self._digest.shift(rows.fold(group, record))

    def load_rows(self, chunk: FoldedChunk) -> None:
        rows = self.folded.get(chunk.number)
        if rows is None:
            rows = self.folded[chunk.number] = FoldedTasks(chunk.number, chunk.size, chunk.base)
            self._digest.shift(rows.digest_sum)
        self._digest.shift(rows.load(chunk))

    def put_payload(self, number: int, payload: bytes) -> None:
        self.drop_payload(number)
        self._digest.add(b"payload", (number, payload))
        self.payloads[number] = payload

    def drop_payload(self, number: int) -> None:
        payload = self.payloads.pop(number, None)
        if payload is not None:
            self._digest.remove(b"payload", (number, payload))

    def put_tenant(self, tenant: Tenant) -> None:
        self._swap(b"tenant", self.tenants.get(tenant.name), tenant)
        self.tenants[tenant.name] = tenant

    def put_project(self, project: Project) -> None:
        key = (project.tenant, project.name)
        self._swap(b"project", self.projects.get(key), project)
        self.projects[key] = project

    def put_vcluster(self, vcluster: Vcluster) -> None:
        self._swap(b"vcluster", self.vclusters.get(vcluster.name), vcluster)
        self.vclusters[vcluster.name] = vcluster
        self.audit.note_vcluster(vcluster)

    def drop_tenant(self, name: str) -> None:
        self._digest.remove(b"tenant", self.tenants.pop(name))

    def drop_project(self, tenant: str, name: str) -> None:
        self._digest.remove(b"project", self.projects.pop((tenant, name)))

    def drop_vcluster(self, name: str) -> None:
        self._digest.remove(b"vcluster", self.vclusters.pop(name))
        self.audit.forget_vcluster(name)

    def put_reservation(self, reservation: AdvanceReservation) -> None:
        self._swap(b"reservation", self.reservations.get(reservation.name), reservation)
        self.reservations[reservation.name] = reservation

    def drop_reservation(self, name: str) -> None:
        self._digest.remove(b"reservation", self.reservations.pop(name))

    def put_ledger(self, ledger: Ledger) -> None:
        key = (ledger.tenant, ledger.project, ledger.user)
        self._swap(b"ledger", self.ledger.get(key), ledger)
        self.ledger[key] = ledger

    def put_setting(self, key: str, value: str) -> None:
        old = self.settings.get(key)
        self._swap(b"setting", None if old is None else (key, old), (key, value))
        self.settings[key] = value

    def _swap(self, kind: bytes, old: object | None, new: object) -> None:
        if old is not None:
            self._digest.remove(kind, old)
        self._digest.add(kind, new)

    def put_recent(self, recent: Recent) -> None:
        """Remembers an answer and forgets those that are too old or too many; the same on every replica."""
        self.recent[recent.command_id] = recent
        self.recent_order.append(recent.command_id)
        self._digest.add(b"recent", recent)
        oldest_allowed = recent.at - RECENT_WINDOW_MS
        while True:  # the one just added is neither too old nor too many
            oldest = self.recent[self.recent_order[0]]
            if oldest.at >= oldest_allowed and len(self.recent_order) <= RECENT_MAX:
                break
            self._digest.remove(b"recent", oldest)
            del self.recent[self.recent_order.popleft()]
