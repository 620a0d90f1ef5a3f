"""Samples a server's metrics all the time, so that the hours before a question can be answered, too."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lattice.observe.figures.ring import FigureRing
from lattice.observe.metrics import Metrics
from lattice.ports.clock import Clock
from lattice.ports.quorum.log import Log, LogError

SAMPLE_EVERY_S = 60.0
LOOK_EVERY_S = 15.0

_log = logging.getLogger(__name__)


class FigureKeeper:
    """Fills the ring, and asks the log for its length, which costs a question where the log is another process."""

    def __init__(
        self,
        metrics: Metrics,
        log: Log,
        clock: Clock,
        *,
        sample_every_s: float = SAMPLE_EVERY_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.ring = FigureRing()
        self.log_entries: int | None = None
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._sample_every_s = sample_every_s
        self._sleep = sleep

    async def run(self) -> None:
        """Never returns."""
        sampled_s = float("-inf")
        while True:
            await self._measure()
            now_s = self._clock.monotonic_s()
            if now_s - sampled_s >= self._sample_every_s:
                sampled_s = now_s
                self.ring.take(self._metrics.registry, self._clock.now_ms() / 1000)
            await self._sleep(min(LOOK_EVERY_S, self._sample_every_s))

    async def _measure(self) -> None:
        try:
            first, last = await self._log.bounds()
        except LogError as error:
            self.log_entries = None
            _log.debug("the length of the log is not known: %s", error)
            return
        self.log_entries = max(0, last - first + 1)
