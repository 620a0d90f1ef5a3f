"""The turns a server takes: campaign, lead until the leadership is lost, follow, campaign again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lattice.ports.quorum.leadership import Leadership
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.audit import AuditError
from lattice.quorum.leadership.clock_guard import ClockGuard

_log = logging.getLogger(__name__)


class Turns:
    """Run it for good. `follow` undoes `lead`, however far that came, and is awaited after every turn."""

    def __init__(
        self,
        leadership: Leadership,
        clocks: ClockGuard,
        lead: Callable[[], Awaitable[None]],
        follow: Callable[[], Awaitable[None]],
    ) -> None:
        self._leadership = leadership
        self._clocks = clocks
        self._lead = lead
        self._follow = follow
        # Set by a loss of leadership at any moment, also while `lead` still runs; cleared before a campaign, nowhere else.
        self._lost = asyncio.Event()
        leadership.on_loss(self._lost.set)

    async def run(self) -> None:
        while True:
            await self._clocks.until_fit()
            self._lost.clear()
            await self._leadership.campaign()
            try:
                await self._lead()
                await self._lost.wait()
            except (LogError, ReplicaStopped, RuntimeError, AuditError) as error:
                _log.error("cannot become the leader: %s", error)
                await self._leadership.resign()
            finally:
                await self._follow()
