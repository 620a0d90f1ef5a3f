"""One connection to a port, carried by a tunnel in both directions: what arrives on one side leaves on the other at once, without a task.

A side that does not read stops the other: the connection is not read while the tunnel has no room, and the tunnel gets no credit
while the connection's buffer is full.
"""

import asyncio
import contextlib
import socket
import struct
from typing import cast

from lattice.agent.tunnels.flight import Flight
from lattice.wire.agents.tunnels import PIECE_BYTES, StreamTunnel, TunnelEnded
from lattice.wire.pb import agent_pb2 as pb

_RESET, _REGULAR = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)  # struct linger
_BROKE = "the connection broke"


class Carried(asyncio.Protocol):
    """Nothing is read before `start`, so that the work is not heard before the node has checked it again."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._tunnel: StreamTunnel | None = None
        self._flight = Flight()
        self._left = b""  # read, and not yet on its way
        self._has_ended = False  # the work sends no more
        self._is_ended = False  # the other side of the tunnel sends no more
        self._is_full = False
        self._owed = 0  # bytes that are in a full buffer
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def carry(self, tunnel: StreamTunnel, flight: Flight) -> None:
        """Returns when both directions have ended or one has broken; the connection is closed then."""
        transport = self._transport
        if transport is None or self._over.done():
            tunnel.close(_broken(None))
            return
        self._tunnel, self._flight = tunnel, flight
        # The kernel resets the connection when this process is killed: the work must not take what it got for all there was.
        _close_by(transport, _RESET)
        transport.resume_reading()
        tunnel.attend(self)
        try:
            await self._over
        finally:
            tunnel.close()
            if tunnel.is_ended:
                _close_by(transport, _REGULAR)
            transport.close()

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.pause_reading()
        self._transport.set_write_buffer_limits(high=PIECE_BYTES)

    def data_received(self, data: bytes) -> None:
        self._flight.outward()
        self._left = self._left + data if self._left else data
        self._send()

    def eof_received(self) -> bool:
        self._has_ended = True
        self._send()
        return True

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        owed, self._owed = self._owed, 0
        if owed and self._tunnel is not None:
            self._tunnel.taken(owed)

    def connection_lost(self, error: Exception | None) -> None:
        # When the tunnel was closed first, this changes nothing.
        if self._tunnel is not None and not (self._has_ended and self._is_ended):
            self._tunnel.close(_broken(error))
        self._finish()

    # What the tunnel tells (`Receiver`)

    def arrived(self, piece: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._flight.inward()
        transport.write(piece)
        _answer_soon(transport)
        if self._is_full:
            self._owed += len(piece)
        elif self._tunnel is not None:
            self._tunnel.taken(len(piece))

    def has_room(self) -> None:
        if self._left or self._has_ended:
            self._send()

    def is_over(self) -> None:
        tunnel, transport = self._tunnel, self._transport
        if tunnel is None or transport is None or self._over.done():
            return
        if tunnel.is_ended and not self._is_ended and tunnel.closed is None:
            self._is_ended = True
            if transport.can_write_eof() and not transport.is_closing():
                transport.write_eof()
            self._finish_if_done()
        elif tunnel.closed is not None:
            # Closed before its end: what the work has got is not all.
            if not tunnel.is_ended or tunnel.closed.code:
                transport.abort()
            self._finish()

    def _send(self) -> None:
        """What was read is sent, as far as there is room."""
        tunnel, transport = self._tunnel, self._transport
        if tunnel is None or transport is None:
            return
        if self._left:
            try:
                placed = tunnel.offer(self._left)
            except TunnelEnded:
                self._left = b""
                return
            self._left = self._left[placed:]
        if self._left:
            transport.pause_reading()
        elif self._has_ended:
            tunnel.end()
            self._finish_if_done()
        else:
            transport.resume_reading()

    def _finish_if_done(self) -> None:
        if self._has_ended and self._is_ended and not self._left:
            self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)


def _broken(error: Exception | None) -> pb.TunnelClosed:
    return pb.TunnelClosed(code="broken", text=str(error) if error else _BROKE)


def _close_by(transport: asyncio.Transport, linger: bytes) -> None:
    """Whether the connection is reset when it is closed, or ends."""
    with contextlib.suppress(OSError, AttributeError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def _answer_soon(transport: asyncio.Transport) -> None:
    """Has the kernel acknowledge what comes back without delay: servers that send head and body apart wait for that (40 ms)."""
    with contextlib.suppress(OSError, AttributeError):
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
