"""A server whose clock is wrong does not lead: what it stamped would hold for all.

It gives way when its clock jumps against the monotonic one, or is too far from those of the other servers, and campaigns
again when it agrees with them. Where no other server answers, it leads on in the log's time, which does not follow the jump.
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
    """Run it for good; `until_fit` before a campaign, `until_unfit` while leading. `measure` brings the skews up to date."""

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
        """Why this server must not lead now; empty when its clock is well."""
        return self._problem

    async def run(self) -> None:
        while True:
            await self._look()
            self._measured.set()
            await asyncio.sleep(MEASURE_EVERY_S)

    async def until_unfit(self) -> str:
        """The problem, as soon as there is one."""
        await self._unfit.wait()
        return self._problem

    async def until_fit(self) -> None:
        """Returns when this server may lead."""
        try:
            async with asyncio.timeout(FIRST_MEASURE_S):
                await self._measured.wait()
        except TimeoutError:
            _log.warning("no other server says how late it is; this one leads by its own clock")
        told = False
        while self._problem:
            if not told:
                _log.error("this server does not lead: %s; see that time is synchronised (chrony, ntpd)", self._problem)
            told = True
            await self._look()
            if self._problem:
                await asyncio.sleep(LOOK_AGAIN_S)

    def _jumped(self, seconds: float) -> None:
        direction = "ahead" if seconds > 0 else "back"
        # What was measured before compares with a clock that is no more.
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
