"""A server that is new or was away for long finds entries gone from the log: their effects come from another server."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from lattice.ports.quorum.log import Log, LogUnavailable
from lattice.quorum.archive.repair import inspect, put_aside
from lattice.quorum.snapshots.folders import SnapshotFolder

FETCH_WITHIN_S = 60.0
_PAUSE_S = 0.5

_log = logging.getLogger(__name__)


async def fetch_missing(
    log: Log, data_dir: Path, fetch_state: Callable[[int], Awaitable[int]], *, accepts_loss: bool
) -> None:
    """Takes over what the log does not reach back to. The replica must not be open. Raises LogUnavailable.

    `fetch_state` brings snapshot and archive of any other server, not older than the given index; 0 while none has them.
    """
    await log.open()
    try:
        first, _ = await log.bounds()
        index = 0
        # The log may have been cut again meanwhile.
        while first - 1 > index and not await asyncio.to_thread(has_state_from, data_dir, first - 1):
            index = await _fetched(fetch_state, first - 1, accepts_loss=accepts_loss)
            if not index:
                return
            _log.info("the log starts at entry %d; installed snapshot %d from another server", first, index)
            first, _ = await log.bounds()
    finally:
        await log.close()


def has_state_from(data_dir: Path, index: int) -> bool:
    """Whether a good snapshot is not older, and the archive not behind it. Blocks."""
    folder = SnapshotFolder(data_dir / "snapshots")
    path = data_dir / "archive.db"
    archive = inspect(path)
    if archive.damage:
        _log.error("%s is damaged (%s): moved it to %s", path, archive.damage, put_aside(path))
    usable = [each for each in folder.indexes() if index <= each <= archive.complete_to]
    return any(folder.is_whole(each) for each in reversed(usable))


async def _fetched(fetch_state: Callable[[int], Awaitable[int]], at_least: int, *, accepts_loss: bool) -> int:
    """The index of a snapshot from another server; these may be starting themselves."""
    deadline = time.monotonic() + FETCH_WITHIN_S
    while not (index := await fetch_state(at_least)):
        if time.monotonic() > deadline and accepts_loss:
            _log.error("no other server provides a snapshot; continuing with the local data")
            return 0
        if time.monotonic() > deadline:
            raise LogUnavailable("no other server provides a snapshot; start the other servers first")
        await asyncio.sleep(_PAUSE_S)
    return index
