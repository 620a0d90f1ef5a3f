"""Full tunnels rest while work starts: what people wait for goes before bytes of which there is no end.

A tunnel at full speed keeps a core busy here, another one in its sender and more at the servers and the client; a process that starts beside it
waits for all of them. Streams that carry little, as web pages do, never rest.
"""

import asyncio
from collections.abc import Callable, Coroutine

# A stream that carried this many bytes within this many seconds is full.
FULL_BYTES, FULL_WITHIN_S = 1 << 20, 0.05
# How long streams rest after the process of a start was made, which then has its program loaded; and for one that takes longer, as images do.
AFTER_S, SLOW_S = 0.05, 0.5
# At most this many seconds at a time; and at least this share of the time is for the streams, however much is started.
LONGEST_S, CARRYING = 0.3, 0.1
_LOOK_AGAIN_S = 0.005


class Resting:
    """`now_s` is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._starting = 0
        self._until_s = 0.0  # of the rest that starts ask for
        self._left_s = LONGEST_S  # how long streams may rest from now on
        self._seen_s = now_s()

    async def during(self, start: Coroutine[None, None, None]) -> None:
        """Carries out a start, for which full streams rest."""
        self._count()
        self._starting += 1
        self._until_s = self._now_s() + SLOW_S
        try:
            await start
        finally:
            self._count()
            self._starting -= 1
            soon_s = self._now_s() + AFTER_S
            self._until_s = max(self._until_s, soon_s) if self._starting else soon_s

    def is_on(self) -> bool:
        return self._count() and self._left_s > 0

    async def over(self) -> None:
        while self.is_on():  # noqa: ASYNC110 - its end is a moment that new starts move
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _count(self) -> bool:
        """Time since the last look was rest, or adds to what may be rested; whether there is a start now."""
        now_s = self._now_s()
        rested_s = max(0.0, min(now_s, self._until_s) - self._seen_s) if self._left_s > 0 else 0.0
        carried_s = now_s - self._seen_s - rested_s
        left_s = max(0.0, self._left_s - rested_s) + carried_s * (1 - CARRYING) / CARRYING
        self._left_s, self._seen_s = min(left_s, LONGEST_S), now_s
        return now_s < self._until_s


class Pace:
    """Of one direction of one stream."""

    def __init__(self, resting: Resting, now_s: Callable[[], float]) -> None:
        self._resting = resting
        self._now_s = now_s
        self._since_s = now_s()
        self._carried = 0

    async def keep(self, count: int) -> None:
        """Returns when `count` more bytes may go."""
        now_s = self._now_s()
        if now_s - self._since_s > FULL_WITHIN_S:
            self._since_s, self._carried = now_s, 0
        self._carried += count
        if self._carried >= FULL_BYTES:
            await self._resting.over()
