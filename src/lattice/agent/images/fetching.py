"""Images on their way to this node: one fetch per digest however many runs wait, a word about how far it is, and an end when it stalls."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lattice.agent.images.cache import CacheFull, ImageCache
from lattice.agent.images.sources import FetchStopped, Reader
from lattice.ports.nodes.images import ComingImage, ImageOrder

CONCURRENCY = 8  # fetches on this node; further ones wait
SAY_EVERY_S = 2.0
MOVES_S = 10.0  # after this time without a byte it is no progress
STALLED_AFTER_S = 600.0
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))

Say = Callable[[str], bool]  # False when the image is not wanted any more


class _Fetch:
    """Written by the thread that fetches, read by those who wait."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        self.stopped = threading.Event()
        self.moved_at = time.monotonic()
        self.done = 0
        self.total = 0

    def progress(self, done: int, total: int) -> None:
        self.moved_at, self.done, self.total = time.monotonic(), done, total


class ImageFetcher:
    """The threads are its own: however slow a registry or a user's file system is, the rest of the agent does not wait.

    `server` is the program that serves images where the agent is not root; empty = the kernel mounts them.
    """

    def __init__(self, cache: ImageCache, stalled_after_s: float = STALLED_AFTER_S, server: str = "") -> None:
        self.cache = cache
        self.server = server
        self._stalled_after_s = stalled_after_s
        self._pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="image")
        self._turns: dict[str, asyncio.Lock] = {}
        self._running: dict[str, _Fetch] = {}
        self._waiting: dict[str, int] = {}
        self.on_change: Callable[[], None] = lambda: (
            None
        )  # called when an image came, could not be fetched, or was evicted

    async def obtain(self, image: ImageOrder, reader: Reader, say: Say = lambda _: True) -> Path:
        """The image's file. `say` hears every other second how far it is, and may end it. Raises what `ImageCache.obtain` does."""
        turn = self._turns.setdefault(image.digest, asyncio.Lock())
        self._waiting[image.digest] = self._waiting.get(image.digest, 0) + 1
        try:
            await self._wait(turn, image, say)
            try:
                return await self._fetch(image, reader, say)
            finally:
                turn.release()
        finally:
            self._waiting[image.digest] -= 1
            if not self._waiting[image.digest]:
                del self._waiting[image.digest], self._turns[image.digest]

    def coming(self) -> list[ComingImage]:
        """What is on its way now."""
        return [
            ComingImage(reference=fetch.reference, digest=digest, done=fetch.done, total=fetch.total)
            for digest, fetch in self._running.items()
        ]

    async def _wait(self, turn: asyncio.Lock, image: ImageOrder, say: Say) -> None:
        while True:
            try:
                await asyncio.wait_for(turn.acquire(), SAY_EVERY_S)
            except TimeoutError:
                self._tell(image, say)
            else:
                return

    async def _fetch(self, image: ImageOrder, reader: Reader, say: Say) -> Path:
        fetch = self._running[image.digest] = _Fetch(image.reference)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._pool, self.cache.obtain, image, reader, fetch.stopped.is_set, fetch.progress)
        try:
            while True:
                done, _ = await asyncio.wait([work], timeout=SAY_EVERY_S)
                if done:
                    return work.result()
                if time.monotonic() - fetch.moved_at > self._stalled_after_s:
                    raise CacheFull(f"{image.reference} did not get any further for {self._stalled_after_s:g} s")
                self._tell(image, say)
        finally:
            fetch.stopped.set()
            self._running.pop(image.digest, None)
            work.cancel()
            self.on_change()

    def _tell(self, image: ImageOrder, say: Say) -> None:
        fetch = self._running.get(image.digest)
        text = ""
        if fetch is not None and fetch.done and time.monotonic() - fetch.moved_at < MOVES_S:
            text = f"pulling {image.reference.partition('@')[0]}: {amounts(fetch.done, fetch.total)}"
        if not say(text):
            raise FetchStopped


def amounts(done: int, total: int) -> str:
    """`3.1 of 12.0 GB`."""
    most = max(done, total)
    unit, size = next((each for each in _UNITS if most >= each[1]), _UNITS[-1])
    return f"{done / size:.1f} of {total / size:.1f} {unit}" if total else f"{done / size:.1f} {unit}"


__all__ = ["FetchStopped", "ImageFetcher", "amounts"]
