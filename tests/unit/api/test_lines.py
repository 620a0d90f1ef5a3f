"""Connections that carry frames: payloads in parts, ends in both directions, clients that go away."""

import asyncio
from collections import deque
from typing import cast

import pytest

from lattice.api.rest.lines import END, MAX_FRAME, Frames, Line, LineBroken, carry
from lattice.ports.nodes.tunnels import TunnelBroken


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("step", [1, 3, 4, 5, 100])
def test_frames_are_read_however_they_are_cut(step: int) -> None:
    frames, text, got = Frames(), frame(b"hello") + frame(b"world") + END, b""
    for place in range(0, len(text), step):
        got += b"".join(frames.take(text[place : place + step]))
    assert (got, frames.over.is_set()) == (b"helloworld", True)


def test_frames_that_are_too_large_or_come_after_the_end_break_the_line() -> None:
    with pytest.raises(LineBroken, match="at most"):
        Frames().take((MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(LineBroken, match="after the end"):
        Frames().take(END + b"x")


class Wire(asyncio.Transport):
    """What the client would see."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_over = False

    def writelines(self, list_of_data: object) -> None:
        self.written += b"".join(cast("tuple[bytes, ...]", list_of_data))

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True


class Work:
    """Implements `Tunnel`: says what it is given, and then ends or breaks."""

    def __init__(self, *pieces: bytes, breaks: bool = False, waits: bool = False) -> None:
        self.pieces = deque(pieces)
        self.got, self.ended, self.closed = b"", asyncio.Event(), False
        self._breaks, self._waits = breaks, waits

    @property
    def is_quiet(self) -> bool:
        return not self.pieces

    async def read(self) -> bytes:
        if self.pieces:
            return self.pieces.popleft()
        if self._breaks:
            raise TunnelBroken("gone")
        if self._waits:
            await self.ended.wait()
        return b""

    async def write(self, data: bytes) -> None:
        self.got += data

    def end(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self.closed = True


class Standing:
    """Implements `Standing`."""

    def __init__(self, left_s: float = 60.0) -> None:
        self._left_s = left_s

    def left_s(self) -> float:
        return self._left_s

    async def confirm(self) -> None:
        raise PermissionError


async def _drained() -> None:
    return


def test_both_directions_are_carried_to_their_ends() -> None:
    async def whole() -> None:
        work, wire = Work(b"answer", waits=True), Wire()
        await asyncio.wait_for(carry(Line(wire, _drained, frame(b"ask") + END), work, Standing()), 5)
        assert (work.got, work.closed, wire.written, wire.is_over) == (b"ask", True, frame(b"answer") + END, True)

    asyncio.run(whole())


def test_a_connection_ends_with_its_client_its_work_or_the_right_to_it() -> None:
    async def whole(work: Work, *, gone: bool, left_s: float) -> Wire:
        wire = Wire()
        line = Line(wire, _drained, b"")
        if gone:
            line.end()
        await asyncio.wait_for(carry(line, work, Standing(left_s)), 5)
        assert work.closed
        assert wire.is_over
        return wire

    async def all_of_them() -> None:
        await whole(Work(waits=True), gone=True, left_s=60)
        broken = await whole(Work(b"half", breaks=True), gone=False, left_s=60)
        assert broken.written == frame(b"half")  # no end: bytes are missing
        await whole(Work(waits=True), gone=False, left_s=0)

    asyncio.run(all_of_them())
