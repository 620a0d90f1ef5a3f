"""A collector's part: what the nodes of its group measured goes to the store in one request instead of one of each node.

Parts stay as their nodes wrote them, and are acknowledged when the store has them. One that the store refuses costs its own node alone.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from lattice.agent.collectors.figures import FigureLine, FigureRelay
from lattice.agent.telemetry.push.encoding import snappy_block
from lattice.agent.telemetry.push.requests import StoreRefused, StoreUnreachable, push_for_good
from lattice.wire.agents.collecting import Figures, Taken

EVERY_S = 2.0
REQUEST_BYTES = 1 << 20
KEPT_BYTES = 64 << 20

_log = logging.getLogger(__name__)


class Part(Struct, frozen=True):
    line: FigureLine
    frame: Figures


class GroupPusher:
    """`run` for good. `sent` and `refused` count parts; what does not fit any more is dropped, and stays with its node."""

    def __init__(self, relay: FigureRelay, post: Callable[[bytes], None]) -> None:
        self._post = post
        self._parts: deque[Part] = deque()
        self._bytes = 0
        self._is_failing = False
        self.sent = self.refused = self.dropped = 0
        relay.gather = self.take

    def take(self, line: FigureLine, frame: Figures) -> None:
        self._parts.append(Part(line, frame))
        self._bytes += len(frame.series)
        while self._bytes > KEPT_BYTES:
            self._bytes -= len(self._parts.popleft().frame.series)
            self.dropped += 1

    async def run(self) -> None:
        """Never returns."""
        await push_for_good(EVERY_S, self._parts, self.push_batch)

    async def push_batch(self) -> bool:
        """Sends the oldest parts together; False when they have to wait."""
        batch, size = list[Part](), 0
        for part in self._parts:
            size += len(part.frame.series)
            if batch and size > REQUEST_BYTES:
                break
            batch.append(part)
        try:
            await self._send(batch)
        except StoreUnreachable as error:
            if not self._is_failing:
                _log.warning("cannot send metrics of the group to the store: %s", error)
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    async def _send(self, batch: list[Part]) -> None:
        """Together, or where the store refuses that, each by itself. Raises StoreUnreachable."""
        try:
            await asyncio.to_thread(self._post, snappy_block(b"".join(part.frame.series for part in batch)))
        except StoreRefused:
            if len(batch) == 1:
                self.refused += 1
                self._done(batch)
                return
            for part in batch:
                await self._send([part])
            return
        self.sent += len(batch)
        self._done(batch)

    def _done(self, batch: list[Part]) -> None:
        for part in batch:
            if self._parts and self._parts[0] is part:
                self._parts.popleft()
                self._bytes -= len(part.frame.series)
            part.line.give(Taken(part.frame.number))
