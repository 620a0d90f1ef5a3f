"""When a snapshot is taken, and what must be true before and after it.

Before a snapshot exists, the archive contains everything that left the state up to its index. Afterwards the log records it
and is trimmed up to the snapshot before the newest, so that a damaged newest one can be replaced. The state is only copied
shallowly on the event loop; encoding and writing happen in a thread. A full log cannot record a snapshot: it is trimmed first
in that case, by any server, because a full log soon has no leader.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from lattice.core.machine.commands import RecordSnapshot
from lattice.core.machine.state import FrozenView, State
from lattice.ports.quorum.archive import ArchiveError
from lattice.ports.quorum.log import Log, LogError, LogFull
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.snapshots.folders import SnapshotDamaged, SnapshotFolder, Written

_RETRY_AFTER_S = 30.0
FAILURES = (OSError, ArchiveError, LogError, ReplicaStopped)

_log = logging.getLogger(__name__)


class SnapshotKeeper:
    """Takes a snapshot every `every` commands, one at a time; with `early`, of a small state already after as many commands.

    A small state is quickly written, and what is not replayed after a crash is answered sooner.
    """

    def __init__(
        self,
        folder: SnapshotFolder,
        log: Log,
        archive: SqliteArchive,
        record: Callable[[RecordSnapshot], Awaitable[object]],
        *,
        every: int,
        commands_since: int,
        early: int | None = None,
        trims: Callable[[], bool] = lambda: True,
        on_taken: Callable[[float, int], None] = lambda seconds, size: None,
    ) -> None:
        self._folder = folder
        self._log = log
        self._archive = archive
        self._record = record
        self._every = every
        self._early = every if early is None else early
        self._since = commands_since
        self._trims = trims
        self._on_taken = on_taken
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None
        self.taken = 0
        self.failed = 0
        self.last_duration_s = 0.0
        self.last_size = 0

    def note(self, commands: int, index: int, state: State) -> None:
        """Counts the commands of entry `index`, which `state` contains completely, and starts a snapshot when it is time."""
        self._since += commands
        due = min(self._every, max(self._early, len(state.allocations) // 2))
        if self._since >= due and not self.is_busy and time.monotonic() >= self._not_before:
            self._start(index, state)

    async def finish(self, index: int, state: State, at_least: int) -> None:
        """Waits for a snapshot in progress; takes a last one if more than `at_least` commands came since the newest."""
        if self._task is not None:
            await self._task
        if self._since > at_least:
            await self._start(index, state)

    async def wait_idle(self) -> None:
        """Returns when no snapshot is in progress."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def take(self, index: int, state: State, *, makes_room: bool = False) -> Written:
        """Takes a snapshot; none may be in progress. Raises one of FAILURES. With `makes_room` the log is trimmed in any case."""
        counted, self._since = self._since, 0
        working = asyncio.create_task(self._take(index, state.frozen_view(), counted, makes_room=makes_room))
        # Other callers wait for this one, and do not learn of its failure.
        self._task = asyncio.create_task(_settled(working), name=f"snapshot {index}")
        try:
            return await asyncio.shield(working)
        finally:
            await self._task

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def _start(self, index: int, state: State) -> asyncio.Task[None]:
        counted, self._since = self._since, 0
        self._task = asyncio.create_task(self._try(index, state.frozen_view(), counted), name=f"snapshot {index}")
        return self._task

    async def _try(self, index: int, view: FrozenView, counted: int) -> None:
        try:
            await self._take(index, view, counted)
        except FAILURES as error:
            self._not_before = time.monotonic() + _RETRY_AFTER_S
            _log.error("snapshot at index %d failed, the log is kept: %s", index, error)

    async def _take(self, index: int, view: FrozenView, counted: int, *, makes_room: bool = False) -> Written:
        started = time.monotonic()
        try:
            await self._archive.flush(index)
            written = await asyncio.to_thread(self._folder.write, index, view)
            pointer = RecordSnapshot(index=index, digest=written.digest, sha256=written.sha256)
            if makes_room:
                await self._trim_to_newest()
            await self._recorded(pointer)
            if self._trims():
                await self._trim()
        except FAILURES:
            self.failed += 1
            self._since += counted
            raise
        self.taken += 1
        self.last_size = written.size
        self.last_duration_s = time.monotonic() - started
        self._on_taken(self.last_duration_s, written.size)
        _log.info("snapshot at index %d: %d bytes in %.2f s", index, written.size, self.last_duration_s)
        return written

    async def _recorded(self, pointer: RecordSnapshot) -> None:
        try:
            await self._record(pointer)
        except LogFull:
            _log.warning("the log is too full to record snapshot %d: trimming it first", pointer.index)
            await self._trim_to_newest()
            await self._record(pointer)

    async def _trim(self) -> None:
        indexes = await asyncio.to_thread(self._folder.indexes)
        if len(indexes) >= 2:
            await self._log.trim(indexes[-2] + 1)

    async def _trim_to_newest(self) -> None:
        """Trims everything that the newest snapshot contains, after verifying that snapshot."""
        newest = (await asyncio.to_thread(self._folder.indexes))[-1]
        try:
            await asyncio.to_thread(self._folder.load, newest)
        except SnapshotDamaged as error:
            raise OSError(f"cannot read back a snapshot: {error}") from error
        await self._log.trim(newest + 1)


async def _settled(task: "asyncio.Task[Written]") -> None:
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
