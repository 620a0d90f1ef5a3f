"""A log in memory: as strict as the durable ones, but lost with the process. For tests and throw-away clusters."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from lattice.ports.quorum.log import Conflict, Entry, LogUnavailable, Trimmed
from lattice.quorum.logs.epochs import new_epoch
from lattice.quorum.logs.tails import follow


class MemoryLog:
    """Entries in a list, which survive `close` and `open`, as in a file."""

    def __init__(self) -> None:
        self._first = 1
        self._payloads: list[bytes] = []
        self._opened = False
        self._grown = asyncio.Event()
        self._epoch = new_epoch()

    @property
    def epoch(self) -> int:
        return self._epoch

    async def open(self) -> None:
        self._opened = True

    async def close(self) -> None:
        self._opened = False
        self._wake_tails()

    async def bounds(self) -> tuple[int, int]:
        self._check_open()
        return self._first, self._last

    async def append(self, expected_last: int, payload: bytes) -> int:
        self._check_open()
        await asyncio.sleep(0)
        self._check_open()
        if expected_last != self._last:
            raise Conflict(f"entry {expected_last + 1} cannot follow: the newest entry is {self._last}")
        self._payloads.append(bytes(payload))
        self._wake_tails()
        return self._last

    async def read(self, first: int, limit: int) -> Sequence[Entry]:
        self._check_open()
        return self._page(first, limit)

    def tail(self, first: int) -> AsyncIterator[Entry]:
        return follow(first, self.read, lambda: self._grown)

    async def trim(self, before: int) -> None:
        self._check_open()
        keep_from = min(before, self._last)
        if keep_from > self._first:
            del self._payloads[: keep_from - self._first]
            self._first = keep_from

    @property
    def _last(self) -> int:
        return self._first + len(self._payloads) - 1

    def _page(self, first: int, limit: int) -> list[Entry]:
        if first < self._first:
            raise Trimmed(self._first)
        start = first - self._first
        return [Entry(first + i, payload) for i, payload in enumerate(self._payloads[start : start + limit])]

    def _wake_tails(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    def _check_open(self) -> None:
        if not self._opened:
            raise LogUnavailable("the log is closed")
