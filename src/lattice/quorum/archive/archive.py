"""The archive of finished work: filled while the replica applies entries, read by queries about the past.

A record is in the overlay from the moment it leaves the hot state until its row is durable, so that no reader ever misses one;
after a crash the log restores what was only in the overlay. Rows name the log entry that archived them: after a restore
of an older log, rows of entries that no longer exist are removed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

from lattice.core.machine.parts.folded_tasks import FoldedTasks
from lattice.core.model.work.allocations import TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveError, ArchiveFilter
from lattice.quorum.archive.store import ArchiveStore, Waiting, matches
from lattice.quorum.archive.tasks import task_of, tasks_below

_RETRY_S = (0.1, 0.5, 2.0, 10.0)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class SqliteArchive:
    """Archived records in a file, or in memory when there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._store = ArchiveStore(path)
        self._thread: ThreadPoolExecutor | None = None
        self._overlay: dict[int, Waiting] = {}
        self._waiting: list[Waiting] = []
        self._dags: dict[int, tuple[int, Dag]] = {}  # waiting to be written, with their log entries
        self._complete_to = 0
        self._newest = 0
        self._writer: asyncio.Task[None] | None = None
        self._work = asyncio.Event()
        self._written = asyncio.Event()
        self.failed_writes = 0

    async def open(self) -> None:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lattice-archive")
        self._thread = thread
        try:
            self._complete_to, self._newest = await self._run(self._store.open)
        except BaseException:
            self._thread = None
            thread.shutdown(wait=False)
            raise
        self._writer = asyncio.create_task(self._write_forever(), name="archive writer")
        self._writer.add_done_callback(lambda _: self._wake_flushes())

    async def close(self) -> None:
        """Closes the file. The log restores what is still in the overlay."""
        if self._thread is None:
            return
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        await self._run(self._store.close)
        self._thread.shutdown(wait=False)
        self._thread = None

    @property
    def complete_to(self) -> int:
        """The newest index for which all records of all entries up to it are known to be durable here."""
        return self._complete_to

    @property
    def damage(self) -> str:
        """The damage found in the file; empty if none."""
        return self._store.damage

    @property
    def newest(self) -> int:
        """The newest entry that archived something."""
        return max(self._newest, self._complete_to)

    @property
    def waiting(self) -> int:
        """The number of records that are not durable yet."""
        return len(self._waiting)

    def add(
        self,
        entry: int,
        records: Sequence[tuple[ArchivedRecord, bytes]],
        rows: Mapping[int, FoldedTasks] | None = None,
        dags: Sequence[Dag] = (),
    ) -> None:
        """Adds records, each with its payload, that leave the hot state with log entry `entry`; `rows` are by group.

        They are visible immediately and durable soon.
        """
        if entry <= self._complete_to:
            return
        for record, payload in records:
            waiting = Waiting(entry, record, payload, (rows or {}).get(record.number))
            self._overlay[record.number] = waiting
            self._waiting.append(waiting)
        self._dags.update((dag.number, (entry, dag)) for dag in dags)
        self._work.set()

    async def flush(self, entry: int) -> None:
        """Returns when everything added so far is durable, and records that the archive is complete up to `entry`."""
        while self._waiting or self._dags:
            if self._writer is None or self._writer.done():
                raise ArchiveError(f"{len(self._waiting)} archived records cannot be written")
            await self._written.wait()
        if entry > self._complete_to:
            await self._run(lambda: self._store.write([], entry))
            self._complete_to = entry

    async def rewind(self, last_entry: int) -> int:
        """Removes records of entries after `last_entry`, which no longer exist; returns their number."""
        if max(self._newest, self._complete_to) <= last_entry:
            return 0
        removed = await self._run(lambda: self._store.rewind(last_entry))
        self._complete_to = min(self._complete_to, last_entry)
        self._newest = last_entry
        return removed

    async def forget(self, ended_before: int, limit: int = 1000) -> int:
        """Removes up to `limit` records that ended before that time; returns their number."""
        return await self._run(lambda: self._store.forget(ended_before, limit))

    async def archived(self, number: int) -> ArchivedRecord | None:
        if number in self._overlay:
            return self._overlay[number].record
        block = self._fresh_block_of(number)
        fresh = None if block is None else task_of(*block, number) or block[0]
        return await self._run(lambda: self._store.exact(number) or fresh or self._store.task(number))

    async def archived_dag(self, number: int) -> Dag | None:
        if number in self._dags:
            return self._dags[number][1]
        return await self._run(lambda: self._store.dag(number))

    async def archived_dags(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        fresh = {
            number: dag
            for number, (_, dag) in self._dags.items()
            if number < before and user in ("", dag.user) and tenant in ("", dag.tenant)
        }
        stored = await self._run(lambda: self._store.dag_page(user, tenant, before, limit))
        found = {dag.number: dag for dag in stored} | fresh
        return [found[number] for number in sorted(found, reverse=True)[:limit]]

    async def archived_payload(self, number: int) -> bytes:
        if number in self._overlay:
            return self._overlay[number].payload
        return await self._run(lambda: self._store.payload(number))

    async def archived_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        # The overlay is read before the file: a record that becomes durable in between is seen twice, never missed.
        fresh = {
            number: waiting.record
            for number, waiting in self._overlay.items()
            if (before is None or number < before) and matches(waiting.record, wanted)
        }
        fresh_tasks = self._fresh_tasks(wanted, before, limit) if wanted.with_tasks else {}
        stored = await self._run(lambda: self._stored_page(wanted, before, limit))
        found = {record.number: record for record in stored} | fresh_tasks | fresh
        return [found[number] for number in sorted(found, reverse=True)[:limit]]

    def _stored_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        page = self._store.page(wanted, before, limit)
        return [*page, *self._store.tasks_page(wanted, before, limit)] if wanted.with_tasks else page

    def _fresh_tasks(self, wanted: ArchiveFilter, before: int | None, limit: int) -> dict[int, ArchivedRecord]:
        found: dict[int, ArchivedRecord] = {}
        for waiting in self._overlay.values():
            if isinstance(waiting.record, TaskGroup):
                tasks = tasks_below(waiting.record, waiting.rows, before)
                matching = (task for task in tasks if matches(task, wanted))
                found.update((task.number, task) for task in islice(matching, limit))
        return found

    def _fresh_block_of(self, number: int) -> tuple[TaskGroup, FoldedTasks | None] | None:
        for waiting in self._overlay.values():
            record = waiting.record
            if isinstance(record, TaskGroup) and 0 < number - record.number <= record.size:
                return record, waiting.rows
        return None

    async def _write_forever(self) -> None:
        failures = 0
        while True:
            await self._work.wait()
            self._work.clear()
            batch, dags = list(self._waiting), tuple(self._dags.values())
            try:
                await self._run(lambda rows=batch, dags=dags: self._store.write(rows, 0, dags))  # type: ignore[misc]
            except ArchiveError as error:
                delay = _RETRY_S[min(failures, len(_RETRY_S) - 1)]
                failures += 1
                self.failed_writes += 1
                _log.error("%s; %d records waiting, next attempt in %s s", error, len(batch), delay)
                await asyncio.sleep(delay)
                self._work.set()
                continue
            failures = 0
            self._now_durable(batch, dags)

    def _now_durable(self, batch: list[Waiting], dags: tuple[tuple[int, Dag], ...]) -> None:
        del self._waiting[: len(batch)]
        for entry, dag in dags:
            if self._dags.get(dag.number) == (entry, dag):
                del self._dags[dag.number]
        for waiting in batch:
            number = waiting.record.number
            if self._overlay.get(number) is waiting:
                del self._overlay[number]
        self._wake_flushes()

    def _wake_flushes(self) -> None:
        self._written.set()
        self._written = asyncio.Event()

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._thread is None:
            raise ArchiveError("the archive is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
