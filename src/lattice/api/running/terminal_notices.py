"""What a person at a terminal learns before work ends: its walltime, the end of idle work, preemption; and that a terminal is idle."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

from msgspec import Struct

from lattice.api.context import Context
from lattice.core.machine.rules.work.notifications import limit_moment
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, StopIntent
from lattice.ports.nodes.steps import StepView

LIMIT_MARKS_S = (600, 300, 60)  # before the walltime is over
IDLE_END_MARK_S = 300
QUIET_S = 1800
LOOK_EVERY_S = 1.0
WHOLE = 100  # percent

P = TypeVar("P")


class StepNotice(Struct, frozen=True, kw_only=True):
    """A sentence for the person at the terminal; it is no output."""

    text: str


def due(record: Allocation, quiet_since: int, idle_end_at: int, after: int, upto: int) -> list[str]:
    """What is to be said of the time behind `after` and up to `upto` (milliseconds)."""

    def passed(moment: int) -> bool:
        return after < moment <= upto

    name, told = allocation_id(record.number), list[str]()
    if not record.is_running:
        return told
    limit_at = limit_moment(record, WHOLE) if record.walltime_s and not record.paused_at else 0
    for mark_s in LIMIT_MARKS_S:
        if limit_at and passed(limit_at - mark_s * 1000):
            told.append(f"{name} ends in {_span(mark_s)}: its walltime is over then")
    if idle_end_at and passed(idle_end_at - IDLE_END_MARK_S * 1000):
        told.append(f"{name} is idle and ends in {_span(IDLE_END_MARK_S)}; type something to keep it")
    if quiet_since and passed(quiet_since + QUIET_S * 1000):
        left = f". Walltime remaining: {_span(max(0, limit_at - upto) // 1000)}" if limit_at else ""
        told.append(f"Warning: no input for {_span(QUIET_S)}{left}")
    return told


def _span(seconds: int) -> str:
    """`5 minutes`, `3 h 12 min`."""
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


class Notices:
    """Those for one client of a terminal."""

    def __init__(self, context: Context, number: int, look: Callable[[], StepView | None]) -> None:
        self._context = context
        self._number = number
        self._look = look
        self._upto = context.services.clock.now_ms()
        record = context.state.allocations.get(number)
        self._preempted = record.preempted if record is not None else 0

    def take(self) -> list[StepNotice]:
        """Notices since the last call."""
        services = self._context.services
        record = self._context.state.allocations.get(self._number)
        after, self._upto = self._upto, services.clock.now_ms()
        if record is None:
            return []
        if preemption := self._preemption(record):
            return [StepNotice(text=preemption)]
        view = self._look()
        quiet_since = max(view.fed_at, view.started_at) if view is not None else 0
        idle_end_at = services.idle.ends_at(self._number) if services.idle is not None else 0
        return [StepNotice(text=text) for text in due(record, quiet_since, idle_end_at, after, self._upto)]

    def _preemption(self, record: Allocation) -> str:
        """Said once, when it begins, or when it is seen to be over."""
        count = record.preempted + (record.intent is StopIntent.PREEMPT)
        if count <= self._preempted:
            return ""
        self._preempted = count
        way = f"lattice attach {allocation_id(self._number)}"
        return f"Allocation preempted. Session suspended. Use '{way}' to reconnect after rescheduling."


async def with_notices(
    pieces: AsyncGenerator[P, None], notices: Notices, judge: Callable[[], None]
) -> AsyncGenerator[P | StepNotice, None]:
    """The pieces as they come, and the notices between them. `judge` raises ApiError when the client may see no more."""
    upcoming: asyncio.Task[P | None] | None = None
    async with aclosing(pieces):
        try:
            while True:
                upcoming = upcoming or asyncio.create_task(_next(pieces))
                await asyncio.wait((upcoming,), timeout=LOOK_EVERY_S)
                judge()
                for notice in notices.take():
                    yield notice
                if upcoming.done():
                    piece, upcoming = upcoming.result(), None
                    if piece is None:
                        return
                    yield piece
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)


async def _next(pieces: AsyncGenerator[P, None]) -> P | None:
    return await anext(pieces, None)
