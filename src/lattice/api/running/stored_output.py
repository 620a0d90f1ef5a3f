"""What the object store has of one stream of a run on one node: chunks that came while it ran, or the file of release 0.1.0."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from lattice.api.limits import OUTPUT_PIECE_BYTES
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import OutputPiece
from lattice.ports.nodes.steps import StepView
from lattice.ports.quorum.object_store import ObjectMissing, ObjectStore, ObjectStoreError
from lattice.wire.files.chunks import (
    PACKED_BYTES,
    BadChunk,
    Place,
    deletion_mark,
    place_of,
    run_prefix,
    step_stream,
    unpack,
)

_TAIL_BLOCK = 64 << 10


class StoredOutput:
    """`prefix` ends with the node; `file` is the name that release 0.1.0 gave to the whole output."""

    def __init__(self, objects: ObjectStore, prefix: str, file: str) -> None:
        self._objects, self._prefix, self._file = objects, prefix, file

    async def pieces(
        self, *, offset: int = 0, tail_lines: int = 0, since_ms: int | None = None
    ) -> AsyncGenerator[OutputPiece, None]:
        """From `offset`, or the last lines, or a place before what was written at `since_ms`. Raises ObjectMissing without any."""
        places = await self.places()
        if not places:
            found = self._whole(offset, tail_lines)
        elif tail_lines:
            found = self._last_lines(places, tail_lines)
        else:
            found = self._chunks(_from(places, offset, since_ms), offset)
        async with aclosing(found):
            async for piece in found:
                yield piece

    async def places(self) -> list[Place]:
        """Where the chunks begin, in order."""
        names = [name async for name in self._objects.names(f"{self._prefix}/")]
        return [place for place in map(place_of, names) if place is not None]

    async def is_deleted(self) -> bool:
        """Whether somebody deleted it; what the node still has does not count then."""
        run = self._prefix.rsplit("/", 2)[0]
        for prefix in (run, run.rpartition("/")[0]):
            with suppress(ObjectMissing):
                return await self._objects.size(deletion_mark(prefix)) >= 0
        return False

    async def _chunk(self, place: Place) -> OutputPiece:
        try:
            # Nodes store these themselves, and nothing limits how much they send.
            packed = await self._objects.get(f"{self._prefix}/{place.name}", length=PACKED_BYTES)
            data, marks = await asyncio.to_thread(unpack, place, packed)
        except BadChunk as error:
            raise ObjectStoreError(f"{self._prefix}/{place.name} is damaged: {error}") from error
        return OutputPiece(offset=place.offset, data=data, marks=tuple(marks))

    async def _chunks(self, places: list[Place], offset: int) -> AsyncGenerator[OutputPiece, None]:
        for place in places:
            chunk = await self._chunk(place)
            # A chunk may begin inside the one before, where a node lost its note of what it had stored.
            for piece in _cut(chunk, max(0, offset - place.offset)):
                yield piece
            offset = max(offset, chunk.offset + len(chunk.data))

    async def _last_lines(self, places: list[Place], lines: int) -> AsyncGenerator[OutputPiece, None]:
        last = await self._chunk(places[-1])
        breaks = places[-1].line + last.data.count(b"\n")
        first = breaks - lines + (not last.data.endswith(b"\n"))  # line breaks before the first line that is wanted
        index = max(0, bisect_left(places, first, key=lambda place: place.line) - 1)
        offset = places[index].offset
        if first > 0:
            chunk = last if index == len(places) - 1 else await self._chunk(places[index])
            offset += _behind_breaks(chunk.data, first - places[index].line)
        async for piece in self._chunks(places[index:], offset):
            yield piece

    async def _whole(self, offset: int, tail_lines: int) -> AsyncGenerator[OutputPiece, None]:
        size = await self._objects.size(self._file)
        dropped = await self._dropped()
        place = max(0, offset - dropped)
        if tail_lines:
            place = await _tail_offset(self._objects, self._file, size, tail_lines)
        while place < size:
            data = await self._objects.get(self._file, offset=place, length=OUTPUT_PIECE_BYTES)
            if not data:
                return
            yield OutputPiece(offset=dropped + place, data=data)
            place += len(data)

    async def _dropped(self) -> int:
        """How many bytes the node had dropped from the beginning before it stored the rest."""
        try:
            return int(await self._objects.get(f"{self._file}.base"))
        except (ObjectMissing, ValueError):
            return 0


async def stored_journal(
    objects: ObjectStore, allocation: Allocation, view: StepView, node: str, offset: int
) -> AsyncGenerator[OutputPiece, None]:
    """What the store has of a step's journal on a node, from a position on; nothing of what was deleted. Raises ObjectStoreError."""
    run = run_prefix(allocation.tenant, allocation.project, allocation_id(allocation.number), view.run)
    stored = StoredOutput(objects, f"{run}/{step_stream(view.step)}/{node}", f"{run}/{step_stream(view.step)}/whole")
    for prefix in (run, run.rpartition("/")[0]):
        with suppress(ObjectMissing):
            await objects.size(deletion_mark(prefix))
            return
    async with aclosing(stored.pieces(offset=offset)) as pieces:
        async for piece in pieces:
            yield piece


def _from(places: list[Place], offset: int, since_ms: int | None) -> list[Place]:
    """Those that may have what is wanted: the last one that begins before it, and all behind."""
    first = bisect_right(places, offset, key=lambda place: place.offset) - 1
    if since_ms is not None:
        first = max(first, bisect_right(places, since_ms - 1, key=lambda place: place.at_ms) - 1)
    return places[max(0, first) :]


def _cut(chunk: OutputPiece, start: int) -> list[OutputPiece]:
    """In pieces of the usual size, from `start` on, each with its marks."""
    pieces = []
    for first in range(start, len(chunk.data), OUTPUT_PIECE_BYTES):
        data = chunk.data[first : first + OUTPUT_PIECE_BYTES]
        place = chunk.offset + first
        low = max(0, bisect_right(chunk.marks, place, key=lambda mark: mark[0]) - 1)
        high = bisect_right(chunk.marks, place + len(data) - 1, key=lambda mark: mark[0])
        pieces.append(OutputPiece(offset=place, data=data, marks=chunk.marks[low:high]))
    return pieces


def _behind_breaks(data: bytes, count: int) -> int:
    place = 0
    for _ in range(count):
        place = data.find(b"\n", place) + 1
        if not place:
            return len(data)
    return place


async def _tail_offset(objects: ObjectStore, name: str, size: int, lines: int) -> int:
    """Where the last `lines` lines begin; a last line without a line break counts."""
    end, missing = size, lines
    if size and await objects.get(name, offset=size - 1, length=1) == b"\n":
        missing += 1
    while end > 0:
        start = max(0, end - _TAIL_BLOCK)
        block = await objects.get(name, offset=start, length=end - start)
        place = len(block)
        while missing and (found := block.rfind(b"\n", 0, place)) >= 0:
            place = found
            missing -= 1
        if not missing:
            return start + place + 1
        end = start
    return 0
