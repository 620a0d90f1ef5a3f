"""An agent's part in the collectors' tree: where its own heartbeats go, and, when ordered to, those of others.

A node keeps sending its heartbeats to the server until its collector has asked it for the first time, and resumes immediately when the
connection is lost or it was not asked in time. It never has two collectors: it leaves the one before it turns to the other.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from lattice.agent.collectors.rounds import Gatherer, MemberLine
from lattice.ports.nodes.collecting import CollectOrder, ReportOrder
from lattice.wire.agents.collecting import GatheredShare, seal
from lattice.wire.agents.messages import collecting_order_of
from lattice.wire.pb import agent_pb2 as pb

# A collector asks once in an interval, and may be held up.
PATIENCE = 1.5
MARGIN_S = 0.1
TIMER_S = 0.005  # a timer may come a little early


class CollectorLine(Protocol):
    """The way to a collector; it is kept open until closed."""

    def answer(self, beat: bytes) -> None: ...

    def bring(self, shares: list[GatheredShare]) -> None: ...

    def close(self) -> None: ...


class Gathering(Protocol):
    """What the members' connections speak to."""

    def joined(self, member: int, ticket: int, line: MemberLine) -> bool: ...

    def left(self, member: int, line: MemberLine) -> None: ...

    def answered(self, member: int, beat: bytes) -> None: ...

    def brought(self, member: int, shares: list[GatheredShare]) -> None: ...


class Switchboard(Protocol):
    """How nodes reach collectors."""

    def connect(
        self, address: str, member: int, ticket: int, *, asked: Callable[[], None], lost: Callable[[], None]
    ) -> CollectorLine:
        """Opens a way and keeps it open; `asked` for each question, `lost` whenever the connection ends."""
        ...


