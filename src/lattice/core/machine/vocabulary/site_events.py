"""Events about tenants, settings, notifications and the audit chain. See docs/architecture/core.md."""

from lattice.core.machine.vocabulary.shape import Event
from lattice.core.model.site.audit import AuditKey, AuditSeal, ChainedEntry
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, Vcluster
from lattice.core.model.work.notifications import BudgetNote, Notification, NotifyDefault


class TenantSet(Event, tag="tenant_set", frozen=True, kw_only=True):
    tenant: Tenant


class ProjectSet(Event, tag="project_set", frozen=True, kw_only=True):
    project: Project


class VclusterSet(Event, tag="vcluster_set", frozen=True, kw_only=True):
    vcluster: Vcluster


class ReservationSet(Event, tag="reservation_set", frozen=True, kw_only=True):
    reservation: AdvanceReservation


class ReservationDeleted(Event, tag="reservation_deleted", frozen=True, kw_only=True):
    name: str


class RecordDeleted(Event, tag="record_deleted", frozen=True, kw_only=True):
    what: Deletable
    name: str
    tenant: str = ""


class SettingSet(Event, tag="setting_set", frozen=True, kw_only=True):
    key: str
    value: str


class NotificationQueued(Event, tag="notification_queued", frozen=True, kw_only=True):
    notification: Notification


class NotificationDropped(Event, tag="notification_dropped", frozen=True, kw_only=True):
    """Too many notifications wait for this user already; this one is dropped."""

    user: str
    allocation: int


class NotificationsSettled(Event, tag="notifications_settled", frozen=True, kw_only=True):
    """These were sent or given up, and wait no more."""

    delivered: tuple[int, ...] = ()
    given_up: tuple[int, ...] = ()


class NotifyDefaultSet(Event, tag="notify_default_set", frozen=True, kw_only=True):
    default: NotifyDefault


class BudgetNoted(Event, tag="budget_noted", frozen=True, kw_only=True):
    """The admins of a tenant were notified of its budget, or less of it is used again."""

    note: BudgetNote


class AuditRecorded(Event, tag="audit_recorded", frozen=True, kw_only=True):
    """The chain has a further entry."""

    added: ChainedEntry


class AuditKeySet(Event, tag="audit_key_set", frozen=True, kw_only=True):
    """A key seals from now on, or no more."""

    key: AuditKey


class AuditSealed(Event, tag="audit_sealed", frozen=True, kw_only=True):
    seal: AuditSeal


class AuditArchived(Event, tag="audit_archived", frozen=True, kw_only=True):
    """Entries up to `last` left the hot state."""

    last: int


class SnapshotRecorded(Event, tag="snapshot_recorded", frozen=True, kw_only=True):
    index: int
    digest: str
    sha256: str


class LevelRaised(Event, tag="level_raised", frozen=True, kw_only=True):
    level: int
