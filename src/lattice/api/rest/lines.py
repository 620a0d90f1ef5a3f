"""Connections that were upgraded: after the head of a request they carry frames instead of HTTP.

A frame is four bytes of length, most significant first, and that many bytes; length 0 says that no more comes from that side.
`Line` is one end of such a connection as the server has it; `carry` joins it to a tunnel.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from lattice.ports.nodes.tunnels import Tunnel

# In the scope of a request that may be upgraded: what makes a line of its connection.
UPGRADE = "lattice.upgrade"
NAME = b"lattice-tunnel"
HEAD = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: " + NAME + b"\r\n\r\n"
MAX_FRAME = 1 << 20
HIGH_WATER = 1 << 19
END = bytes(4)


class LineBroken(Exception):
    """The client is gone, or does not keep to the frames."""


class Line:
    """Bytes of a connection that is no longer HTTP."""

    def __init__(self, transport: asyncio.Transport, drain: Callable[[], Awaitable[None]], early: bytes) -> None:
        self._transport = transport
        self._drain = drain
        self._buffer = bytearray(early)
        self._arrived = asyncio.Event()
        self._is_ended = False
        self._is_paused = False

    # called by the connection

    def feed(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()
        if len(self._buffer) > HIGH_WATER and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def end(self) -> None:
        """Nothing more comes, on purpose or not."""
        self._is_ended = True
        self._arrived.set()

    # used by its carrier

    async def read(self) -> bytes:
        """Whatever has come; nothing at the end."""
        while not self._buffer:
            if self._is_ended:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        if self._is_paused and not self._is_ended:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def write(self, *pieces: bytes) -> None:
        """Returns when more may come; raises LineBroken."""
        if self._transport.is_closing():
            raise LineBroken("the client is gone")
        self._transport.writelines(pieces)
        await self._drain()

    def close(self) -> None:
        self._transport.close()


class Frames:
    """Bytes in, payloads out; a payload may come in parts."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self.over = asyncio.Event()

    def take(self, data: bytes) -> list[bytes]:
        """Payloads in order; raises LineBroken."""
        found: list[bytes] = []
        place = 0
        while place < len(data):
            if self.over.is_set():
                raise LineBroken("bytes after the end")
            if self._left:
                piece = data[place : place + self._left]
                found.append(piece)
                place += len(piece)
                self._left -= len(piece)
                continue
            part = data[place : place + 4 - len(self._head)]
            self._head += part
            place += len(part)
            if len(self._head) == 4:
                self._left = int.from_bytes(self._head, "big")
                self._head = b""
                if not self._left:
                    self.over.set()
                if self._left > MAX_FRAME:
                    raise LineBroken(f"a frame of {self._left:,} bytes; at most {MAX_FRAME:,}")
        return found


class Standing(Protocol):
    """Whether the caller may still have the connection."""

    def left_s(self) -> float: ...

    async def confirm(self) -> None: ...


async def carry(line: Line, tunnel: Tunnel, standing: Standing) -> None:
    """Carries both directions until both have ended, one has broken, or the caller may not have it any more."""
    frames = Frames()
    answering = asyncio.create_task(_to_client(line, tunnel))
    asking = asyncio.create_task(_to_work(line, tunnel, frames))
    judging = asyncio.create_task(_judge(standing))
    try:
        await asyncio.wait((answering, asking, judging), return_when=asyncio.FIRST_COMPLETED)
        if answering.done() and answering.exception() is None and not asking.done():
            # The work has said everything; it may still listen.
            await asyncio.wait(
                (asyncio.create_task(frames.over.wait()), asking, judging), return_when=asyncio.FIRST_COMPLETED
            )
    finally:
        for task in (answering, asking, judging):
            task.cancel()
        await asyncio.gather(answering, asking, judging, return_exceptions=True)
        tunnel.close()
        line.close()


async def _to_client(line: Line, tunnel: Tunnel) -> None:
    while piece := await tunnel.read():
        await line.write(len(piece).to_bytes(4, "big"), piece)
    await line.write(END)


async def _to_work(line: Line, tunnel: Tunnel, frames: Frames) -> None:
    """Returns when the client is gone."""
    while data := await line.read():
        for piece in frames.take(data):
            await tunnel.write(piece)
        if frames.over.is_set():
            tunnel.end()


async def _judge(standing: Standing) -> None:
    with contextlib.suppress(Exception):
        while True:
            await asyncio.sleep(standing.left_s() + 0.01)
            await standing.confirm()
