"""How work on a large request leaves the event loop to others: in slices on the loop, or in the one thread for large requests.

A slice ends after a time and not after a number of records: how long a record takes depends on its kind and on the machine.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from heapq import merge
from itertools import islice
from time import monotonic
from typing import Any, TypeVar

SLICE_S = 0.004
FEW = 8  # records that are only looked at between two looks at the clock; what is made of one may take long, so each counts
_KEYS_TOGETHER = 500
_SORTED_TOGETHER = 10_000  # some 5 ms; merging shorter runs takes twice the time of sorting them together
_FREED_TOGETHER = 500
_JOINED_TOGETHER = 8

T = TypeVar("T")

# One thread: large requests wait for each other, and never for the disk, whose work has threads of its own.
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-request")


class Pace:
    """The slices of one piece of work. `if pace.is_due(): await pace.rest()` stands inside its loop."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = monotonic() + SLICE_S

    def is_due(self) -> bool:
        return monotonic() >= self._until

    async def rest(self) -> None:
        """Let others have their turn."""
        await asyncio.sleep(0)
        self._until = monotonic() + SLICE_S


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """The result of work that touches nothing that the event loop changes.

    A thread hands the interpreter over every half a millisecond, but not within one call of a C function.
    """
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *arguments)


async def free_in_slices(*lists: list[Any]) -> None:
    """Empties the lists. A hundred thousand records that go out of use at once hold the loop for longer than it took to make one."""
    pace = Pace()
    for items in lists:
        while items:
            del items[-_FREED_TOGETHER:]
            if pace.is_due():
                await pace.rest()


async def joined_in_slices(texts: Iterable[str], end: str = "") -> str:
    """All texts, each with `end` behind it.

    The whole grows in its place: one call of `join` for an answer of many megabytes keeps the interpreter for as long as the kernel
    takes to hand out their pages.
    """
    whole, pace, waiting = "", Pace(), iter(texts)
    while some := list(islice(waiting, _JOINED_TOGETHER)):
        whole += end.join(some) + end
        if pace.is_due():
            await pace.rest()
    return whole


async def sorted_in_slices(
    items: Iterable[T], key: Callable[[T], Any], pace: Pace, *, reverse: bool = False
) -> list[T]:
    """As `sorted`, equal items in their order."""
    waiting, keys = list(items), list[Any]()
    for start in range(0, len(waiting), _KEYS_TOGETHER):
        keys.extend(map(key, waiting[start : start + _KEYS_TOGETHER]))
        if pace.is_due():
            await pace.rest()
    key_at, runs = keys.__getitem__, list[list[int]]()
    for start in range(0, len(waiting), _SORTED_TOGETHER):
        places = range(start, min(start + _SORTED_TOGETHER, len(waiting)))
        runs.append(sorted(places, key=key_at, reverse=reverse))
        if pace.is_due():
            await pace.rest()
    if len(runs) < 2:
        return [waiting[place] for run in runs for place in run]
    ordered = []
    for place in merge(*runs, key=key_at, reverse=reverse):
        ordered.append(waiting[place])
        if pace.is_due():
            await pace.rest()
    return ordered
