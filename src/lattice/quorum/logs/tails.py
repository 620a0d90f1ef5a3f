"""Entries as they come, for the logs of one process. The log that servers share follows its store instead."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from lattice.ports.quorum.log import Entry

_PAGE = 64


async def follow(
    first: int, read: Callable[[int, int], Awaitable[Sequence[Entry]]], grown: Callable[[], asyncio.Event]
) -> AsyncIterator[Entry]:
    """From `first` on, for good. `grown` is the event that the next append sets; it is asked for before each page, so that an entry
    that comes while the page is read is not waited for."""
    while True:
        more = grown()
        page = await read(first, _PAGE)
        for entry in page:
            yield entry
        first += len(page)
        if not page:
            await more.wait()
