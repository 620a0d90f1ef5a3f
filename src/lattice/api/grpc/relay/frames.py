"""What waits to be sent on a relay: sent immediately while nothing is in flight, batched otherwise."""

import asyncio
from collections import deque

from lattice.core.model.site.protocols import OURS, Border, NoCommonVersion, negotiate, offer_of
from lattice.wire.pb import relay_pb2 as pb

# One batch; a frame that is larger travels alone.
BATCH_BYTES = 1 << 20
# Above this, senders have to wait.
ROOM_BYTES = 8 << 20
# Limit per agent, so that one that does not read does not block the others.
WINDOW_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 32 << 20
_FRAME_BYTES = 16


def greeting() -> pb.RelayFrames:
    """The first batch of each side: nothing but the versions it speaks."""
    ours = OURS[Border.SERVER]
    return pb.RelayFrames(oldest_protocol=ours.oldest, newest_protocol=ours.newest)


def check_greeting(batch: pb.RelayFrames, them: str) -> None:
    """Raises NoCommonVersion when the other server speaks none of our versions; one that says nothing speaks version 1."""
    try:
        theirs = offer_of(batch.oldest_protocol, batch.newest_protocol)
    except ValueError as error:
        raise NoCommonVersion(f"{them}: {error}") from error
    negotiate(OURS[Border.SERVER], theirs, them=them)


class FrameQueue:
    """Frames in the order in which they were put; taken in batches by one sender."""

    def __init__(self) -> None:
        self._frames: deque[pb.RelayFrame] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.frames_sent = 0
        self.batches_sent = 0

    def put(self, frame: pb.RelayFrame) -> None:
        """For frames that cannot wait and are small, or few."""
        self._frames.append(frame)
        self._bytes += _size(frame)
        if self._bytes >= ROOM_BYTES:
            self._room.clear()
        self._filled.set()

    async def put_when_room(self, frame: pb.RelayFrame) -> None:
        await self._room.wait()
        self.put(frame)

    def close(self) -> None:
        """Stop sending and release all waiting senders."""
        self._room.set()

    async def take(self) -> pb.RelayFrames:
        """Everything that has gathered, up to the size of one batch."""
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        batch: list[pb.RelayFrame] = []
        taken = 0
        while self._frames and (not batch or taken + _size(self._frames[0]) <= BATCH_BYTES):
            frame = self._frames.popleft()
            taken += _size(frame)
            batch.append(frame)
        self._bytes -= taken
        if self._bytes < ROOM_BYTES:
            self._room.set()
        self.frames_sent += len(batch)
        self.batches_sent += 1
        return pb.RelayFrames(frames=batch)


def _size(frame: pb.RelayFrame) -> int:
    return len(frame.payload) + len(frame.opened.register) + _FRAME_BYTES
