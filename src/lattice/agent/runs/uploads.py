"""Output on its way to the object store while runs write it: a chunk when there are 4 MiB, or when its first byte is 10 s old.

The file on the node is a buffer. A store that is away costs nothing until the file drops its oldest part; the next chunk then
begins behind the gap, as its name says. Before a chunk of a live run is stored, its place is noted beside the output: an agent
that died in between stores a chunk of the same name again, with all that the first had. What an ended run wrote does not change,
so its chunks come out the same without a note. An end is never held up: what could not be stored is tried again later.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from lattice.agent.runs.folders import STREAMS, RunFolders
from lattice.agent.runs.signed_store import ChunkSink, NoServer, Puts
from lattice.agent.shim.output import read_base, read_output, read_times, replace_file
from lattice.ports.nodes.agents import RunKey
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.files.chunks import CHUNK_BYTES, Place, pack

CHUNK_S = 10.0
POLL_S = 0.25
CHUNKS_A_TURN = 8
RETRY_FROM_S, RETRY_TO_S = 0.5, 10.0
PLACES = "stored.json"
UNSTORED = "unstored"  # a marker: the run has ended, and the store lacks some of its output

_log = logging.getLogger(__name__)
_decoder = msgspec.json.Decoder(dict[str, Place])


class _Stream:
    """One stream of one run; `place` is where its next chunk begins, without a time while there is none."""

    def __init__(self, path: Path, place: Place) -> None:
        self.path = str(path)
        self.place = place
        self._seen_s: float | None = None

    def is_due(self, now_s: float) -> bool:
        try:
            size = os.stat(self.path).st_size + read_base(self.path)
        except FileNotFoundError:
            return False
        waiting = size - self.place.offset
        if waiting <= 0:
            return False
        if self._seen_s is None:
            self._seen_s = now_s
        return waiting >= CHUNK_BYTES or now_s - self._seen_s >= CHUNK_S

    def has_more(self) -> bool:
        try:
            return os.stat(self.path).st_size + read_base(self.path) > self.place.offset
        except FileNotFoundError:
            return False

    def next_chunk(self) -> tuple[Place, bytes, bytes] | None:
        """Where it begins, its output, the object; None when there is no more."""
        try:
            start, data = read_output(self.path, self.place.offset, CHUNK_BYTES)
        except FileNotFoundError:
            return None
        if not data:
            return None
        place, marks = self.place, read_times(self.path, start, start + len(data))
        if start != place.offset:
            _log.warning("%s: %d bytes were dropped before they were stored", self.path, start - place.offset)
        if start != place.offset or not place.at_ms:
            place = Place(offset=start, line=place.line, at_ms=marks[0][1] if marks else 0)
        return place, data, pack(place, data, marks)

    def stored(self, place: Place, data: bytes) -> None:
        self.place = Place(offset=place.offset + len(data), line=place.line + data.count(b"\n"))
        self._seen_s = None


class _Run:
    def __init__(self, folder: Path, prefix: str, grant: str) -> None:
        self.folder, self.prefix, self.grant = folder, prefix, grant
        self.lock = asyncio.Lock()
        places: dict[str, Place] = {}
        with contextlib.suppress(OSError, msgspec.DecodeError):
            places = _decoder.decode((folder / PLACES).read_bytes())
        self.streams = {name: _Stream(folder / name, places.get(name, Place())) for name in STREAMS}

    def note(self, name: str, place: Place) -> None:
        places = {other: stream.place for other, stream in self.streams.items()} | {name: place}
        replace_file(str(self.folder / PLACES), msgspec.json.encode(places))


def _has_written(path: str) -> bool:
    """A stream whose file is empty may have dropped what it held."""
    try:
        return os.stat(path).st_size > 0 or read_base(path) > 0
    except FileNotFoundError:
        return False


class OutputUploads:
    """The output of all runs of a node; `live` are those that may still write.

    It goes to the store by requests that servers sign, where they do, else to `store`; without either everything stays on the node.
    """

    def __init__(
        self, store: Puts | None, node: str, folders: RunFolders, live: Callable[[], Iterable[RunKey]]
    ) -> None:
        self.sink, self._node = ChunkSink(store), node
        self._folders, self._live = folders, live
        self._runs: dict[RunKey, _Run] = {}
        self._late: set[RunKey] = set()
        self._failed: dict[RunKey, int] = {}  # live runs, and which failure was their last
        self._failures = 0
        self._retry_s = 0.0
        self._paused_until_s = 0.0
        self._looked_for = asyncio.Event()

    @property
    def are_on(self) -> bool:
        return self.sink.may_take

    def recall(self) -> None:
        """What an agent before this one left to be stored."""
        found = (each.key for each in self._folders.found())
        self._late |= {key for key in found if (self._folders.path(key) / UNSTORED).exists()}

    def look(self) -> None:
        """There are runs that may write."""
        self._looked_for.set()

    async def watch(self) -> None:
        """Stores what is due, for good, and what was left before. Sleeps while there is neither a run nor anything left."""
        self.recall()
        while True:
            if not self._late and not any(True for _ in self._live()):
                self._looked_for.clear()
                await self._looked_for.wait()
            await asyncio.sleep(POLL_S)
            if self.are_on and time.monotonic() >= self._paused_until_s:
                try:
                    await self._turn()
                except Exception:  # noqa: BLE001 - the loop's edge
                    _log.exception("output could not be stored")
                    self._pause()

    async def _turn(self) -> None:
        live = set(self._live())
        self._failed = {key: count for key, count in self._failed.items() if key in live}
        # What failed comes after the others: a run whose output is refused for good must not keep theirs from the store.
        for key in sorted(live, key=lambda key: (self._failed.get(key, 0), key)):
            if not await self._stored_live(key):
                self._failures += 1
                self._failed[key] = self._failures
                break
        for key in sorted(self._late):
            if await self._stored_late(key):
                self._late.discard(key)
                self._runs.pop(key, None)

    async def _stored_live(self, key: RunKey) -> bool:
        if self._is_silent(key):
            return True
        run = self._run(key)
        for name in STREAMS if run.prefix and self.sink.takes(run.grant) else ():
            # Several: a fast writer fills the file sooner than the next turn comes. Not all: others write, too.
            for _ in range(CHUNKS_A_TURN):
                if not run.streams[name].is_due(time.monotonic()):
                    break
                if not await self._tried(run, name):
                    return False
        return True

    async def _tried(self, run: _Run, name: str) -> bool:
        try:
            async with run.lock:
                await self._store_chunk(run, name, is_over=False)
        except (ObjectStoreError, OSError) as error:
            if not self._retry_s:
                _log.warning("output stays on this node until the store takes it: %s", error)
            self._pause()
            return False
        self._retry_s = 0.0
        return True

    def _pause(self) -> None:
        self._retry_s = min(RETRY_TO_S, max(RETRY_FROM_S, self._retry_s * 2))
        self._paused_until_s = time.monotonic() + self._retry_s

    async def finish(self, key: RunKey) -> str:
        """Stores all that is left of a run that has ended; returns why not, or nothing."""
        if self._is_silent(key):
            return ""
        run = self._run(key)
        if not self.sink.takes(run.grant):
            return ""
        try:
            await self._store_connected(key, run)
        except (ObjectStoreError, OSError) as error:
            with contextlib.suppress(OSError):
                (run.folder / UNSTORED).touch()
            self._late.add(key)
            self.look()
            self._pause()
            return f"its output was not stored: {error}"
        self._runs.pop(key, None)
        return ""

    async def _store_connected(self, key: RunKey, run: _Run) -> None:
        """An end is reported to a server, so waiting for one that signs holds nothing up."""
        while True:
            try:
                return await self._store_rest(key, run)
            except NoServer:
                await self.sink.signed.connected()

    async def _stored_late(self, key: RunKey) -> bool:
        run = self._run(key)
        if not await asyncio.to_thread(run.folder.exists):
            return True
        try:
            await self._store_rest(key, run)
        except (ObjectStoreError, OSError):
            self._pause()
            return False
        with contextlib.suppress(OSError):
            await asyncio.to_thread((run.folder / UNSTORED).unlink)
        return True

    async def _store_rest(self, key: RunKey, run: _Run) -> None:
        if not run.prefix:
            await self._store_whole(key, run)
            return
        async with run.lock:
            for name in STREAMS:
                # Most runs write nothing to one of the two: a thread that finds that out costs more than the look.
                while run.streams[name].has_more() and await self._store_chunk(run, name, is_over=True):
                    pass

    async def _store_chunk(self, run: _Run, name: str, *, is_over: bool) -> bool:
        stream = run.streams[name]
        found = await asyncio.to_thread(stream.next_chunk)
        if found is None:
            return False
        place, data, packed = found
        if not is_over:
            await asyncio.to_thread(run.note, name, place)
        await self.sink.put(run.prefix, f"{name}/{self._node}/{place.name}", run.grant, packed)
        stream.stored(place, data)
        return True

    async def _put(self, name: str, data: bytes) -> None:
        if self.sink.store is not None:
            await self.sink.store.put(name, data)

    def _is_silent(self, key: RunKey) -> bool:
        """Whether it has written nothing up to now: what its order says of the store is not needed yet."""
        if key in self._runs:
            return False
        folder = self._folders.path(key)
        return not any(_has_written(f"{folder}/{name}") for name in STREAMS)

    def _run(self, key: RunKey) -> _Run:
        found = self._runs.get(key)
        if found is None:
            order = self._folders.order(key)
            # No prefix: a server of release 0.1.0 started the run, and reads whole files, which are stored when the run ends.
            prefix, grant = ("", "") if order is None else (order.output_prefix, order.upload_grant)
            found = self._runs[key] = _Run(self._folders.path(key), prefix, grant)
        return found

    async def _store_whole(self, key: RunKey, run: _Run) -> None:
        for stream in STREAMS:
            path, name = run.folder / stream, f"logs/{key.number}/{key.run}/{self._node}.{stream}"
            try:
                data = await asyncio.to_thread(path.read_bytes)
            except FileNotFoundError:
                continue
            if dropped := read_base(str(path)):
                await self._put(f"{name}.base", str(dropped).encode())
            if data:
                await self._put(name, data)
