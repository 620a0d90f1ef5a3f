"""Follows a step live: what its tasks write on every node, each byte once, until it is over; and takes up where a caller was."""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress

from msgspec import Struct

from lattice.api.errors import ApiError
from lattice.ports.nodes.agents import AgentUnreachable, OutputPiece, OutputUnavailable
from lattice.ports.nodes.steps import StepService, StepView
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.agents.journals import whole_records

Stored = Callable[[str, int], AsyncIterator[OutputPiece]]  # node and position
AHEAD = 64  # pieces that wait for a slow caller
AGAIN_S = 0.1


class StepOutput(Struct, frozen=True, kw_only=True):
    """Whole records of a node's journal, base64; `next` is the position after them, `node` counts from 0."""

    node: int
    next: int
    data: str


class StepGap(Struct, frozen=True, kw_only=True):
    """The number of bytes of a node's journal that were overwritten before they were read."""

    node: int
    next: int
    bytes: int


class StepResult(Struct, frozen=True, kw_only=True):
    """How a step ended."""

    exit_code: int
    lost: int
    message: str
    failures: tuple[str, ...]


class Places(dict[int, int]):
    """How far each node was read; other nodes are read from `beginning`: 0, or negative: this number of bytes before the end."""

    beginning = 0


def parse_places(text: str) -> Places:
    """Places as a caller hands them back: `0:1234,3:99`; `recent:65536` begins with about the newest 65536 bytes of each node."""
    places = Places()
    word, _, count = text.partition(":")
    if word == "recent" and count.isascii() and count.isdigit() and len(count) < 10:
        places.beginning = -int(count)
        return places
    try:
        for piece in text.split(",") if text else ():
            node, _, place = piece.partition(":")
            places[int(node)] = max(0, int(place))
    except ValueError:
        raise ApiError("invalid", f'cannot read "{text[:60]}" as a place', hint="hand it back unchanged") from None
    return places


class StepFollower:
    """`look` returns the current state of the step, None when it is no longer known; `is_ready` whether this server leads.
    `stored` reads what the object store has of a node's journal, for what the node has dropped, or when it is gone."""

    def __init__(
        self,
        service: StepService,
        view: StepView,
        places: Places,
        look: Callable[[], StepView | None],
        is_ready: Callable[[], bool],
        stored: Stored | None = None,
    ) -> None:
        self._stored = stored
        self._service = service
        self._view = view
        self._places = places
        self._look = look
        self._is_ready = is_ready
        self._pieces: asyncio.Queue[StepOutput | StepGap] = asyncio.Queue(AHEAD)

    async def pieces(self) -> AsyncGenerator[StepOutput | StepGap, None]:
        """Everything that is written, from the places on; ends when all nodes have sent all they have."""
        nodes = self._view.layout.nodes if self._view.layout else ()
        readers = [asyncio.create_task(self._read(place, node)) for place, node in enumerate(nodes)]
        finished = asyncio.gather(*readers)
        waiting: asyncio.Task[StepOutput | StepGap] | None = None
        try:
            while True:
                waiting = waiting or asyncio.create_task(self._pieces.get())
                await asyncio.wait((waiting, finished), return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    piece, waiting = waiting.result(), None
                    yield piece
                elif finished.done() and self._pieces.empty():
                    finished.result()
                    return
        finally:
            for task in (*readers, *((waiting,) if waiting else ())):
                task.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            with suppress(asyncio.CancelledError, Exception):
                await finished

    async def _read(self, place: int, node: str) -> None:
        offset = self._places.get(place, self._places.beginning)
        while True:
            # Asked before reading: what was written before the end is then seen.
            was_over = self._is_over(node)
            begun = offset
            try:
                offset = await self._read_on(place, node, offset)
            except (AgentUnreachable, OutputUnavailable):
                if was_over:
                    await self._from_store(place, node, max(0, self._places.get(place, 0)))
                    return
                if not self._is_ready():
                    return
                await asyncio.sleep(AGAIN_S)
                offset = self._places.get(place, self._places.beginning)
            else:
                if was_over and offset == begun:
                    await self._from_store(
                        place, node, max(0, offset)
                    )  # the node has nothing, or has forgotten the step
                return

    async def _read_on(self, place: int, node: str, offset: int) -> int:
        view = self._view
        rest = b""
        async for piece in self._service.read(node, view.number, view.run, view.step, offset=offset):
            if offset < 0:
                offset = piece.offset
            if piece.offset > offset + len(rest):
                rest, offset = b"", await self._from_store(place, node, offset, piece.offset)
            if piece.offset > offset + len(rest):
                lost = piece.offset - offset
                rest, offset = b"", piece.offset
                self._places[place] = offset
                await self._pieces.put(StepGap(node=place, next=offset, bytes=lost))
            rest, offset = await self._send_records(place, rest + piece.data, offset)
        return offset

    async def _send_records(self, place: int, data: bytes, offset: int) -> tuple[bytes, int]:
        """Sends the whole records at the beginning of `data`; what is left of it, and where that begins."""
        size = whole_records(data)
        if size:
            offset += size
            self._places[place] = offset
            await self._pieces.put(StepOutput(node=place, next=offset, data=base64.b64encode(data[:size]).decode()))
        return data[size:], offset

    async def _from_store(self, place: int, node: str, offset: int, upto: int | None = None) -> int:
        """What the store has from `offset` to before `upto`; how far that went. Raises nothing: what cannot be read is missing."""
        if self._stored is None:
            return offset
        rest = b""
        with suppress(ObjectStoreError):
            async for piece in self._stored(node, offset):
                if upto is not None and piece.offset >= upto:
                    break
                if piece.offset > offset + len(rest):
                    await self._pieces.put(StepGap(node=place, next=piece.offset, bytes=piece.offset - offset))
                    rest, offset = b"", piece.offset
                data = piece.data if upto is None else piece.data[: upto - piece.offset]
                rest, offset = await self._send_records(place, rest + data, offset)
        return offset

    def _is_over(self, node: str) -> bool:
        """Whether nothing more can come from the node."""
        now = self._look()
        return now is None or now.has_ended or node in now.closed_nodes
