"""Whether a server can answer requests: that needs a majority of the log, and a leader.

It repeats a linearizable read of the log's head; two failures in a row are an outage, so that a change of leader
is not one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from lattice.ports.quorum.log import LogError

LOOK_EVERY_S = 1.0
ANSWER_WITHIN_S = 2.0
FAILURES = 2


class OutageWatch:
    """Run it permanently; `outage` says why requests cannot be answered, and is empty while they can."""

    def __init__(
        self,
        read_head: Callable[[], Awaitable[int]],
        leader_name: Callable[[], str],
        changed: Callable[[bool], Awaitable[None]],
    ) -> None:
        self._read_head = read_head
        self._leader_name = leader_name
        self._changed = changed
        self._failures = 0
        self.outage = ""

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """One try."""
        why = await self._why()
        self._failures = self._failures + 1 if why else 0
        outage = why if self._failures >= FAILURES else ""
        if bool(outage) != bool(self.outage):
            await self._changed(not outage)
        self.outage = outage

    async def _why(self) -> str:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._read_head()
        except (TimeoutError, LogError):
            return "no majority"
        return "" if self._leader_name() else "no leader"
