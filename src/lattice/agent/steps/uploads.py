"""What the tasks of steps write, on its way to the object store: as the output of runs, in chunks of the step's journal.

A chunk holds whole records, each with its stream and rank, so readers choose among ranks and see what came first. The journal on the node
is the buffer; what it dropped before it was stored is a gap between two chunks. See docs/architecture/logs.md.
"""

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path

import msgspec

from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.runs.uploads import CHUNKS_A_TURN
from lattice.agent.shim.journal import PREFIX, read_journal
from lattice.agent.shim.output import replace_file
from lattice.agent.steps.folders import StepFolders, StepSpec
from lattice.core.model.work.steps import is_terminal
from lattice.ports.nodes.agents import StepKey
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.agents.journals import whole_records
from lattice.wire.files.chunks import CHUNK_BYTES, Place, pack, step_stream

CHUNK_S = 10.0
POLL_S = 0.5
RETRY_S = 2.0
PLACE = "stored.json"

_log = logging.getLogger(__name__)
_decoder = msgspec.json.Decoder(Place)


class _Journal:
    """One step; `place` is where its next chunk begins."""

    def __init__(self, key: StepKey, spec: StepSpec, folder: Path) -> None:
        self.key, self.spec, self.folder = key, spec, str(folder)
        self.place = Place()
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self.place = _decoder.decode((folder / PLACE).read_bytes())
        self._seen: tuple[float, int] | None = None  # when bytes were first waiting, by both clocks

    def is_due(self, *, is_over: bool) -> bool:
        waiting = self._end() - self.place.offset
        if waiting <= 0:
            return False
        if self._seen is None:
            self._seen = time.monotonic(), time.time_ns() // 1_000_000
        return is_over or waiting >= CHUNK_BYTES or time.monotonic() - self._seen[0] >= CHUNK_S

    def _end(self) -> int:
        """One more than the position of the last byte; 0 when nothing was written."""
        ends = [0]
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(PREFIX):
                    ends.append(int(entry.name[len(PREFIX) :]) + entry.stat().st_size)
        return max(ends)

    def next_chunk(self) -> tuple[Place, bytes, bytes] | None:
        """Where it begins, its records, the object; None when there is none."""
        try:
            start, data = read_journal(self.folder, self.place.offset, CHUNK_BYTES)
        except (FileNotFoundError, ValueError):
            return None
        data = data[: whole_records(data)]
        if not data:
            return None
        if start != self.place.offset:
            _log.warning("%s: %d bytes were dropped before they were stored", self.folder, start - self.place.offset)
        at_ms = self.place.at_ms if start == self.place.offset and self.place.at_ms else self._seen_ms()
        place = Place(offset=start, at_ms=at_ms)
        # Noted first: an agent that dies before the next note stores a chunk of the same name again, with at least the same bytes.
        replace_file(f"{self.folder}/{PLACE}", msgspec.json.encode(place))
        return place, data, pack(place, data, ((start, at_ms),))

    def _seen_ms(self) -> int:
        return self._seen[1] if self._seen is not None else time.time_ns() // 1_000_000

    def stored(self, place: Place, data: bytes) -> None:
        self.place = Place(offset=place.offset + len(data))
        self._seen = None
        with contextlib.suppress(OSError):
            replace_file(f"{self.folder}/{PLACE}", msgspec.json.encode(self.place))


class StepUploads:
    """All steps of a node; without a store their output stays here."""

    def __init__(self, sink: ChunkSink, node: str, folders: StepFolders) -> None:
        self._sink, self._node, self._folders = sink, node, folders
        self._open: dict[str, _Journal] = {}
        self._done: set[str] = set()
        self._made = asyncio.Event()

    async def watch(self) -> None:
        """Stores what is due, for good. While nothing is left to store it sleeps until a step is made."""
        loop = asyncio.get_running_loop()

        def made() -> None:
            loop.call_soon_threadsafe(self._made.set)

        self._folders.on_created = made
        self._made.set()  # for steps of an agent before this one
        while True:
            if not self._open:
                await self._made.wait()
            await asyncio.sleep(POLL_S)
            self._made.clear()
            try:
                await self.turn()
            except (ObjectStoreError, OSError):
                await self._again()
            except Exception:  # noqa: BLE001 - the loop's edge
                _log.exception("output of steps could not be stored")
                await self._again()

    async def _again(self) -> None:
        """The turn may have failed before it found the steps that there are."""
        self._made.set()
        await asyncio.sleep(RETRY_S)

    async def turn(self) -> None:
        """Raises ObjectStoreError when the store does not take it now."""
        await asyncio.to_thread(self._look)
        for name, journal in list(self._open.items()):
            status = await asyncio.to_thread(self._folders.status, journal.key)
            # Asked before the size: what was written before the end is then seen.
            is_over = status is not None and status.has_ended
            # Behind the others next time: one that is refused for good must not keep theirs from the store.
            self._open[name] = self._open.pop(name)
            if await self._stored(journal, is_over=is_over) and is_over:
                self._done.add(name)
                del self._open[name]

    async def _stored(self, journal: _Journal, *, is_over: bool) -> bool:
        """Whether all that is due is stored. Not more than some chunks: other steps write, too."""
        for _ in range(CHUNKS_A_TURN):
            if not await asyncio.to_thread(self._is_due, journal, is_over):
                return True
            found = await asyncio.to_thread(journal.next_chunk)
            if found is None:
                return True
            place, data, packed = found
            stream = f"{step_stream(journal.key.step)}/{self._node}/{place.name}"
            await self._sink.put(journal.spec.output_prefix, stream, journal.spec.upload_grant, packed)
            await asyncio.to_thread(journal.stored, place, data)
        return False

    @staticmethod
    def _is_due(journal: _Journal, is_over: bool) -> bool:
        return journal.is_due(is_over=is_over)

    def _look(self) -> None:
        """Finds new steps, and forgets those whose folders are gone."""
        names = set(os.listdir(self._folders.root))
        self._done &= names
        for gone in self._open.keys() - names:
            del self._open[gone]
        for name in sorted(names - self._done - self._open.keys()):
            parts = name.split(".")
            if len(parts) != 3 or not all(part.isdigit() for part in parts):
                continue
            key = StepKey(*map(int, parts))
            spec = self._folders.spec(key)
            if spec is None:
                continue  # it is being made
            if is_terminal(spec.launch_id) or not spec.output_prefix or not self._sink.takes(spec.upload_grant):
                self._done.add(name)  # what a person sees in a terminal is not stored
            else:
                self._open[name] = _Journal(key, spec, self._folders.path(key))
