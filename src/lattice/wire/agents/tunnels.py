"""Tunnels over one bulk stream: many connections, each with a number and with a window of its own in both directions.

Both ends use the same `Tunnels`; the server opens, the agent is asked. It knows no transport: `take` what was received, send what
`next_message` returns. A side that sends more than its window breaks its own tunnel and no other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import DecodeError

from lattice.wire.pb import agent_pb2 as pb

WINDOW_BYTES = 1 << 20
# Of one frame; small enough that others get their turn.
PIECE_BYTES = 1 << 16
# Of one message, and of what waits for it.
BATCH_BYTES = 1 << 18
ROOM_BYTES = 4 << 20
MAX_TUNNELS = 1_024
SERVICE = "lattice.v1.AgentBulkService"
METHOD = f"/{SERVICE}/Bulk"
PURPOSE = "tunnels"


class TunnelEnded(Exception):
    """The tunnel is closed; `closed` is what the other side said, or that the stream was lost."""

    def __init__(self, closed: pb.TunnelClosed) -> None:
        super().__init__(closed.text or "the connection was closed")
        self.closed = closed


class BadFrames(Exception):
    """What came is not a message of a bulk stream."""


class Receiver(Protocol):
    """Who takes what comes at once, without a task that waits for it."""

    def arrived(self, piece: bytes) -> None:
        """Answered with `StreamTunnel.taken`, now or when there is room for more."""
        ...

    def has_room(self) -> None:
        """What `StreamTunnel.offer` did not take may be offered again."""
        ...

    def is_over(self) -> None:
        """The other side has ended or closed the tunnel, or it was lost."""
        ...


class StreamTunnel:
    """One connection: `read` and `write` are awaited, each by one task, or `attend` names who takes what comes."""

    def __init__(self, tunnels: "Tunnels", number: int) -> None:
        self.number = number
        self._tunnels = tunnels
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._unread = 0
        self._uncredited = 0
        self._room = WINDOW_BYTES
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_ended = False  # the other side sends no more
        self._has_ended = False  # we do not
        self._closed: pb.TunnelClosed | None = None
        self._receiver: Receiver | None = None

    def attend(self, receiver: Receiver) -> None:
        """From now on what comes goes there; a tunnel that is attended is not read."""
        self._receiver = receiver
        while self._inbox:
            receiver.arrived(self._inbox.popleft())
        if self._is_ended or self._closed is not None:
            receiver.is_over()

    async def opened(self) -> None:
        """Returns when the other side has connected; raises TunnelEnded."""
        await asyncio.shield(self._opened)

    async def read(self) -> bytes:
        """The next bytes; none at the end. Raises TunnelEnded."""
        while not self._inbox:
            if self._is_ended:
                return b""
            if self._closed is not None:
                if self._closed.code:
                    raise TunnelEnded(self._closed)
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        piece = self._inbox.popleft()
        self.taken(len(piece))
        return piece

    def taken(self, count: int) -> None:
        """`count` bytes of what came are dealt with."""
        self._unread -= count
        self._uncredited += count
        if self._uncredited >= WINDOW_BYTES // 4 and self._closed is None:
            self._tunnels.put(pb.BulkFrame(tunnel=self.number, taken=self._uncredited))
            self._uncredited = 0

    def offer(self, data: bytes) -> int:
        """How many of the bytes are on their way now; the receiver hears when there is room for the rest. Raises TunnelEnded."""
        place = 0
        while place < len(data):
            if self._closed is not None:
                raise TunnelEnded(self._closed)
            if self._room <= 0 or not self._tunnels.has_room(self):
                break
            most = min(PIECE_BYTES, self._room)
            piece = data if not place and len(data) <= most else data[place : place + most]
            place += len(piece)
            self._room -= len(piece)
            self._tunnels.put(pb.BulkFrame(tunnel=self.number, data=piece))
        return place

    async def write(self, data: bytes) -> None:
        """Returns when all of it is on its way; raises TunnelEnded."""
        place = 0
        while place < len(data):
            while self._room <= 0 and self._closed is None:
                self._has_room.clear()
                await self._has_room.wait()
            await self._tunnels.room()
            if self._closed is not None:
                raise TunnelEnded(self._closed)
            piece = data[place : place + min(PIECE_BYTES, self._room)]
            place += len(piece)
            self._room -= len(piece)
            self._tunnels.put(pb.BulkFrame(tunnel=self.number, data=piece))

    def end(self) -> None:
        """No more comes from here."""
        if not self._has_ended and self._closed is None:
            self._has_ended = True
            self._tunnels.put(pb.BulkFrame(tunnel=self.number, end=True))

    def close(self, closed: pb.TunnelClosed | None = None) -> None:
        """Nothing more is sent or taken; harmless when repeated."""
        if self._closed is None:
            said = closed or pb.TunnelClosed()
            self._tunnels.put(pb.BulkFrame(tunnel=self.number, closed=said))
            self._tunnels.forget(self.number)
            self.lose(said)

    def confirm(self) -> None:
        """Tells the other side that the connection is there."""
        self._tunnels.put(pb.BulkFrame(tunnel=self.number, opened=pb.TunnelOpened()))

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def is_ended(self) -> bool:
        """Whether the other side has said that no more comes; a tunnel that is closed before was cut."""
        return self._is_ended

    @property
    def is_quiet(self) -> bool:
        """Whether it is open in both directions and everything that came was read."""
        return self._closed is None and not self._is_ended and not self._has_ended and not self._inbox

    def take(self, frame: pb.BulkFrame) -> None:
        """What the other side said of this tunnel."""
        match frame.WhichOneof("body"):
            case "opened":
                if not self._opened.done():
                    self._opened.set_result(None)
            case "data":
                self._unread += len(frame.data)
                if self._unread + self._uncredited > WINDOW_BYTES + PIECE_BYTES:
                    self.close(pb.TunnelClosed(code="broken", text="more was sent than the window allows"))
                    return
                if self._receiver is not None:
                    self._receiver.arrived(frame.data)
                    return
                self._inbox.append(frame.data)
                self._arrived.set()
            case "taken":
                self._room = min(self._room + frame.taken, WINDOW_BYTES)
                self.made_room()
            case "end":
                self._is_ended = True
                self._arrived.set()
                if self._receiver is not None:
                    self._receiver.is_over()
            case "closed":
                self._tunnels.forget(self.number)
                self.lose(frame.closed)

    def made_room(self) -> None:
        self._has_room.set()
        if self._receiver is not None:
            self._receiver.has_room()

    @property
    def closed(self) -> pb.TunnelClosed | None:
        """What was said when it was closed; None while it is open."""
        return self._closed

    def lose(self, closed: pb.TunnelClosed) -> None:
        """It is over; those who wait learn why."""
        if self._closed is not None:
            return
        self._closed = closed
        if self._receiver is not None:
            self._receiver.is_over()
        self._arrived.set()
        self._has_room.set()
        if not self._opened.done():
            self._opened.set_exception(TunnelEnded(closed))
            self._opened.exception()  # retrieved, or the loop would complain


class Tunnels:
    """All tunnels of one stream. `asked` gets those that the other side opens; without it that is refused."""

    def __init__(self, asked: Callable[[StreamTunnel, pb.OpenTunnel], None] | None = None) -> None:
        self._asked = asked
        self._tunnels: dict[int, StreamTunnel] = {}
        self._last = 0
        self._frames: deque[pb.BulkFrame] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._held: dict[StreamTunnel, None] = {}  # those whose receiver waits for room, in order
        self.lost: pb.TunnelClosed | None = None

    def __len__(self) -> int:
        return len(self._tunnels)

    def open(self, asked: pb.OpenTunnel) -> StreamTunnel:
        """A tunnel on its way; data may be written already. Raises TunnelEnded when the stream is lost or full."""
        if self.lost is not None:
            raise TunnelEnded(self.lost)
        if len(self._tunnels) >= MAX_TUNNELS:
            raise TunnelEnded(pb.TunnelClosed(code="broken", text=f"the node has {MAX_TUNNELS:,} connections already"))
        self._last += 1
        tunnel = self._tunnels[self._last] = StreamTunnel(self, self._last)
        self.put(pb.BulkFrame(tunnel=self._last, open=asked))
        return tunnel

    def say_hello(self, ticket: str) -> None:
        self.put(pb.BulkFrame(hello=ticket))

    def take(self, message: bytes) -> None:
        """What came on the stream; raises BadFrames."""
        try:
            batch = pb.BulkFrames.FromString(message)
        except DecodeError as error:
            raise BadFrames("not a message of a bulk stream") from error
        for frame in batch.frames:
            tunnel = self._tunnels.get(frame.tunnel)
            if tunnel is not None:
                tunnel.take(frame)
            elif frame.HasField("open"):
                self._be_asked(frame)

    def _be_asked(self, frame: pb.BulkFrame) -> None:
        if self._asked is None or len(self._tunnels) >= MAX_TUNNELS:
            refused = pb.TunnelClosed(code="broken", text=f"at most {MAX_TUNNELS:,} connections at a time")
            self.put(pb.BulkFrame(tunnel=frame.tunnel, closed=refused))
            return
        tunnel = self._tunnels[frame.tunnel] = StreamTunnel(self, frame.tunnel)
        self._asked(tunnel, frame.open)

    def put(self, frame: pb.BulkFrame) -> None:
        self._frames.append(frame)
        self._bytes += len(frame.data)
        if self._bytes >= ROOM_BYTES:
            self._has_room.clear()
        self._filled.set()

    async def room(self) -> None:
        """Returns when more data may be put."""
        if self._bytes >= ROOM_BYTES and self.lost is None:
            await self._has_room.wait()

    def has_room(self, tunnel: StreamTunnel) -> bool:
        """Whether more data may be put; if not, the tunnel hears when it may."""
        if self._bytes < ROOM_BYTES or self.lost is not None:
            return True
        self._held[tunnel] = None
        return False

    async def next_message(self) -> bytes:
        """Everything that has gathered, up to the size of one message; nothing when the stream is lost."""
        while not self._frames or self.lost is not None:
            if self.lost is not None:
                return b""
            self._filled.clear()
            await self._filled.wait()
            # Tasks that are ready now add to the same message.
            await asyncio.sleep(0)
        batch = pb.BulkFrames()
        taken = 0
        while self._frames and (not taken or taken + len(self._frames[0].data) <= BATCH_BYTES):
            frame = self._frames.popleft()
            taken += len(frame.data)
            batch.frames.append(frame)
        self._bytes -= taken
        if self._bytes < ROOM_BYTES:
            self._has_room.set()
            held, self._held = self._held, {}
            for tunnel in held:
                tunnel.made_room()
        return batch.SerializeToString()

    def forget(self, number: int) -> None:
        self._tunnels.pop(number, None)

    def lose(self, why: str) -> None:
        """The stream is gone, and all tunnels with it."""
        if self.lost is None:
            self.lost = pb.TunnelClosed(code="broken", text=why)
            for tunnel in list(self._tunnels.values()):
                tunnel.lose(self.lost)
            self._tunnels.clear()
            self._has_room.set()
            self._filled.set()
