"""One copy that a mover took on: who may read the source, what is there already, then the bytes."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from lattice.core.model.data.copies import MAX_TRIES, USABLE_PERCENT, CopyPhase, folder_of
from lattice.mover.pace import Pace
from lattice.mover.tier import HotTier
from lattice.ports.data.sources import Listing, Source, SourceError
from lattice.wire.data.moving import CopyReport, CopyTask

_log = logging.getLogger(__name__)
OpenSource = Callable[[str], Source]


class Stopped(Exception):
    """The copy belongs to another mover now, or this one ends."""


class Answer(Struct, frozen=True):
    go_on: bool
    reason: str = ""


class Reporter(Protocol):
    def __call__(self, *reports: CopyReport) -> Answer:
        """Tells the servers, in this order; waits for the answer to the last. Raises Stopped when this mover ends first."""
        ...


class CopyMaking:
    """Runs in a thread of its own. `done` and `total` are read by others."""

    def __init__(self, task: CopyTask, tier: HotTier, open_source: OpenSource, pace: Pace, report: Reporter) -> None:
        self.task = task
        self.done = self.total = 0
        self.began_s = time.monotonic()
        self._tier, self._open, self._pace, self._report = tier, open_source, pace, report
        self._stop = threading.Event()
        self._is_usable = False

    @property
    def rate(self) -> float:
        return self.done / max(0.001, time.monotonic() - self.began_s)

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        task = self.task
        name = folder_of(task.key, task.generation)
        try:
            source = self._open(task.source)
            try:
                self._copy(source, name)
            finally:
                source.close()
        except Stopped:
            _log.info("%s: stopped", task.source)
        except (SourceError, OSError) as error:
            reason = str(error) if isinstance(error, SourceError) else f"{error.strerror or error}"
            _log.warning("%s: %s", task.source, reason)
            self._failed(name, reason)
        except Exception as error:  # noqa: BLE001 - the edge of the thread
            _log.exception("%s: failed", task.source)
            self._failed(name, f"the mover failed: {error}")

    def _failed(self, name: str, reason: str) -> None:
        try:
            self._tier.note_failure(name, self.task.tries + 1, reason)
            self._say(CopyPhase.FAILED, reason=reason)
        except (Stopped, OSError):
            _log.info("%s: no server heard of the failure", self.task.source)

    def _copy(self, source: Source, name: str) -> None:
        judged = source.readable_by(self.task.accounts)
        readers = [account for account, why in judged.items() if not why]
        denied = {account: why for account, why in judged.items() if why}
        made = self._tier.version_of(name)
        if made is not None:  # by a mover that died before it could say so
            self._say(CopyPhase.SIZED, size=made.size, files=made.files, readers=readers, denied=denied)
            self._say(CopyPhase.READY, size=made.size, files=made.files, version=made.version)
            return
        listing = source.listing()
        sized = {"size": listing.size, "files": listing.files, "version": listing.version}
        told = self._made(CopyPhase.SIZED, readers=readers, denied=denied, **sized)
        if self._is_there(listing):
            self._report(told, self._made(CopyPhase.UNCHANGED))  # work waits for this: one question, not two
            return
        answer = self._report(told)
        if not answer.go_on:
            if answer.reason.startswith(("the hot tier", "copies of tenant")):
                self._say(CopyPhase.FULL, reason=answer.reason)
            elif denied and not readers:  # nodes may wait for the rest since the mover before this one was lost
                self._tier.note_failure(name, MAX_TRIES, next(iter(denied.values())))
            return
        if why := source.restoring(listing):
            self._say(CopyPhase.FULL, reason=why)  # looked at again after the pause
            return
        self.total, self.began_s = listing.size, time.monotonic()
        self._tier.fill(name, source, listing, self._moved)
        self._say(CopyPhase.READY, **sized)

    def _is_there(self, listing: Listing) -> bool:
        task = self.task
        return (
            bool(task.present) and task.version == listing.version and self._tier.has(folder_of(task.key, task.present))
        )

    def _moved(self, count: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self.done += count
        self._pace.spend(count)
        if not self._is_usable and self.done < self.total and self.done * 100 >= self.total * USABLE_PERCENT:
            self._is_usable = True
            if not self._say(CopyPhase.USABLE).go_on:
                raise Stopped

    def _say(self, phase: CopyPhase, **fields: object) -> Answer:
        return self._report(self._made(phase, **fields))

    def _made(self, phase: CopyPhase, **fields: object) -> CopyReport:
        return CopyReport(key=self.task.key, generation=self.task.generation, phase=phase, **fields)  # type: ignore[arg-type]
