"""The state and its index: applies entries in order, and brings a fresh state up to the end of the log.

Before each entry the state contains exactly the entries up to `index`. Records that leave the state go to the archive in the same
step, so that a record is always in one of them.
"""

import contextlib
import gc
import logging
from asyncio import create_task, to_thread
from collections.abc import Callable, Iterator

from lattice.core.machine.apply import apply
from lattice.core.machine.codec import decode_batch
from lattice.core.machine.commands import ArchiveAllocations, Envelope
from lattice.core.machine.events import AllocationsArchived
from lattice.core.machine.outcomes import Accepted, Outcome
from lattice.core.machine.state import State
from lattice.ports.quorum.archive import ArchivedRecord
from lattice.ports.quorum.log import Log, LogCorrupt
from lattice.ports.quorum.replica import Subscriber
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.losses import Losses
from lattice.quorum.snapshots.folders import SnapshotFolder

_READ_PAGE = 32

_log = logging.getLogger(__name__)


class BrokenInvariant(Exception):
    """Applying an entry raised. Continuing would let replicas differ."""


class Applier:
    """Owns the state; used by one task."""

    def __init__(self, archive: SqliteArchive) -> None:
        self._archive = archive
        self.state = State.empty()
        self.index = 0

    def apply(self, entry: int, envelope: Envelope) -> Outcome:
        """The outcome of one command of an entry. Raises BrokenInvariant if the state machine fails on it."""
        if isinstance(envelope.command, ArchiveAllocations):
            return self._apply_archiving(entry, envelope, envelope.command)
        return self._apply(entry, envelope)

    def _apply(self, entry: int, envelope: Envelope) -> Outcome:
        try:
            return apply(self.state, envelope)
        except Exception as error:
            name = type(envelope.command).__name__
            raise BrokenInvariant(
                f"entry {entry}: applying {name} of {envelope.actor!r} raised {error!r}; "
                "keep the data directory unchanged and report this"
            ) from error

    def _apply_archiving(self, entry: int, envelope: Envelope, command: ArchiveAllocations) -> Outcome:
        leaving = {number: self._record(number) for number in command.numbers}
        rows = {number: self.state.folded[number] for number in command.numbers if number in self.state.folded}
        dags = [dag for number in command.numbers if (dag := self.state.dependencies.dags.get(number)) is not None]
        outcome = self._apply(entry, envelope)
        if isinstance(outcome, Accepted):
            gone = [
                number for event in outcome.events if isinstance(event, AllocationsArchived) for number in event.numbers
            ]
            records = (leaving.get(number) for number in gone)
            left = [dag for dag in dags if dag.number not in self.state.dependencies.dags]
            self._archive.add(entry, [record for record in records if record is not None], rows, left)
        return outcome

    def _record(self, number: int) -> tuple[ArchivedRecord, bytes] | None:
        record = self.state.allocations.get(number) or self.state.groups.get(number)
        return None if record is None else (record, self.state.payloads.get(number, b""))

    async def recover(
        self,
        log: Log,
        folder: SnapshotFolder | None,
        *,
        loaded: Callable[[], None] = lambda: None,
        publish: Subscriber = lambda index, envelope, events: None,
        losses: Losses | None = None,
    ) -> int:
        """Loads the newest intact snapshot (and calls `loaded`) and applies the log after it; returns the number of commands."""
        first, last = await log.bounds()
        with _collector_paused():
            losses = losses or Losses()
            await self._load_snapshot(folder, first, last, losses)
            await self._rewind_archive(last, losses)
            loaded()
            return await self._replay(log, last, publish)

    async def _load_snapshot(self, folder: SnapshotFolder | None, first: int, last: int, losses: Losses) -> None:
        found, newest = None, 0
        if folder is not None:
            await to_thread(folder.remove_drafts)
            newest = max(await to_thread(folder.indexes), default=0)
            if newest > last:
                losses.meet(
                    f"the log ends at entry {last} but snapshot {newest} exists: acknowledged entries are missing",
                    "restore the log or a backup",
                )
                await to_thread(folder.put_aside, last)
            found = await to_thread(folder.newest, first - 1)
        if found is None and first > 1:
            raise LogCorrupt(
                f"the log starts at entry {first} and no intact snapshot reaches it; "
                "restore the data directory from a backup"
            )
        if found is not None and folder is not None and self._archive.complete_to < found[0]:
            found = await self._for_archive(folder, first, found, losses)
        if found is not None:
            self.index, self.state = found

    async def _for_archive(
        self, folder: SnapshotFolder, first: int, found: tuple[int, State], losses: Losses
    ) -> tuple[int, State] | None:
        """Where to start so that the log fills the gap in the archive; if it cannot, data is lost."""
        complete_to, index = self._archive.complete_to, found[0]
        older = await to_thread(folder.newest, first - 1, complete_to)
        if older is not None or first == 1:
            _log.warning("the archive is complete only up to entry %d: filling in the rest from the log", complete_to)
            return older
        losses.meet(
            f"the archive is complete up to entry {complete_to} only and the log begins at entry {first}: "
            "finished work that was archived in between is missing",
            "restore a backup",
        )
        await self._archive.flush(index)
        return found

    async def _rewind_archive(self, last: int, losses: Losses) -> None:
        """An archive ahead of the log is not a leftover: its records were acknowledged."""
        if self._archive.newest > last:
            losses.meet(
                f"the log ends at entry {last} but the archive reaches up to entry {self._archive.newest}: "
                "acknowledged entries are missing",
                "restore the log or a backup",
            )
            removed = await self._archive.rewind(last)
            _log.error("removed %d archived records of entries that no longer exist", removed)

    async def _replay(self, log: Log, last: int, publish: Subscriber) -> int:
        commands = 0
        following = create_task(log.read(self.index + 1, _READ_PAGE))
        try:
            while self.index < last:
                page = await following
                if not page:
                    raise LogCorrupt(f"the log ends at entry {self.index}, before its newest entry {last}")
                # Read ahead while this page is applied.
                following = create_task(log.read(self.index + 1 + len(page), _READ_PAGE))
                for entry in page:
                    for envelope in decode_batch(entry.payload).envelopes:
                        outcome = self.apply(entry.index, envelope)
                        if isinstance(outcome, Accepted) and outcome.events:
                            publish(entry.index, envelope, outcome.events)
                        commands += 1
                    self.index = entry.index
        finally:
            following.cancel()
        return commands


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Loading creates many objects and no garbage: each full collection meanwhile would traverse all of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
