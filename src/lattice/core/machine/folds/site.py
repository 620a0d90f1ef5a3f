"""Folds what operators set, the audit chain and notifications. Part of `evolve`: it cannot refuse and may not fail.

See docs/architecture/core.md.
"""

from typing import assert_never

from lattice.core.machine import events as ev
from lattice.core.machine.state import SnapshotPointer, State
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.work.notifications import BudgetNote

AdministrationEvent = (
    ev.TenantSet
    | ev.ProjectSet
    | ev.VclusterSet
    | ev.SettingSet
    | ev.SnapshotRecorded
    | ev.LevelRaised
    | ev.UpgradeChanged
    | ev.ReservationSet
    | ev.ReservationDeleted
    | ev.RecordDeleted
)
AuditEvent = ev.AuditRecorded | ev.AuditKeySet | ev.AuditSealed | ev.AuditArchived
NotificationEvent = (
    ev.NotificationQueued | ev.NotificationDropped | ev.NotificationsSettled | ev.NotifyDefaultSet | ev.BudgetNoted
)


def evolve_site(state: State, event: AdministrationEvent | AuditEvent | NotificationEvent) -> None:
    match event:
        case ev.AuditRecorded() | ev.AuditKeySet() | ev.AuditSealed() | ev.AuditArchived():
            _evolve_audit(state, event)
        case (
            ev.NotificationQueued()
            | ev.NotificationDropped()
            | ev.NotificationsSettled()
            | ev.NotifyDefaultSet()
            | ev.BudgetNoted()
        ):
            _evolve_notification(state, event)
        case _:
            _evolve_administration(state, event)


def _evolve_administration(state: State, event: AdministrationEvent) -> None:
    """What operators set. Events carry whole records: what a change means was decided before, on the record of that moment."""
    match event:
        case ev.TenantSet():
            state.put_tenant(event.tenant)
        case ev.ProjectSet():
            state.put_project(event.project)
        case ev.VclusterSet():
            state.put_vcluster(event.vcluster)
        case ev.SettingSet():
            state.put_setting(event.key, event.value)
        case ev.SnapshotRecorded():
            state.snapshot = SnapshotPointer(index=event.index, digest=event.digest, sha256=event.sha256)
        case ev.LevelRaised():
            state.level = event.level
        case ev.UpgradeChanged():
            state.upgrades.put(event.upgrade)
        case ev.ReservationSet():
            state.put_reservation(event.reservation)
        case ev.ReservationDeleted():
            state.drop_reservation(event.name)
        case ev.RecordDeleted():
            _deleted(state, event)
        case _:
            assert_never(event)


def _deleted(state: State, event: ev.RecordDeleted) -> None:
    match event.what:
        case Deletable.TENANT:
            state.drop_tenant(event.name)
            # An empty note is none: a tenant of the same name that is made later has received no notice.
            state.notifications.put_budget(BudgetNote(tenant=event.name))
        case Deletable.PROJECT:
            state.drop_project(event.tenant, event.name)
        case Deletable.VCLUSTER:
            state.drop_vcluster(event.name)
        case Deletable.NODE:
            state.drop_node(event.name)
        case _:
            assert_never(event.what)


def _evolve_audit(state: State, event: AuditEvent) -> None:
    """The chain only grows at its end, and is shortened only at its beginning, up to the end of a seal."""
    match event:
        case ev.AuditRecorded():
            state.audit.append(event.added)
        case ev.AuditKeySet():
            state.audit.put_key(event.key)
        case ev.AuditSealed():
            state.audit.seal(event.seal)
        case ev.AuditArchived():
            state.audit.drop_to(event.last)
        case _:
            assert_never(event)


def _evolve_notification(state: State, event: NotificationEvent) -> None:
    registry = state.notifications
    match event:
        case ev.NotificationQueued():
            registry.put(event.notification)
        case ev.NotificationsSettled():
            for number in (*event.delivered, *event.given_up):
                registry.drop(number)
        case ev.NotifyDefaultSet():
            registry.put_default(event.default)
        case ev.BudgetNoted():
            registry.put_budget(event.note)
        case ev.NotificationDropped():
            return  # only observers need it; the state keeps nothing
        case _:
            assert_never(event)