class Collection:
    """`make_beat` makes the next heartbeat, or None when the node is to be silent; `post` sends on the stream to the server."""

    def __init__(
        self,
        name: str,
        switchboard: Switchboard,
        make_beat: Callable[[], pb.Heartbeat | None],
        post: Callable[[pb.AgentMessage], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gatherer = Gatherer(name)
        self._switchboard = switchboard
        self._make_beat = make_beat
        self._post = post
        self._now_s = now_s
        self._told: ReportOrder | None = None
        self._line: CollectorLine | None = None
        self._asked_s: float | None = None  # by the collector of now
        self._watchdog: asyncio.TimerHandle | None = None
        self._round: asyncio.TimerHandle | None = None
        self._limit: asyncio.TimerHandle | None = None

    # What the server says

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was for this part of the agent."""
        match collecting_order_of(message):
            case CollectOrder() as order:
                self._collect(order)
            case ReportOrder() as order:
                self._report_to(order)
            case None:
                return False
        return True

    def closed(self) -> None:
        """The stream to the server is gone, and with it all orders received on it."""
        self.gatherer.close()
        self._stop(self._round, self._limit)
        self._leave()
        self._told = None

    def is_direct(self) -> bool:
        """Whether the node's periodic heartbeats go to the server itself, and are the caller's to send."""
        if self._told is not None and self._told.interval_s == 0:
            return False
        if self.gatherer.is_gathering and self._has_key:
            return False
        return not self._is_asked

    @property
    def _has_key(self) -> bool:
        return self._told is not None and bool(self._told.key)

    @property
    def _interval_s(self) -> float:
        return self._told.interval_s if self._told is not None else 0.0

    @property
    def _is_asked(self) -> bool:
        return self._asked_s is not None and self._now_s() - self._asked_s < PATIENCE * self._interval_s + MARGIN_S

    def _report_to(self, told: ReportOrder) -> None:
        if self._told is not None and told.generation < self._told.generation:
            return
        self._leave()
        self._told = told
        if told.interval_s == 0 or not told.collector:
            self._beat_directly()
        else:
            self._line = self._switchboard.connect(
                told.address, told.member, told.ticket, asked=self._asked, lost=self._lost
            )

    def _leave(self) -> None:
        line, self._line = self._line, None
        self._asked_s = None
        self._stop(self._watchdog)
        self._watchdog = None
        if line is not None:
            line.close()

    def _beat_directly(self) -> None:
        beat = self._make_beat()
        if beat is not None:
            self._post(pb.AgentMessage(heartbeat=beat))

    # What the collector says

    def _asked(self) -> None:
        self._asked_s = self._now_s()
        if self._watchdog is None:
            self._watch(PATIENCE * self._interval_s + MARGIN_S)
        if self.gatherer.is_gathering:
            self._begin()
            return
        beat = self._sealed()
        if self._line is not None and beat is not None:
            self._line.answer(beat)

    def _lost(self) -> None:
        was_asked, self._asked_s = self._is_asked, None
        if was_asked:
            self._go_direct()

    def _watch(self, in_s: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(in_s, self._check)

    def _check(self) -> None:
        """The collector should have asked by now."""
        self._watchdog = None
        if self._asked_s is None:
            return
        left_s = self._asked_s + PATIENCE * self._interval_s + MARGIN_S - self._now_s()
        if left_s > 0:
            self._watch(left_s)
        else:
            self._asked_s = None
            self._go_direct()

    def _go_direct(self) -> None:
        """The collector has stopped asking: report this node, and those it gathers, to the server immediately."""
        if self.gatherer.is_gathering:
            self._begin()
        else:
            self._beat_directly()

    def _sealed(self) -> bytes | None:
        beat = self._make_beat()
        if beat is None or self._told is None or not self._told.key:
            return None
        beat.ClearField("session")  # that is between the node and the server; the key says which one it is
        return seal(self._told.key, beat.SerializeToString())

    # What it gathers itself

    def _collect(self, order: CollectOrder) -> None:
        former_s = self.gatherer.interval_s
        self.gatherer.assign(order.interval_s, order.limit_s, dict(zip(order.members, order.tickets, strict=True)))
        if not self.gatherer.is_gathering:
            self._stop(self._round, self._limit)
        elif self.gatherer.interval_s != former_s:
            self._begin()  # not when the former interval is over, which may be long

    def _begin(self) -> None:
        """Asks everybody; the next time when the collector above asks, or else by the clock."""
        gatherer = self.gatherer
        is_first = gatherer.began_s is None
        gatherer.begin(self._now_s())
        loop = asyncio.get_running_loop()
        self._stop(self._round)
        pause_s = PATIENCE * gatherer.interval_s + MARGIN_S if self._is_asked else gatherer.interval_s
        self._round = loop.call_later(pause_s, self._begin)
        if is_first:
            self._stop(self._limit)
            self._limit = loop.call_later(gatherer.limit_s + TIMER_S, self._send_if_complete)
        self._send_if_complete()

    def _send_if_complete(self) -> None:
        now_s = self._now_s()
        if not self.gatherer.is_complete(now_s):
            return
        self._stop(self._limit)
        beat = self._sealed()
        own = (self._told.member, beat) if self._told is not None and beat is not None else None
        shares = self.gatherer.take(own, now_s)
        if self._line is not None and self._is_asked:
            self._line.bring(shares)
        else:
            self._post(collected(shares))

    def joined(self, member: int, ticket: int, line: MemberLine) -> bool:
        return self.gatherer.join(member, ticket, line)

    def left(self, member: int, line: MemberLine) -> None:
        self.gatherer.leave(member, line)
        self._send_if_complete()

    def answered(self, member: int, beat: bytes) -> None:
        self.gatherer.answer(member, beat, self._now_s())
        self._send_if_complete()

    def brought(self, member: int, shares: list[GatheredShare]) -> None:
        self.gatherer.bring(member, shares, self._now_s())
        self._send_if_complete()

    @staticmethod
    def _stop(*timers: asyncio.TimerHandle | None) -> None:
        for timer in timers:
            if timer is not None:
                timer.cancel()


def collected(shares: list[GatheredShare]) -> pb.AgentMessage:
    """All of it in one message."""
    columns = [
        pb.Gathered(collector=share.collector, members=share.members, ages_ms=share.ages_ms, beats=share.beats)
        for share in shares
    ]
    return pb.AgentMessage(collected_beats=pb.CollectedBeats(shares=columns))
