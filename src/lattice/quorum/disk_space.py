"""Space for the log and for the server's own files: how it is freed, and what operators see when there is none.

A full log in etcd accepts nothing, not even a new leader. Any server that has the state can help: it writes a snapshot to its own
disk and trims the log up to it, and the members accept entries again. A full disk affects only one server while the others have
a majority: it reports the problem and continues when there is space.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from lattice.ports.quorum.log import LogError
from lattice.quorum.snapshots.keeper import FAILURES

LOOK_EVERY_S = 5.0
LEAST_FREE_BYTES = 16 << 20

_log = logging.getLogger(__name__)


class RoomWatch:
    """Checks periodically whether the log is full, and frees space. Runs on every server; one is enough."""

    def __init__(
        self,
        is_full: Callable[[], Awaitable[bool]],
        make_room: Callable[[], Awaitable[object]],
        *,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._is_full = is_full
        self._make_room = make_room
        self._every_s = every_s
        self.made = 0

    async def run(self) -> None:
        """Never returns."""
        while True:
            # Not all servers at the same time: the second one finds the space already freed.
            await asyncio.sleep(self._every_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
            try:
                if await self._is_full():
                    _log.error("the log is full: writing a snapshot and trimming the log")
                    await self._make_room()
                    self.made += 1
                    _log.warning("trimmed the log; it has space again")
            except LogError as error:
                _log.warning("cannot determine whether the log is full: %s", error)
            except FAILURES as error:
                _log.error("cannot free space in the log: %s", error)


def disk_problem(folder: Path, least_bytes: int = LEAST_FREE_BYTES) -> str:
    """The problem with the disk of a directory; empty if there is none."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return f"cannot access {folder}: {error.strerror}"
    free = found.f_bavail * found.f_frsize
    if free >= min(least_bytes, found.f_blocks * found.f_frsize // 20):
        return ""
    return f"the disk of {folder} is full: {free >> 20} MiB free; free some space there"
