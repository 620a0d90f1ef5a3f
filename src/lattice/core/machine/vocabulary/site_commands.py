"""Commands about tenants, settings, notifications and the audit chain. See docs/architecture/core.md."""

from lattice.core.machine.vocabulary.shape import Command
from lattice.core.model.site.audit import AuditKey, AuditNote, AuditSeal
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, Vcluster
from lattice.core.model.work.notifications import NotifyDefault, Reader


class SetTenant(Command, tag="set_tenant", frozen=True, kw_only=True):
    """Creates (`create`) or replaces a tenant."""

    tenant: Tenant
    create: bool = False


class NoteBudget(Command, tag="note_budget", frozen=True, kw_only=True):
    """The tenant has used this percentage of a budget, and its admins are notified; 0 = what it has used has become less again."""

    tenant: str
    percent: int
    text: str = ""
    to: tuple[Reader, ...] = ()


class SetProject(Command, tag="set_project", frozen=True, kw_only=True):
    project: Project
    create: bool = False


class SetVcluster(Command, tag="set_vcluster", frozen=True, kw_only=True):
    vcluster: Vcluster
    create: bool = False


class SetReservation(Command, tag="set_reservation", frozen=True, kw_only=True):
    """Creates (`create`) or replaces an advance reservation."""

    reservation: AdvanceReservation
    create: bool = False


class DeleteReservation(Command, tag="delete_reservation", frozen=True, kw_only=True):
    name: str


class DeleteRecord(Command, tag="delete_record", frozen=True, kw_only=True):
    """Deletes a tenant, project, vCluster or node that nothing uses any more."""

    what: Deletable
    name: str
    tenant: str = ""  # of a project


class SetSetting(Command, tag="set_setting", frozen=True, kw_only=True):
    key: str
    value: str


class SetNotifyDefault(Command, tag="set_notify_default", frozen=True, kw_only=True):
    """What a user wants to hear of allocations that do not say it; an empty one takes it back."""

    default: NotifyDefault


class SettleNotifications(Command, tag="settle_notifications", frozen=True, kw_only=True):
    """These were sent, or will never be."""

    delivered: tuple[int, ...] = ()
    given_up: tuple[int, ...] = ()


class RecordAudit(Command, tag="record_audit", frozen=True, kw_only=True):
    """What the API did or refused, as far as no other command shows it."""

    notes: tuple[AuditNote, ...]


class AddAuditKey(Command, tag="add_audit_key", frozen=True, kw_only=True):
    """A server seals with this key from now on; the chain begins with the first one."""

    key: AuditKey


class SealAudit(Command, tag="seal_audit", frozen=True, kw_only=True):
    """A signature over the entries since the last one, made outside, where the key is."""

    seal: AuditSeal


class ArchiveAudit(Command, tag="archive_audit", frozen=True, kw_only=True):
    """Entries up to `last` are in the object store and leave the hot state."""

    last: int


class RecordSnapshot(Command, tag="record_snapshot", frozen=True, kw_only=True):
    index: int
    digest: str
    sha256: str


class RaiseLevel(Command, tag="raise_level", frozen=True, kw_only=True):
    """Every server reads this level: from now on what needs it may be written, and older servers cannot come back."""

    level: int
