"""Follows the output of an allocation over all its launch nodes and runs, until it has ended.

A connection to a node that breaks is taken up again where it was; once the node's part is over the stored output
serves. Pieces are cut between UTF-8 characters, so that text stays text.
"""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

from lattice.api.context import Context
from lattice.api.find.lookup import find_number
from lattice.api.running.output import (
    Source,
    chosen_nodes,
    is_part_over,
    is_part_whole,
    launch_nodes,
    whole_characters,
)
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import AgentUnreachable, OutputName, OutputPiece, OutputUnavailable
from lattice.wire.text.problems import BadField

_QUEUED = 16
_RETRY_FROM_S, _RETRY_TO_S = 0.1, 2.0
_LONG_S = 3600.0
_PLACE = re.compile(r"(?:r(\d{1,9}):)?(\d{1,18}|[^=,]+=\d{1,18}(?:,[^=,]+=\d{1,18})*)", re.ASCII)


@dataclass(slots=True)
class Place:
    """How far a follower got: the run, and per node the offset of the next byte; "" stands for the only node."""

    run: int = 1
    offsets: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Place":
        """The place behind an event id. Raises BadField."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise BadField("Last-Event-ID", "is not the id of an event of this stream")
        run, offsets = int(match[1] or 1), match[2]
        if "=" not in offsets:
            return cls(run, {"": int(offsets)})
        pairs = (pair.rpartition("=") for pair in offsets.split(","))
        return cls(run, {node: int(offset) for node, _, offset in pairs})

    def __str__(self) -> str:
        head = f"r{self.run}:" if self.run > 1 else ""
        if len(self.offsets) == 1:
            return f"{head}{next(iter(self.offsets.values()))}"
        return head + ",".join(f"{node}={offset}" for node, offset in self.offsets.items())


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one node's output; `place` is the event id behind them."""

    node: str
    offset: int
    data: bytes
    place: str
    marks: tuple[tuple[int, int], ...] = ()


_Queued = tuple[str, OutputPiece | Exception | None]


class Follower:
    """`fixed_run` = 0 follows whatever run comes next until the allocation has ended."""

    def __init__(
        self,
        context: Context,
        record: Allocation,
        stream: OutputName,
        *,
        node: str = "",
        fixed_run: int = 0,
        tail: int = 0,
        place: Place | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> None:
        self.record = record
        self._context = context
        self._feed = context.services.feed
        self._stream: OutputName = stream
        self._node = node
        self._fixed_run = fixed_run
        self._tail = 0 if place else tail
        self._place = place
        self._since_ms, self._until_ms = since_ms, until_ms

    async def items(self) -> AsyncGenerator[Piece | int, None]:
        """Pieces as they come; a number says that this run starts again."""
        done = 0
        while not self._feed.is_closed:
            record = await self._look()
            run = self._fixed_run or record.run
            if run > done and (record.parts or record.is_terminal or self._fixed_run):
                if done or (self._place is not None and self._place.run != run):
                    self._place = None
                    yield run
                async for piece in self._follow_run(run):
                    yield piece
                done, self._place, self._tail = run, None, 0
                if self._fixed_run or self._left_s() == 0:
                    return
            elif record.is_terminal or self._left_s() == 0:
                return
            else:
                await self._feed.next_change_of(record.number, min(_LONG_S, self._left_s()))

    def _left_s(self) -> float:
        """Until the end of the time that is asked for; 0 when it is over."""
        if self._until_ms is None:
            return math.inf
        return max(0.0, (self._until_ms - self._context.services.clock.now_ms()) / 1000)

    async def _look(self) -> Allocation:
        found = await find_number(self._context, self.record.number)
        if found is not None and isinstance(found.record, Allocation):
            self.record = found.record
        return self.record

    async def _follow_run(self, run: int) -> AsyncIterator[Piece]:
        services = self._context.services
        launched = await launch_nodes(services, self.record, run, self._stream)
        nodes = chosen_nodes(launched, self._node)
        known = self._place.offsets if self._place is not None else {}
        starts = {node: known.get(node, known.get("", 0)) for node in nodes}
        queue: asyncio.Queue[_Queued] = asyncio.Queue(_QUEUED)
        tasks = [asyncio.create_task(self._pump(self._source(run, node), starts[node], queue)) for node in nodes]
        try:
            async for piece in _in_whole_characters(queue, Place(run, starts)):
                yield piece
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _source(self, run: int, node: str) -> Source:
        return Source(self._context.services, self.record, run, node, self._stream)

    async def _pump(self, source: Source, offset: int, queue: asyncio.Queue[_Queued]) -> None:
        """Forward one node's output to its end, marked by None."""
        try:
            await self._read(source, offset, queue)
            await queue.put((source.node, None))
        except Exception as error:  # noqa: BLE001 - raised again by the reader of the queue
            await queue.put((source.node, error))

    async def _read(self, source: Source, offset: int, queue: asyncio.Queue[_Queued]) -> None:
        tail, delay = self._tail, _RETRY_FROM_S
        while not self._feed.is_closed:
            record = await self._look()
            is_over, left_s = is_part_over(record, source.run, source.node), self._left_s()
            if is_over:
                whole = is_part_whole(record, source.run, source.node)
                pieces = source.finished(is_whole=whole, offset=offset, tail_lines=tail, since_ms=self._since_ms)
            else:
                pieces = source.running(offset=offset, tail_lines=tail, follow=left_s > 0, since_ms=self._since_ms)
            is_bounded = not is_over and 0 < left_s < math.inf
            try:
                async with asyncio.timeout(left_s if is_bounded else None) as bound:
                    async for piece in pieces:
                        offset, tail, delay = piece.offset + len(piece.data), 0, _RETRY_FROM_S
                        await queue.put((source.node, piece))
                return
            except TimeoutError:
                if not bound.expired():
                    raise
                # What was written until then is there, and is read without waiting for more.
            except (AgentUnreachable, OutputUnavailable):
                if is_over:
                    return
                await self._feed.next_change_of(record.number, delay)
                delay = min(delay * 2, _RETRY_TO_S)


async def _in_whole_characters(queue: asyncio.Queue[_Queued], place: Place) -> AsyncIterator[Piece]:
    """Takes pieces from the queue until every node is done; moves `place` along."""
    open_nodes = len(place.offsets)
    kept: dict[str, bytes] = {}
    while open_nodes:
        node, item = await queue.get()
        if isinstance(item, Exception):
            raise item
        rest = kept.pop(node, b"")
        if item is None:
            open_nodes -= 1
            offset, data, whole = place.offsets[node], rest, len(rest)
        else:
            is_next = item.offset == place.offsets[node] + len(rest)
            offset = place.offsets[node] if is_next else item.offset
            data = rest + item.data if is_next else item.data
            whole = whole_characters(data)
            kept[node] = data[whole:]
        if whole:
            place.offsets[node] = offset + whole
            yield Piece(node, offset, data[:whole], str(place), item.marks if item is not None else ())
        elif item is not None:
            place.offsets[node] = offset
