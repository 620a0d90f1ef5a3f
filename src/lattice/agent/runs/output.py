"""Readers of captured output: from an offset or the last lines, to the end of the file or of the run."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import BinaryIO

import msgspec

from lattice.agent.connection import Outbox
from lattice.agent.messages import output_chunk
from lattice.agent.shim.output import read_base, read_output, read_times

CHUNK_BYTES = 64 * 1024
# Small writes within this time travel together.
POLL_S = 0.05
MAX_READERS = 256


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one reader asked for."""

    reader: int
    path: Path
    offset: int = 0
    tail_lines: int = 0
    follow: bool = False


def tail_offset(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin, counted from the first byte that was ever written."""
    try:
        with path.open("rb") as file:
            return read_base(str(path)) + _tail_position(file, lines)
    except FileNotFoundError:
        return 0


def _tail_position(file: BinaryIO, lines: int) -> int:
    # A line feed at the very end closes the last line, it does not begin another.
    position = file.seek(0, os.SEEK_END) - 1
    found = 0
    while position > 0:
        start = max(0, position - CHUNK_BYTES)
        file.seek(start)
        block = file.read(position - start)
        index = block.rfind(b"\n")
        while index >= 0:
            found += 1
            if found == lines:
                return start + index + 1
            index = block.rfind(b"\n", 0, index)
        position = start
    return 0


async def send_output(reading: Reading, outbox: Outbox, has_ended: Callable[[], bool]) -> None:
    """Send everything asked for in chunks, the last of them marked; a reader that follows ends with the run."""
    offset = reading.offset
    if reading.tail_lines > 0:
        offset = tail_offset(reading.path, reading.tail_lines)
    while True:
        # Asked before reading: what a run wrote before its end is then seen.
        is_over = not reading.follow or has_ended()
        marks: list[tuple[int, int]] = []
        try:
            offset, data = read_output(str(reading.path), offset, CHUNK_BYTES)
            if data:
                marks = read_times(str(reading.path), offset, offset + len(data))
        except FileNotFoundError:
            data = b""
        except OSError as error:
            await outbox.put_output(output_chunk(reading.reader, offset, eof=True, error=str(error)))
            return
        if data or is_over:
            is_last = is_over and len(data) < CHUNK_BYTES
            await outbox.put_output(output_chunk(reading.reader, offset, data, marks, eof=is_last))
            offset += len(data)
            if is_last:
                return
        if len(data) < CHUNK_BYTES:
            await asyncio.sleep(POLL_S)


class Readers:
    """The readers of one stream to a server."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def open(self, reading: Reading, has_ended: Callable[[], bool]) -> None:
        if len(self._tasks) >= MAX_READERS:
            self.refuse(reading.reader, f"this node already has {MAX_READERS} readers")
            return
        self.attend(reading.reader, send_output(reading, self._outbox, has_ended))

    def attend(self, reader: int, work: Coroutine[None, None, None]) -> None:
        """Let the work continue until the reader is closed."""
        self.close(reader)
        task = self._tasks[reader] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._done(reader, done))

    def _done(self, reader: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(reader) is task:
            del self._tasks[reader]

    def refuse(self, reader: int, why: str) -> None:
        self._outbox.post(output_chunk(reader, 0, eof=True, error=why))

    def close(self, reader: int) -> None:
        task = self._tasks.pop(reader, None)
        if task is not None:
            task.cancel()

    def close_all(self) -> None:
        for reader in list(self._tasks):
            self.close(reader)
