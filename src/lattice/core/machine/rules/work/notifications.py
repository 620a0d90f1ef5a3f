"""Notifications: who subscribes to a submission's events, and which events go where.

A notification is made by the same command as the event that it is about, and leaves the state when it was sent or given up.
So none is lost with a server and none is made twice. See docs/architecture/core.md.
"""

from typing import NamedTuple

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.telemetry.alerts import RULES
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, TaskGroup
from lattice.core.model.work.endings import cancelled_by
from lattice.core.model.work.notifications import (
    MAX_DESTINATIONS,
    MAX_WAITING_PER_USER,
    NEAR_LIMIT,
    Notification,
    Notify,
    Occasion,
)

Events = tuple[ev.AnyEvent, ...]
_NODES_SHOWN = 32
_NOTED = (
    *(ev.AllocationStarted, ev.AllocationEnded, ev.AllocationRequeued, ev.NodeLeft),
    *(ev.TimeLimitNeared, ev.AlertNoted),
)


# commands


def check_notify(state: State, command: cmd.SubmitAllocation) -> Rejected | None:
    """Refuse a submission that requests notifications but names no destination."""
    notify = notify_of(state, command)
    if notify is None or notify.to:
        return check_destinations(notify)
    return Rejected(
        code="invalid",
        message="notifications are asked for, but it is not said where they go",
        requested=f"notify on {', '.join(notify.on)}",
        hint="Give --notify-to mail:ADDRESS or webhook:URL, or set your default with `lattice notify set`.",
    )


def notify_of(state: State, command: cmd.SubmitAllocation) -> Notify | None:
    """What the submission says, filled up from its user's default; None when no notification is requested."""
    default = state.notifications.defaults.get(command.user)
    asked = command.notify
    if asked is None:
        return default.notify if default is not None and default.notify.on and default.notify.to else None
    if not asked.on:
        return None
    if not asked.to and default is not None:
        return Notify(on=asked.on, to=default.notify.to, each_task=asked.each_task)
    return asked


def check_destinations(notify: Notify | None) -> Rejected | None:
    if notify is None or len(notify.to) <= MAX_DESTINATIONS:
        return None
    return Rejected(
        code="invalid",
        message="notifications go to too many places",
        requested=f"{len(notify.to)} destinations",
        limit=f"{MAX_DESTINATIONS} destinations",
    )


def set_default(state: State, command: cmd.SetNotifyDefault) -> Events | Rejected:
    refusal = check_destinations(command.default.notify)
    if refusal is not None:
        return refusal
    return (ev.NotifyDefaultSet(default=command.default),)


def note_time_limit(state: State, command: cmd.NoteTimeLimit, at: int) -> Events:
    """A fraction of the walltime has passed; sent once per run, and only to subscribers."""
    record = state.allocations.get(command.number)
    occasion = NEAR_LIMIT.get(command.percent)
    if record is None or occasion is None or not record.is_running or record.run != command.run:
        return ()
    if record.notify is None or occasion not in record.notify.on or command.percent <= record.limit_noted:
        return ()
    if not record.walltime_s or at < limit_moment(record, command.percent):
        return ()
    return (ev.TimeLimitNeared(number=command.number, percent=command.percent),)


def note_alert(state: State, command: cmd.NoteAlert) -> Events:
    """Something measured points to trouble; sent once per run and rule, and only to subscribers. Nodes speak of work that they have."""
    record = state.allocations.get(command.number)
    rule = next((each for each in RULES if each.name == command.rule), None)
    if record is None or rule is None or not record.is_running or record.run != command.run:
        return ()
    if record.notify is None or Occasion.ALERT not in record.notify.on or rule.name in record.alerted:
        return ()
    if command.node not in record.nodes:
        return ()
    unit = METRICS[rule.metric].unit
    text = f"{rule.text}; {command.value:.4g} {unit} on node {command.node}"
    return (ev.AlertNoted(number=command.number, rule=rule.name, text=text),)


def limit_moment(record: Allocation, percent: int) -> int:
    """When that fraction of its walltime has passed."""
    return record.started_at + record.paused_ms + record.walltime_s * 10 * percent


def settle(state: State, command: cmd.SettleNotifications) -> Events:
    """Remove notifications that were sent or given up; ignore those already removed."""
    waiting = state.notifications.waiting
    delivered = tuple(number for number in dict.fromkeys(command.delivered) if number in waiting)
    gone = frozenset(delivered)
    given_up = tuple(n for n in dict.fromkeys(command.given_up) if n in waiting and n not in gone)
    return (ev.NotificationsSettled(delivered=delivered, given_up=given_up),) if delivered or given_up else ()


# events


class Subject(NamedTuple):
    """What an event is about, as it was before the event."""

    record: Allocation
    notify: Notify
    group: TaskGroup | None = None  # the notification is about this group as a whole


def subject_of(state: State, event: ev.AnyEvent) -> Subject | None:
    """The subject of the event, if it can have subscribers. Must be called before the event is folded."""
    if isinstance(event, _NOTED):
        record = state.allocations.get(event.number)
        if record is None or record.notify is None:
            return None
        # Trouble is that of one task, also where other notifications are about the group.
        is_whole = record.group and not record.notify.each_task and not isinstance(event, ev.AlertNoted)
        group = state.groups.get(record.group) if is_whole else None
        return Subject(record, record.notify, group)
    if isinstance(event, ev.TasksCancelled):
        whole = state.groups[event.group]
        notify = whole.template.notify
        if notify is not None and not notify.each_task:
            return Subject(whole.template, notify, whole)
    return None


