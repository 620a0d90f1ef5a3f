"""What the tasks of a step wrote on one node, in the order in which it was read: one sequence of records.

A record is `RECORD` (stream, rank, length) and that many bytes. Records lie in files named after the position of their first
byte; a file is closed when it is large, and the oldest are removed when all together are too large. So a position, once
known to be the beginning of a record, stays one, and a reader that comes too late learns how much it missed.
A full disk costs output, never the step: what could not be written is counted in `lost`.
"""

from __future__ import annotations

import os
import struct

RECORD = struct.Struct(">BII")
STDOUT = 1
STDERR = 2
WINDOW = 3  # of a terminal: its rows and columns from here on, as `SHAPE`
SHAPE = struct.Struct(">HH")
PIECES = 8
PREFIX = "journal."


class Journal:
    """The writing side. No method raises OSError."""

    __slots__ = ("_fd", "_files", "_folder", "_limit", "_size", "end", "lost")

    def __init__(self, folder: str, limit: int) -> None:
        self._folder = folder
        self._limit = max(limit // PIECES, 1 << 12)
        self._fd = -1
        self._size = 0
        self._files: list[int] = []
        self.end = 0
        self.lost = 0

    def write(self, stream: int, rank: int, data: bytes) -> None:
        record = RECORD.pack(stream, rank, len(data)) + data
        if self._fd < 0 or self._size >= self._limit:
            self._next_file()
        try:
            written = os.write(self._fd, record) if self._fd >= 0 else 0
        except OSError:
            written = 0
        if written == len(record):
            self.end += written
            self._size += written
            return
        self.lost += len(data)
        if written:
            # Half a record would make everything behind it unreadable.
            os.ftruncate(self._fd, self._size)

    def _next_file(self) -> None:
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(f"{self._folder}/{PREFIX}{self.end}", flags, 0o600)
        except OSError:
            return
        self._size = 0
        if not self._files or self._files[-1] != self.end:
            self._files.append(self.end)
        while len(self._files) > PIECES:
            try:
                os.unlink(f"{self._folder}/{PREFIX}{self._files.pop(0)}")
            except OSError:
                continue

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def tail_of(folder: str, length: int) -> int:
    """The position of the first record that lies in the last `length` bytes; 0 when nothing was written yet."""
    bases = sorted(int(name[len(PREFIX) :]) for name in os.listdir(folder) if name.startswith(PREFIX))
    if not bases:
        return 0
    end = bases[-1] + os.stat(f"{folder}/{PREFIX}{bases[-1]}").st_size
    wanted = max(end - length, bases[0])
    base = max(base for base in bases if base <= wanted)
    with open(f"{folder}/{PREFIX}{base}", "rb") as file:
        data = file.read()
    place = 0
    while base + place < wanted and place + RECORD.size <= len(data):
        place += RECORD.size + RECORD.unpack_from(data, place)[2]
    return base + place


def read_journal(folder: str, offset: int, length: int) -> tuple[int, bytes]:
    """Up to `length` bytes from position `offset`, and the position of the first of them: later than `offset` when those
    were dropped. FileNotFoundError when nothing was written yet."""
    while True:
        bases = sorted(int(name[len(PREFIX) :]) for name in os.listdir(folder) if name.startswith(PREFIX))
        if not bases:
            raise FileNotFoundError(folder)
        at = max((base for base in bases if base <= offset), default=bases[0])
        start = max(offset, at)
        try:
            with open(f"{folder}/{PREFIX}{at}", "rb") as file:
                file.seek(start - at)
                data = file.read(length)
        except FileNotFoundError:
            continue  # dropped meanwhile
        later = [base for base in bases if base > at]
        if data or not later:
            return start, data
        offset = later[0]
