"""Waiting for changes: those who watch all of them at their own pace, and those who wait for one allocation.

Nothing is queued per client. A watcher keeps its place in the ring of changes; one that falls behind the oldest kept change receives an error.
"""

import asyncio
from collections.abc import Iterable

from lattice.api.limits import KEPT_CHANGES
from lattice.api.streams.changes import Change, ChangeRing
from lattice.ports.quorum.replica import Replica


class Feed:
    """The changes as one application serves them; closing it ends its streams and waits, not the ring."""

    def __init__(self, replica: Replica, kept: int = KEPT_CHANGES, ring: ChangeRing | None = None) -> None:
        self._own = ring is None
        self._ring = ring or ChangeRing(replica, kept)
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}
        self._readers: dict[asyncio.Future[None], None] = {}
        self.is_closed = False
        self._stop_listening = self._ring.listen(self._noted)

    @property
    def first(self) -> int:
        return self._ring.first

    @property
    def end(self) -> int:
        return self._ring.end

    @property
    def waiting(self) -> int:
        """How many wait for something to happen."""
        return len(self._readers) + sum(map(len, self._waiters.values()))

    def close(self) -> None:
        """Ends every stream and every wait; for a server that stops, or leads no more."""
        self.is_closed = True
        self._stop_listening()
        if self._own:
            self._ring.unsubscribe()
        for number in list(self._waiters):
            self._wake(number)
        self._wake_readers()

    def place_after(self, index: int) -> tuple[int, bool]:
        """Where to read what came after log entry `index`, and whether all of that is still kept."""
        return self._ring.place_after(index)

    def read(self, place: int, most: int) -> list[Change]:
        """Up to `most` changes from `place` on, which must not lie before `first`."""
        return self._ring.read(place, most)

    def is_last_of_entry(self, place: int) -> bool:
        """Whether no change of the same log entry follows the one at `place`."""
        return self._ring.is_last_of_entry(place)

    async def more(self, place: int, timeout_s: float) -> bool:
        """Waits until there is something at `place`; False when nothing came in time or the feed was closed."""
        if place < self.end or self.is_closed:
            return place < self.end
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers[future] = None
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            pass
        finally:
            # Also when the caller hung up: on a quiet cluster nothing else would take it away.
            self._readers.pop(future, None)
        return place < self.end

    async def next_change_of(self, number: int, timeout_s: float) -> bool:
        """Waits until something happens to this allocation or group; False when nothing did in time."""
        if self.is_closed:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(number, []).append(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._forget(number, future)
        return not self.is_closed

    def _forget(self, number: int, future: asyncio.Future[None]) -> None:
        waiting = self._waiters.get(number)
        if waiting is not None and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiters[number]

    def _noted(self, numbers: Iterable[int], blocks: Iterable[range]) -> None:
        for number in numbers:
            self._wake(number)
        if self._waiters:
            for block in blocks:
                for number in [waited for waited in self._waiters if waited in block]:
                    self._wake(number)
        self._wake_readers()

    def _wake(self, number: int) -> None:
        for future in self._waiters.pop(number, ()):
            if not future.done():
                future.set_result(None)

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, {}
        for future in readers:
            if not future.done():
                future.set_result(None)
