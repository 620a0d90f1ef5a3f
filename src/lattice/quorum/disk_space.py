"""Room for the log and for the server's own files: who makes it, and what an operator is told when there is none.

A log in etcd that is full takes nothing, not even a new leader; any server that has the state can help: it writes a snapshot to its own
disk, trims the log up to it, and the members take entries again. A disk that is full harms one server only, as long as others have
a majority: it says so, and goes on when there is room.
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
    """Looks every so often whether the log is full, and makes room. Runs on every server: all of them may, one is enough."""

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
            # Not all servers at the same moment: who comes second finds that it was done.
            await asyncio.sleep(self._every_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
            try:
                if await self._is_full():
                    _log.error("the log is full: writing a snapshot and trimming the log to make room")
                    await self._make_room()
                    self.made += 1
                    _log.warning("the log was trimmed; there is room again")
            except LogError as error:
                _log.warning("it is not known whether the log is full: %s", error)
            except FAILURES as error:
                _log.error("no room could be made in the log: %s", error)


def disk_problem(folder: Path, least_bytes: int = LEAST_FREE_BYTES) -> str:
    """What is wrong with the disk of a folder; empty when nothing is."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return f"{folder} cannot be looked at: {error.strerror}"
    free = found.f_bavail * found.f_frsize
    if free >= min(least_bytes, found.f_blocks * found.f_frsize // 20):
        return ""
    return f"the disk of {folder} is full: {free >> 20} MiB free; make room there"
