"""Notifies the admins of a tenant, once each time, that 80 and 100 % of a budget are used.

The last percentage is in the state, so the next leader does not repeat it; another budget starts again.
See docs/architecture/scheduler.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.work.notifications import MAX_WAITING_PER_USER, BudgetNote, Notification, Occasion

Events = tuple[ev.AnyEvent, ...]


def note(state: State, command: cmd.NoteBudget, at: int) -> Events:
    """Repeated, it changes nothing; a percentage that is lower than the last one is noted without a notification."""
    before = state.notifications.noted_percent(command.tenant)
    if command.tenant not in state.tenants or command.percent == before:
        return ()
    noted = BudgetNote(tenant=command.tenant, percent=command.percent)
    told = _told(state, command, at) if command.percent > before else ()
    return (ev.BudgetNoted(note=noted), *told)


def _told(state: State, command: cmd.NoteBudget, at: int) -> Events:
    registry = state.notifications
    number, events = registry.next_number, list[ev.AnyEvent]()
    for reader in command.to:
        if registry.per_user.get(reader.user, 0) >= MAX_WAITING_PER_USER:
            events.append(ev.NotificationDropped(user=reader.user, allocation=0))
            continue
        told = Notification(
            number=number,
            at=at,
            occasion=Occasion.BUDGET,
            to=reader.to,
            user=reader.user,
            tenant=command.tenant,
            vcluster="",
            allocation=0,
            name=command.tenant,
            state="",
            message=command.text,
        )
        events.append(ev.NotificationQueued(notification=told))
        number += 1
    return tuple(events)
