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

from lattice.wire.slurm.commands import SlurmAnswer

MAX_KEPT = 8
MIN_KEPT_TEXT = 16_384  # characters; shorter ones are quickly written
MAX_KEPT_TEXT = 4 << 20  # characters

Stamp = tuple[int, ...]


@dataclass(slots=True)
class _Kept:
    """One listing: its last answer, and the one who writes it now, who has the lock."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    answer: SlurmAnswer | None = None
    stamp: Stamp = ()
    began: int = 0  # when its writing began, on the counter of `KeptListings`


class KeptListings:
    """The last answers, those that were asked for longest ago dropped first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._turns = count(1)

    async def answer(
        self, key: Hashable, stamp: Callable[[], Stamp], write: Callable[[], Awaitable[SlurmAnswer]]
    ) -> SlurmAnswer:
        """What `write` returns, or has returned under the same key and stamp. The key names all that the answer depends on
        besides the stamp: what was asked for, and what the caller may see."""
        arrived = next(self._turns)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        async with kept.lock:
            now = stamp()
            if kept.answer is not None and (kept.stamp == now or kept.began > arrived):
                return kept.answer
            kept.answer, kept.stamp, kept.began = None, now, next(self._turns)
            answer = await write()
            if MIN_KEPT_TEXT <= len(answer.stdout) <= MAX_KEPT_TEXT:
                kept.answer = answer
            return answer
