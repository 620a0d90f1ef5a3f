"""The collectors' tree: who gathers whose heartbeats, who answers no more, and whether what is brought may be believed.

What holds: a node reports through one collector at the most. The last assignment sent to it voids all earlier ones, because each
assignment has a number, a ticket and a key of its own; a heartbeat under any other is refused and counted. Losing a collector costs
no node its state: nodes send their heartbeats here when they are not asked in time, and those of a lost collector get a fresh time-out.
A node that its collector says nothing of is asked itself before it counts as silent.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.collectors.assignments import Assignments
from lattice.control.collectors.unreported import UnreportedNodes
from lattice.control.heartbeats import Allowance, beats_per_s
from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.control.settings import seconds_setting
from lattice.core.machine.state import State
from lattice.core.model.nodes.collectors import DIRECTLY, depth_of, levels, may_bring, shares
from lattice.core.model.nodes.observations import Beat, Observations
from lattice.core.model.site.settings import setting_value
from lattice.ports.clock import Clock
from lattice.ports.nodes.collecting import CollectingLinks, CollectingOrder, CollectOrder, ReportOrder, Share
from lattice.ports.quorum.replica import Replica
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField

_log = logging.getLogger(__name__)

LOOP = "collectors"
COLLECTORS = "node.collectors"
INTERVAL = "node.heartbeat_interval_s"
TIMEOUT = "node.heartbeat_timeout_s"
FAN_OUT = "node.collector_fan_out"
# A round may take this much longer than the interval; a lower level less, so that the one above does not wait in vain.
ROUND_LIMIT = 1.5
LEVEL_FACTOR = 0.8
LIMIT_OF_TIMEOUT = 0.8
ASKED_OF_TIMEOUT = 0.4
# Many nodes come and go together: new shares are made for all of them in one step.
PLAN_PAUSE_S = 0.2
PLAN_SHARE = 50.0  # times what the last plan took pass before the next


class Hear(Protocol):
    """How a heartbeat is noted."""

    def __call__(self, node: str, session: int, beat: Beat, *, age_s: float = 0.0) -> bool: ...


class CollectorSettings(Struct, frozen=True, kw_only=True):
    """What holds unless the cluster's settings say otherwise."""

    interval_s: float = 10.0
    timeout_s: float = 30.0


class CollectorStatus(Struct, frozen=True, kw_only=True, gc=False):
    """For metrics and status: one collector, how many nodes it gathers, and through which collector it reports."""

    collector: str
    members: int
    through: str = DIRECTLY


@dataclass(slots=True)
class _Post:
    """A node whose stream is open. Made by `opened`, dropped by `closed`; `told` and `gathers` are what was sent on this stream."""

    # Fixed by its registration.
    node: str
    session: int  # a heartbeat of another one is not heard
    address: str  # where it could gather, "" = nowhere
    interval_s: float  # as it was welcomed
    allowance: Allowance  # of messages with what others said
    told: ReportOrder | None = (
        None  # its newest assignment; the ticket in it is valid exactly as long as it stands here
    )
    gathers: CollectOrder | None = None  # its newest list of members; None = never was a collector on this stream


