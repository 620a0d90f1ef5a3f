"""When a snapshot is taken, and what must be true before and after it.

Before a snapshot exists, the archive holds everything that left the state up to its index. After it exists, the log records it,
and is trimmed up to the snapshot before the newest, so that a damaged newest one can be done without. The state is only copied
shallowly on the event loop; encoding and writing happen in a thread.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from lattice.core.machine.commands import RecordSnapshot
from lattice.core.machine.state import FrozenView, State
from lattice.ports.archive import ArchiveError
from lattice.ports.log import Log, LogError
from lattice.ports.replica import ReplicaStopped
from lattice.quorum.archive import SqliteArchive
from lattice.quorum.snapshots import SnapshotFolder

_RETRY_AFTER_S = 30.0

_log = logging.getLogger(__name__)


class SnapshotKeeper:
    """Takes a snapshot every so many commands, one at a time."""

    def __init__(
        self,
        folder: SnapshotFolder,
        log: Log,
        archive: SqliteArchive,
        record: Callable[[RecordSnapshot], Awaitable[object]],
        *,
        every: int,
        commands_since: int,
        trims: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder = folder
        self._log = log
        self._archive = archive
        self._record = record
        self._every = every
        self._since = commands_since
        self._trims = trims
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None
        self.taken = 0
        self.failed = 0
        self.last_duration_s = 0.0
        self.last_size = 0

    def note(self, commands: int, index: int, state: State) -> None:
        """Counts the commands of entry `index`, which `state` contains completely, and starts a snapshot when it is time."""
        self._since += commands
        if self._since >= self._every and not self._is_busy and time.monotonic() >= self._not_before:
            self._start(index, state)

    async def finish(self, index: int, state: State, at_least: int) -> None:
        """Waits for a snapshot under way; takes a last one when more than `at_least` commands came since the newest."""
        if self._task is not None:
            await self._task
        if self._since > at_least:
            await self._start(index, state)

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def _start(self, index: int, state: State) -> asyncio.Task[None]:
        counted, self._since = self._since, 0
        self._task = asyncio.create_task(self._take(index, state.frozen_view(), counted), name=f"snapshot {index}")
        return self._task

    async def _take(self, index: int, view: FrozenView, counted: int) -> None:
        started = time.monotonic()
        try:
            await self._archive.flush(index)
            written = await asyncio.to_thread(self._folder.write, index, view)
            await self._record(RecordSnapshot(index=index, digest=written.digest, sha256=written.sha256))
            if self._trims():
                await self._trim()
        except (OSError, ArchiveError, LogError, ReplicaStopped) as error:
            self.failed += 1
            self._since += counted
            self._not_before = time.monotonic() + _RETRY_AFTER_S
            _log.error("snapshot at index %d failed, the log is kept: %s", index, error)
            return
        self.taken += 1
        self.last_size = written.size
        self.last_duration_s = time.monotonic() - started
        _log.info("snapshot at index %d: %d bytes in %.2f s", index, written.size, self.last_duration_s)

    async def _trim(self) -> None:
        indexes = await asyncio.to_thread(self._folder.indexes)
        if len(indexes) >= 2:
            await self._log.trim(indexes[-2] + 1)
