"""The log's head for readers: callers that arrive during a read share the next one.

A read that started before the call does not cover what was acknowledged in between.
"""

import asyncio
from collections.abc import Awaitable, Callable


class HeadReader:
    """`read` returns an index that contains everything acknowledged before it was called."""

    def __init__(self, head: Callable[[], Awaitable[int]]) -> None:
        self._head = head
        self._running: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def read(self) -> int:
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._running))
        return await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        return await self._head()