class CollectorTree:
    """Hears of sessions, gives orders."""

    def __init__(
        self,
        replica: Replica,
        links: CollectingLinks,
        observations: Observations,
        clock: Clock,
        settings: CollectorSettings,
        hear: Hear,
    ) -> None:
        self._replica = replica
        self._links = links
        self._observations = observations
        self._clock = clock
        self._settings = settings
        self._hear = hear
        self._guard = Guard(LOOP)  # one node whose heartbeat or order fails does not keep the others from theirs
        self.counts: Counter[str] = Counter()  # for metrics; nothing is decided by them
        self.suspended: set[str] = set()  # they have a stream and bring nothing; one heartbeat ends it
        self.addresses: dict[str, str] = {}  # where nodes listened when they were last heard; outlives their streams
        # Nodes with a stream. Sessions change it at any moment; `plan` brings the rest in line with it a moment later, so
        # readers of `_above` and `_given` must expect nodes that have left `_open` since.
        self._open: dict[str, _Post] = {}
        # The tickets that are valid now, at most one per node. Only `_assign` issues, only `_void` takes back.
        self._assignments = Assignments()
        # The tree of the last plan, and together a partition of the nodes that report: collectors to the collector above them,
        # DIRECTLY at the top; all other nodes to their collector. Replaced by `plan` as a whole.
        self._above: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._heard: dict[
            str, float
        ] = {}  # when each collector of `_above` last sent a heartbeat of its own; the same keys
        self.unreported = UnreportedNodes(
            observations
        )  # nodes whose collector brought nothing of them; asked before they count as silent
        self._generation = 0  # of plans; rises with each, and orders of an older one are ignored by nodes
        # Remembered readings: the text of the setting with what it means, and the settings that the last plan rests on.
        self._named: tuple[str, tuple[str, ...]] = ("", ())
        self._asked: tuple[str, str, float] | None = None
        self._alarm = Alarm()  # rung with `_is_due`
        self._is_due = False  # something changed that the last plan does not know; `plan` alone clears it
        self._last_look = clock.monotonic_s()  # a look that comes late is no reason to call collectors lost
        self._next_plan = self._next_asking = 0.0  # not before
        self._tick_s = min(
            1.0, settings.timeout_s / 10
        )  # between two looks; fixed, so that `is_held_up` means something

    def reset(self) -> None:
        """Starts afresh; for a server that takes over."""
        self._assignments.clear()
        for gone in (self._open, self._above, self._given, self._heard, self.unreported, self.suspended):
            gone.clear()
        self._observations.via.clear()
        self._asked = None
        self._last_look = self._clock.monotonic_s()

    # What the sessions say

    def opened(self, node: str, session: int, address: str, interval_s: float) -> None:
        """The node takes orders; `address` is where it could gather, if anywhere, `interval_s` how often it beats."""
        self._forget(node)
        self.addresses[node] = address
        allowance = Allowance(beats_per_s(self._interval_s()), filled_at=self._clock.monotonic_s())
        self._open[node] = _Post(
            node=node, session=session, address=address, interval_s=interval_s, allowance=allowance
        )
        self._ring()

    def closed(self, node: str) -> None:
        """The node's stream is gone; what is still under way from it does not count any more."""
        if node in self._open:
            self._forget(node)
            self._ring()

    def heard_directly(self, node: str) -> None:
        """The node itself sent a heartbeat."""
        self._observations.via.pop(node, None)
        if node in self.suspended:
            self.suspended.discard(node)
            self._ring()

    def take(self, carrier: str, brought: Iterable[Share]) -> bool:
        """Notes what a collector brings, as far as it is its own share or that of one below it; False when it comes too often."""
        now = self._clock.monotonic_s()
        post = self._open.get(carrier)
        if post is None or not post.allowance.take(now):
            if post is not None:
                post.allowance.per_s = beats_per_s(self._interval_s())  # which may be another one by now
            self.counts["surplus"] += 1
            return False
        seen: set[int] = set()
        for share in brought:
            # More than all there is: not worth looking at one by one.
            if len(share.members) > len(self._assignments) or not self._may_bring(carrier, share.collector):
                self.counts["refused"] += len(share.members)
                continue
            self._take_share(share, seen, now)
        return True

    def _may_bring(self, carrier: str, collector: str) -> bool:
        return collector in self._above and may_bring(carrier, collector, self._above)

    def _take_share(self, share: Share, seen: set[int], now: float) -> None:
        via, taken = self._observations.via, 0
        for row, beat, age_s in self._assignments.believed(share, self.counts, seen):
            if row.node == share.collector and self._is_new(row.node, beat):
                # Only its own heartbeat says that a collector lives: shares can be brought in its name.
                self._heard[row.node] = now
            with self._guard.item(row.node):
                self._hear(row.node, row.session, beat, age_s=age_s)
                via[row.node] = row.through
                taken += 1
        self.counts["taken"] += taken
        self.counts["shares"] += 1

    def _is_new(self, node: str, beat: Beat) -> bool:
        known = self._observations.get(node)
        return known is None or beat.seq > known.seq

    # Whom they gather

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(self._tick_s)
        now = self._clock.monotonic_s()
        self.look(now)
        if self._is_due and now >= self._next_plan:
            self.plan()
            took_s = self._clock.monotonic_s() - now
            self._next_plan = now + max(PLAN_PAUSE_S, PLAN_SHARE * took_s)
        elif self._is_due:
            await asyncio.sleep(self._next_plan - now)
            self._alarm.ring()

    def look(self, now: float) -> None:
        """Notices settings that changed and collectors that bring nothing any more."""
        is_held_up = now - self._last_look > self._tick_s + max(1.0, self._timeout_s() / 4)
        self._last_look = now
        asked = self._settings_now()
        if asked != self._asked:
            self._is_due = True
        self._ask_all(now)
        if is_held_up:
            self.unreported.bear(now, self._timeout_s())
        if self.unreported.search(now, self._timeout_s(), self._given, self._open):
            self.counts["unreported_node"] = self.unreported.count
            self._is_due = True
        for collector in self._above:
            if is_held_up:
                self._heard[collector] = now
            elif now - self._heard[collector] > self._patience_s():
                _log.warning("a collector brings nothing any more", extra={"node_id": collector})
                self.counts["lost"] += 1
                self.suspended.add(collector)
                self._is_due = True

    def _ask_all(self, now: float) -> None:
        """Nodes that report once and wait are asked as often as their time-out needs it."""
        if self._interval_s() > 0 or now < self._next_asking:
            return
        self._next_asking = now + ASKED_OF_TIMEOUT * self._timeout_s()
        for post in self._open.values():
            if post.told is None or not post.told.interval_s:
                post.told = ReportOrder(generation=self._generation, interval_s=0.0)
                self._tell(post.node)

    def plan(self) -> None:
        """Recompute the shares and notify the nodes concerned."""
        self._is_due = False
        self._asked = self._settings_now()
        self._generation += 1
        wanted = self._wanted()
        self.suspended.intersection_update(wanted)
        collectors = [name for name in wanted if self._is_fit(name)]
        now = self._clock.monotonic_s()
        self._spare(self._above.keys() - set(collectors), now)
        fan_out = int(setting_value(self._state.settings, FAN_OUT))
        above = self._above = levels(collectors, fan_out, self._above)
        members = [node for node in self._open if node not in above and node not in self.suspended]
        self.unreported.keep_those_of(above, self._open)
        shared = shares(collectors, [node for node in members if node not in self.unreported], self._given)
        self._given = shared | dict.fromkeys((node for node in members if node in self.unreported), DIRECTLY)
        self._heard = {name: self._heard.get(name, now) for name in above}
        interval_s = self._interval_s()
        fresh = [node for node, target in self._targets() if self._assigned(node, target, interval_s)]
        for node in fresh:
            if node in above:
                self._tell(node)
        self._tell_collectors()  # they know their members before these come
        for node in fresh:
            if node not in above:
                self._tell(node)
        self._tell_suspended()

    def _targets(self) -> list[tuple[str, str]]:
        return [*self._given.items(), *self._above.items()]

    def _spare(self, lost: Set[str], now: float) -> None:
        """Nodes that reported through a lost collector may need a while to report again."""
        if not lost:
            return
        struck = {name for name in self._above if any(may_bring(one, name, self._above) for one in lost)}
        for node, target in self._targets():
            if target in struck and node in self._open:
                self._observations.touch(node, now)

    def standings(self) -> list[CollectorStatus]:
        sizes = Counter(self._given.values())
        return [
            CollectorStatus(collector=name, members=sizes[name], through=parent)
            for name, parent in sorted(self._above.items())
        ]

    @property
    def _state(self) -> State:
        return self._replica.state

    def _ring(self) -> None:
        self._is_due = True
        self._alarm.ring()

    def _settings_now(self) -> tuple[str, str, float]:
        settings = self._state.settings
        return setting_value(settings, COLLECTORS), setting_value(settings, FAN_OUT), self._interval_s()

    def _interval_s(self) -> float:
        return seconds_setting(self._state, INTERVAL, self._settings.interval_s)

    def _timeout_s(self) -> float:
        return seconds_setting(self._state, TIMEOUT, self._settings.timeout_s)

    def _limit_s(self) -> float:
        """Those who answered must not look silent because others did not."""
        return min(ROUND_LIMIT * self._interval_s(), LIMIT_OF_TIMEOUT * self._timeout_s())

    def _patience_s(self) -> float:
        return max(2 * self._interval_s(), 0.6 * self._timeout_s())

    def _wanted(self) -> Sequence[str]:
        text = setting_value(self._state.settings, COLLECTORS)
        if text != self._named[0]:
            try:
                self._named = text, node_names(text, COLLECTORS) if text else ()
                if strangers := [name for name in self._named[1] if name not in self._state.nodes]:
                    _log.warning("%s names unknown nodes: %s", COLLECTORS, ", ".join(strangers[:10]))
            except BadField as error:
                _log.error("%s cannot be read: %s", COLLECTORS, error)
                self._named = text, ()
        return self._named[1]

    def _is_fit(self, name: str) -> bool:
        post = self._open.get(name)
        return post is not None and bool(post.address) and name not in self.suspended and self._interval_s() > 0

    def _assigned(self, node: str, target: str, interval_s: float) -> bool:
        """Whether there is a new assignment to tell the node of; one that cannot be made leaves the node as it was."""
        with self._guard.item(f"the assignment of {node}"):
            return self._assign(node, target, interval_s)
        return False

    def _assign(self, node: str, target: str, interval_s: float) -> bool:
        """Make a new assignment, unless the one the node has is still right."""
        post = self._open[node]
        told = post.told
        share = node if node in self._above else target
        if told is None and not share and post.interval_s == interval_s:
            return False
        address = self._open[target].address if target else ""
        if told is not None and self._is_right(told, share, (target, address, interval_s)):
            return False
        self._void(post)
        order = ReportOrder(generation=self._generation, interval_s=interval_s, collector=target, address=address)
        if share:
            made = self._assignments.issue(node, post.session, share=share, through=target)
            order = replace(order, member=made.member, ticket=made.ticket, key=made.key)
        post.told = order
        return True

    def _is_right(self, told: ReportOrder, share: str, place: tuple[str, str, float]) -> bool:
        """Whether the node already has this place, in the same part: a collector's heartbeats come in its own share."""
        place_told = (told.collector, told.address, told.interval_s)
        return place_told == place and self._assignments.share_of(told.member) == share

    def _tell(self, node: str) -> None:
        """An assignment that cannot be sent is made again at the next plan."""
        post = self._open[node]
        if post.told is not None and not self._ordered(node, post.told):
            self._void(post)
            post.told = None
            self._is_due = True

    def _ordered(self, node: str, order: CollectingOrder) -> bool:
        with self._guard.item(f"an order to {node}"):
            return self._links.order_collecting(node, order)
        return False

    def _tell_collectors(self) -> None:
        below: dict[str, list[ReportOrder]] = {name: [] for name in self._above}
        for node, target in self._targets():
            told = self._open[node].told
            if target and told is not None:
                below[target].append(told)
        for name, members in below.items():
            self._tell_collector(self._open[name], members)
        for name, post in self._open.items():
            if name not in self._above and post.gathers is not None and post.gathers.interval_s:
                self._tell_collector(post, ())

    def _tell_collector(self, post: _Post, members: Sequence[ReportOrder]) -> None:
        interval_s = self._interval_s()
        order = CollectOrder(
            generation=self._generation,
            interval_s=interval_s if post.node in self._above else 0.0,
            limit_s=self._limit_s() * LEVEL_FACTOR ** depth_of(post.node, self._above),
            members=tuple(order.member for order in members),
            tickets=tuple(order.ticket for order in members),
        )
        before = post.gathers
        if before is not None and replace(before, generation=order.generation) == order:
            return
        post.gathers = order
        if not self._ordered(post.node, order):
            post.gathers = before
            self._is_due = True

    def _tell_suspended(self) -> None:
        """A collector that was lost and still has a stream is to say once that it is there, and to wait."""
        for node in self.suspended:
            post = self._open.get(node)
            if post is None or (post.told is not None and post.told.interval_s == 0):
                continue
            self._void(post)
            post.told = ReportOrder(generation=self._generation, interval_s=0.0)
            self._tell(node)

    def _void(self, post: _Post) -> None:
        if post.told is not None:
            self._assignments.void(post.told.member)

    def _forget(self, node: str) -> None:
        post = self._open.pop(node, None)
        if post is not None:
            self._void(post)
        self.suspended.discard(node)
        self.unreported.discard(node)
        self._observations.via.pop(node, None)