def notices(state: State, subject: Subject, event: ev.AnyEvent, at: int) -> Events:
    """The notifications for an event that has been folded: one per occasion and destination."""
    if subject.group is None:
        told = [_of_record(state, occasion, subject, at) for occasion in _record_occasions(state, subject, event)]
        if isinstance(event, ev.AlertNoted):
            told = [replace(each, message=event.text) for each in told]
    else:
        group = state.groups[subject.group.number]
        occasions = _group_occasions(subject.group, group, subject.notify)
        told = [_of_group(group, occasion, at) for occasion in occasions]
    return _queued(state, told, subject)


def _record_occasions(state: State, subject: Subject, event: ev.AnyEvent) -> list[Occasion]:
    wanted = subject.notify.on
    found: list[Occasion] = []
    record = state.allocations[subject.record.number]
    if record.started_at and not subject.record.started_at:
        found.append(Occasion.BEGIN)
    match event:
        case ev.AllocationEnded():
            has_failed = event.state is AllocationState.FAILED or event.cause is Cause.DEPENDENCY
            found += _ending(wanted, has_failed=has_failed, cause=event.cause)
        case ev.AllocationRequeued():
            is_heard = event.preempted and Occasion.PREEMPT in wanted
            found.append(Occasion.PREEMPT if is_heard else Occasion.REQUEUE)
        case ev.NodeLeft() if event.counted:
            found.append(Occasion.REQUEUE)
        case ev.TimeLimitNeared():
            found.append(NEAR_LIMIT[event.percent])
        case ev.AlertNoted():
            found.append(Occasion.ALERT)
    return [occasion for occasion in found if occasion in wanted]


def _group_occasions(before: TaskGroup, after: TaskGroup, notify: Notify) -> list[Occasion]:
    found: list[Occasion] = []
    if after.started_at and not before.started_at:
        found.append(Occasion.BEGIN)
    if after.is_done and not before.is_done:
        found += _ending(notify.on, has_failed=after.failed > 0, cause=after.cause)
    return [occasion for occasion in found if occasion in notify.on]


def _ending(wanted: tuple[Occasion, ...], *, has_failed: bool, cause: Cause | None) -> list[Occasion]:
    """The one thing that is said of an end."""
    if has_failed and Occasion.FAIL in wanted:
        return [Occasion.FAIL]
    if Occasion.END in wanted:
        return [Occasion.END]
    if cause is Cause.PREEMPTED:
        return [Occasion.PREEMPT]
    return [Occasion.TIME_LIMIT] if cause is Cause.WALLTIME else []


def _queued(state: State, told: list[Notification], subject: Subject) -> Events:
    registry = state.notifications
    number, room = registry.next_number, MAX_WAITING_PER_USER - registry.per_user.get(subject.record.user, 0)
    events: list[ev.AnyEvent] = []
    for notification in told:
        for place in subject.notify.to:
            if room <= 0:
                events.append(ev.NotificationDropped(user=notification.user, allocation=notification.allocation))
                continue
            addressed = _addressed(notification, number, place)
            events.append(ev.NotificationQueued(notification=addressed))
            number, room = number + 1, room - 1
    return tuple(events)


def _addressed(told: Notification, number: int, place: str) -> Notification:
    addressed: Notification = replace(told, number=number, to=place)
    return addressed


def _of_record(state: State, occasion: Occasion, subject: Subject, at: int) -> Notification:
    """A requeue reports the run that ended; everything else reports the current state."""
    record = state.allocations[subject.record.number]
    is_again = occasion in (Occasion.REQUEUE, Occasion.PREEMPT) and not record.is_terminal
    shown = subject.record if is_again else record
    told = _told(shown, occasion, at, state=record.state)
    return replace(told, message=record.message, cause=record.cause or "", exit_code=record.exit_code)


def _of_group(group: TaskGroup, occasion: Occasion, at: int) -> Notification:
    told = _told(group.template, occasion, at, state=_group_state(group))
    return replace(
        told,
        allocation=group.number,
        started_at=group.started_at,
        ended_at=group.ended_at if group.is_done else 0,
        cause=group.cause or "",
        exit_code=group.exit_code,
        signal=group.signal,
        message=cancelled_by(group.cancelled_by),
        tasks=(group.completed, group.failed, group.cancelled),
    )


def _group_state(group: TaskGroup) -> AllocationState:
    if not group.is_done:
        return AllocationState.RUNNING
    if group.failed:
        return AllocationState.FAILED
    return AllocationState.CANCELLED if group.cancelled else AllocationState.COMPLETED


def _told(record: Allocation, occasion: Occasion, at: int, *, state: AllocationState) -> Notification:
    return Notification(
        number=0,
        at=at,
        occasion=occasion,
        to="",
        user=record.user,
        tenant=record.tenant,
        project=record.project,
        vcluster=record.vcluster,
        allocation=record.number,
        name=record.name,
        group=record.group,
        task_index=record.task_index,
        state=state,
        run=record.run,
        signal=record.signal,
        nodes=record.run_nodes[:_NODES_SHOWN],
        node_count=len(record.run_nodes),
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        walltime_s=record.walltime_s,
    )
