"""Sends what waits in the state's notifications, and notes when running work comes near its walltime, or into trouble.

Each destination is served in order, one at a time; one that does not answer is retried with growing delays, and does not delay the others.
A notification leaves the state right after it was sent. A server that dies between the two leaves it to the next one, which sends
it again under the same id.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import isfinite

from msgspec import Struct

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine import events as ev
from lattice.core.machine.commands import Envelope, NoteAlert, NoteTimeLimit, SettleNotifications
from lattice.core.machine.rules.work.notifications import limit_moment
from lattice.core.model.ids import allocation_id
from lattice.core.model.telemetry.alerts import RULES
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.notifications import NEAR_LIMIT, Notification, Occasion
from lattice.ports.clock import Clock
from lattice.ports.nodes.telemetry import NodeAlert
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import Replica, ReplicaStopped
from lattice.ports.site.notifications import DeliveryFailed, Sender, Undeliverable

_log = logging.getLogger(__name__)

ACTOR = "notifications"
SETTLE_RETRY_S = 0.5
LIMIT_RETRY_MS = 60_000  # a walltime that could not be judged is looked at again
MAX_ALERTS = 1000  # that wait to be noted
LAST_WORD_S = 1.0  # for what is under way when the loop ends

_HEARD = (
    *(ev.NotificationQueued, ev.NotificationDropped),
    *(ev.AllocationStarted, ev.AllocationUpdated, ev.TimeLimitNeared),
)
_RULES = frozenset(rule.name for rule in RULES)
Count = Callable[[str, str], None]  # channel, outcome


class NotifyingSettings(Struct, frozen=True, kw_only=True):
    retry_s: float = 2.0
    longest_retry_s: float = 300.0
    give_up_after_s: float = 4 * 3600.0
    at_once: int = 16


@dataclass(slots=True)
class _Lane:
    """What waits for one destination."""

    destination: str
    waiting: deque[int] = field(default_factory=deque)
    failures: int = 0
    not_before_s: float = 0.0
    is_busy: bool = False

    @property
    def channel(self) -> str:
        return self.destination.partition(":")[0]


class Notifying:
    """`senders` by channel; a notification without a sender is given up immediately. `count` hears (channel, outcome) of each."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        senders: Mapping[str, Sender],
        settings: NotifyingSettings,
        count: Count = lambda channel, outcome: None,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._senders = senders
        self._settings = settings
        self._count = count
        self._alarm = Alarm()
        self._guard = Guard(ACTOR)
        self._lanes: dict[str, _Lane] = {}
        self._limits: list[tuple[int, int, int]] = []  # (when, number, run)
        self._alerts: dict[tuple[int, int, str], NoteAlert] = {}  # by number, run and rule
        self._tasks: set[asyncio.Task[None]] = set()
        replica.subscribe(self._note, of=_HEARD)
        self.reset()

    def reset(self) -> None:
        """Starts from what the state holds; for the start, and for a new leader."""
        self._lanes, self._limits, self._alerts = {}, [], {}
        for notification in self._replica.state.notifications.waiting.values():
            self._enqueue(notification)
        for record in self._replica.state.allocations.values():
            self._watch_limit(record)
        self._alarm.ring()

    def _note(self, index: int, envelope: Envelope, events: tuple[ev.AnyEvent, ...]) -> None:
        for event in events:
            match event:
                case ev.NotificationQueued():
                    self._enqueue(event.notification)
                case ev.NotificationDropped():
                    self._count("any", "dropped")
                    _log.warning("too many notifications wait for %s: one was dropped", event.user)
                case ev.AllocationStarted() | ev.AllocationUpdated() | ev.TimeLimitNeared():
                    record = self._replica.state.allocations.get(event.number)
                    if record is not None and record.notify is not None:
                        self._watch_limit(record)
                case _:
                    continue

    def _enqueue(self, notification: Notification) -> None:
        lane = self._lanes.get(notification.to)
        if lane is None:
            lane = self._lanes[notification.to] = _Lane(notification.to)
        lane.waiting.append(notification.number)
        self._alarm.ring()

    async def run(self) -> None:
        try:
            await keep_turning(ACTOR, self._turn)
        finally:
            await self._let_finish()

    async def _turn(self) -> None:
        await self._alarm.wait(self._pause_s())
        await self.note_limits()
        await self.note_alerts()
        self._start_lanes()

    async def _let_finish(self) -> None:
        """What is being sent is sent and settled, or else it would be sent once more."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORD_S)
        for task in self._tasks:
            task.cancel()

    # sending

    def _start_lanes(self) -> None:
        now_s = self._clock.monotonic_s()
        for lane in list(self._lanes.values()):
            if len(self._tasks) >= self._settings.at_once:
                return
            if not lane.is_busy and lane.waiting and lane.not_before_s <= now_s:
                lane.is_busy = True
                task = asyncio.create_task(self._serve(lane), name=f"notify {lane.channel}")
                self._tasks.add(task)
                task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._alarm.ring()

    async def _serve(self, lane: _Lane) -> None:
        """Sends the first that waits, and lets another destination have its turn."""
        try:
            await self._send_first(lane)
        except Exception as error:  # noqa: BLE001 - the edge of the destination: the others are served
            self._guard.failed(error, lane.destination)
            lane.not_before_s = self._clock.monotonic_s() + self._settings.retry_s
        else:
            self._guard.passed(lane.destination)
        finally:
            lane.is_busy = False
            self._lanes.pop(lane.destination, None)
            if lane.waiting:
                self._lanes[lane.destination] = lane  # behind all others

    async def _send_first(self, lane: _Lane) -> None:
        number = lane.waiting[0]
        notification = self._replica.state.notifications.waiting.get(number)
        if notification is None:
            lane.waiting.popleft()
            return
        sender = self._senders.get(lane.channel)
        if sender is None:
            await self._settle(lane, notification, "off")
            return
        try:
            await sender.send(notification)
        except DeliveryFailed as error:
            await self._failed(lane, notification, error)
        except Exception as error:  # noqa: BLE001 - whatever a sender does, it is asked again later and later, and not for ever
            _log.error("the sender of a notification by %s failed", lane.channel, exc_info=error)
            await self._failed(lane, notification, DeliveryFailed(f"{type(error).__name__}: {error}"))
        else:
            lane.failures = 0
            await self._settle(lane, notification, "delivered")

    async def _failed(self, lane: _Lane, notification: Notification, error: DeliveryFailed) -> None:
        settings = self._settings
        age_s = (self._clock.now_ms() - notification.at) / 1000
        about = {"user": notification.user, "allocation_id": notification.allocation, "notification": notification.id}
        if isinstance(error, Undeliverable) or age_s >= settings.give_up_after_s:
            _log.warning("a notification by %s is given up: %s", lane.channel, error, extra=about)
            await self._settle(lane, notification, "given_up")
            return
        self._count(lane.channel, "failed")
        pause_s = min(settings.retry_s * 2**lane.failures, settings.longest_retry_s)
        lane.failures = min(lane.failures + 1, 30)
        lane.not_before_s = self._clock.monotonic_s() + pause_s
        _log.info("a notification by %s failed, again in %g s: %s", lane.channel, pause_s, error, extra=about)

    async def _settle(self, lane: _Lane, notification: Notification, outcome: str) -> None:
        """Takes it out of the state. It was sent: whatever the log says, this server does not send it again."""
        lane.waiting.popleft()
        self._count(lane.channel, outcome)
        numbers = (notification.number,)
        is_sent = outcome == "delivered"
        command = SettleNotifications(delivered=numbers) if is_sent else SettleNotifications(given_up=numbers)
        with suppress(ReplicaStopped):
            while True:
                try:
                    await self._replica.propose(command, actor=ACTOR)
                except LogError as error:
                    _log.warning("a notification cannot be settled yet: %s", error)
                    await asyncio.sleep(SETTLE_RETRY_S)
                else:
                    return

    def _pause_s(self) -> float | None:
        """Until the next destination may be asked again, or the next limit is near; None = until something happens."""
        pauses: list[float] = []
        if len(self._tasks) < self._settings.at_once:
            idle = [lane.not_before_s for lane in self._lanes.values() if lane.waiting and not lane.is_busy]
            pauses += [min(idle) - self._clock.monotonic_s()] if idle else []
        if self._limits:
            pauses.append((self._limits[0][0] - self._clock.now_ms()) / 1000)
        return max(0.0, min(pauses)) if pauses else None

    # trouble

    def alerted(self, node: str, alerts: Iterable[NodeAlert]) -> None:
        """A node says that its work, or it itself, may be in trouble."""
        record = self._replica.state.nodes.get(node)
        for each in alerts:
            if each.alert.is_over or record is None:
                continue
            for number in record.holders() if each.key is None else (each.key.number,):
                self._keep_alert(node, number, each)
        if self._alerts:
            self._alarm.ring()

    def _keep_alert(self, node: str, number: int, told: NodeAlert) -> None:
        record, rule = self._replica.state.allocations.get(number), told.alert.rule
        if rule not in _RULES:  # a node that makes them up writes nothing to the log
            return
        if record is None or record.notify is None or Occasion.ALERT not in record.notify.on or rule in record.alerted:
            return
        if len(self._alerts) < MAX_ALERTS and (told.key is None or told.key.run == record.run):
            value = told.alert.value if isfinite(told.alert.value) else 0.0
            command = NoteAlert(number=number, run=record.run, rule=rule, node=node, value=value)
            self._alerts.setdefault((number, record.run, rule), command)

    async def note_alerts(self) -> int:
        """Notes what nodes said since; how many were proposed."""
        alerts, self._alerts = list(self._alerts.values()), {}
        if alerts:
            await self._replica.propose_many(alerts, ACTOR)
        return len(alerts)

    # walltimes

    def _watch_limit(self, record: Allocation) -> None:
        percent = _next_percent(record)
        if percent is not None:
            heappush(self._limits, (limit_moment(record, percent), record.number, record.run))
            self._alarm.ring()

    async def note_limits(self) -> int:
        """Notes what has come near its limit by now; how many were proposed."""
        now = self._clock.now_ms()
        due: dict[int, NoteTimeLimit] = {}
        failed: list[tuple[int, int, int]] = []
        while self._limits and self._limits[0][0] <= now:
            _, number, run = heappop(self._limits)
            with self._guard.item(allocation_id(number)):
                percent = self._passed_percent(number, run, now)
                if percent is not None:
                    due[number] = NoteTimeLimit(number=number, run=run, percent=percent)
                continue
            failed.append((now + LIMIT_RETRY_MS, number, run))
        for entry in failed:
            heappush(self._limits, entry)
        if due:
            await self._replica.propose_many(list(due.values()), ACTOR)
        return len(due)

    def _passed_percent(self, number: int, run: int, now: int) -> int | None:
        record = self._replica.state.allocations.get(number)
        return None if record is None or record.run != run else _passed_percent(record, now)


def _wanted(record: Allocation) -> list[int]:
    """The percentages of its walltime that are still to be reported, ascending."""
    if record.notify is None or not record.walltime_s or not record.is_running:
        return []
    on = record.notify.on
    return [percent for percent, occasion in NEAR_LIMIT.items() if occasion in on and percent > record.limit_noted]


def _next_percent(record: Allocation) -> int | None:
    return next(iter(_wanted(record)), None)


def _passed_percent(record: Allocation, now: int) -> int | None:
    """The highest of them that has passed; those below it are no news any more."""
    return max((percent for percent in _wanted(record) if limit_moment(record, percent) <= now), default=None)
