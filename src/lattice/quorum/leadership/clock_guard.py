"""A server whose clock is wrong does not lead: its timestamps would apply to all servers.

It gives up leadership when its clock jumps against the monotonic one, or differs too much from those of the other servers, and
campaigns again when they agree. If no other server answers, it keeps leading by the log's time, which ignores the jump.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lattice.quorum.log_clock import LogClock, clock_fault
from lattice.quorum.peers.clock_skew import SkewWatch

MEASURE_EVERY_S = 10.0
FIRST_MEASURE_S = 1.0
LOOK_AGAIN_S = 1.0

_log = logging.getLogger(__name__)


class ClockGuard:
    """Run it permanently; `until_fit` before a campaign, `until_unfit` while leading. `measure` updates the skews."""

    def __init__(
        self, clock: LogClock, skew: SkewWatch, measure: Callable[[], Awaitable[None]], limit_s: float
    ) -> None:
        self._clock = clock
        self._skew = skew
        self._measure = measure
        self._limit_s = limit_s
        self._measured = asyncio.Event()
        self._unfit = asyncio.Event()
        self._problem = ""
        clock.on_jump(self._jumped)

    @property
    def problem(self) -> str:
        """Why this server must not lead now; empty if its clock is right."""
        return self._problem

    async def run(self) -> None:
        while True:
            await self._look()
            self._measured.set()
            await asyncio.sleep(MEASURE_EVERY_S)

    async def until_unfit(self) -> str:
        """Returns the problem as soon as there is one."""
        await self._unfit.wait()
        return self._problem

    async def until_fit(self) -> None:
        """Returns when this server may lead."""
        try:
            async with asyncio.timeout(FIRST_MEASURE_S):
                await self._measured.wait()
        except TimeoutError:
            _log.warning("cannot compare clocks: no other server answers; leading by the local clock")
        told = False
        while self._problem:
            if not told:
                _log.error("this server does not lead: %s; check time synchronization (chrony, ntpd)", self._problem)
            told = True
            await self._look()
            if self._problem:
                await asyncio.sleep(LOOK_AGAIN_S)

    def _jumped(self, seconds: float) -> None:
        direction = "ahead" if seconds > 0 else "back"
        # Earlier measurements refer to the clock before the jump.
        self._skew.keep_only(())
        self._set(f"its clock jumped {direction} by {abs(seconds):.1f} s, more than {self._limit_s:g} s")

    async def _look(self) -> None:
        await self._measure()
        self._clock.now_ms()
        others = self._skew.skews_s.values()
        problem = clock_fault(others, self._limit_s)
        if not problem and others and self._clock.jump_s:
            self._clock.accept()
        self._set(problem)

    def _set(self, problem: str) -> None:
        self._problem = problem
        if problem:
            self._unfit.set()
        else:
            self._unfit.clear()
