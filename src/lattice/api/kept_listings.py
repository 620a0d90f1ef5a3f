"""Long listings, written once for everybody who asks the same while nothing has changed.

Writing ten thousand rows takes a hundred milliseconds of the event loop, and those who watch a queue ask for the same rows every
few seconds. An answer counts again as long as its stamp is that of the present. Callers who ask while it is being written wait for
it; those who came before the writing began take it, even if something has changed since: it shows all that was true when they asked.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from lattice.api.answers import Page, Shared
from lattice.wire.slurm.commands import SlurmAnswer
from lattice.wire.work.allocations import AllocationView

MAX_KEPT = 8
MAX_KEPT_PAGES = 2  # a page of ten thousand takes some 30 MB
MIN_KEPT_ROWS = 1000
MIN_KEPT_TEXT = 16_384  # characters; shorter ones are quickly written
MAX_KEPT_TEXT = 4 << 20  # characters

T = TypeVar("T")
Stamp = tuple[int, ...]


@dataclass(slots=True)
class _Kept(Generic[T]):
    """One listing: its last answer, and the one who writes it now, who has the lock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    answer: T | None = None
    stamp: Stamp = ()
    began: int = 0  # when its writing began, on the counter of `KeptListings`


def is_long_text(answer: SlurmAnswer) -> bool:
    return MIN_KEPT_TEXT <= len(answer.stdout) <= MAX_KEPT_TEXT


def is_long_page(page: Shared[Page[AllocationView]]) -> bool:
    return len(page.answer.items) >= MIN_KEPT_ROWS


class KeptListings(Generic[T]):
    """The last answers that are worth it, those that were asked for longest ago dropped first."""

    def __init__(self, is_worth_it: Callable[[T], bool], most: int = MAX_KEPT) -> None:
        self._is_worth_it = is_worth_it
        self._most = most
        self._kept: OrderedDict[Hashable, _Kept[T]] = OrderedDict()
        self._turns = count(1)

    async def answer(self, key: Hashable, stamp: Callable[[], Stamp], write: Callable[[], Awaitable[T]]) -> T:
        """What `write` returns, or has returned under the same key and stamp. The key names all that the answer depends on
        besides the stamp: what was asked for, and what the caller may see."""
        arrived = next(self._turns)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        async with kept.lock:
            now = stamp()
            if kept.answer is not None and (kept.stamp == now or kept.began > arrived):
                return kept.answer
            kept.answer, kept.stamp, kept.began = None, now, next(self._turns)
            answer = await write()
            if self._is_worth_it(answer):
                kept.answer = answer
            return answer
