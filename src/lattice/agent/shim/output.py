"""Captured output: a pipe copied into a file that keeps its newest part.

A file grows up to `limit` bytes. From half of that on, everything is also written to a second file
(`stdout.tail`); when the first is full the second takes its place and `stdout.base` says how many
bytes were dropped before its first one. Nothing is ever copied in one go, so a run that writes
without end costs the others no pause, and a rate limit leaves it waiting in its own pipe.

Base and file change at two moments, so a reader needs an order to rely on. The writer: rename
`stdout.tail` to `stdout.next`, write the base, rename `stdout.next` to `stdout`. The reader
(`read_output`): open, read the base, see that there is no `.next` and that the name still means the
opened file; else once more.

A full disk costs output, never the run: what could not be written is counted in `lost`.

`stdout.times` says when what was written: marks of a position and the time in ms, 16 bytes each, at
most one a millisecond. It is made with the second mark: without it, everything was written when the
file was last changed. A file of a megabyte becomes `stdout.times.old`, in place of the one before.
"""

from __future__ import annotations

import os
import struct
import time

CHUNK_BYTES = 1 << 16
DEFAULT_LIMIT_BYTES = 64 << 20
# Of each stream. Faster writers wait; bursts of this many seconds' worth are free.
BYTES_PER_S = 64 << 20
BURST_S = 0.05
DRAIN_BYTES = 16 << 20
READ_PAUSE_S = 0.0005
MAX_READ_S = 2.0
STALE_S = 5.0
MARK = struct.Struct("<QQ")
TIMES_LIMIT_BYTES = 1 << 20


def replace_file(path: str, data: bytes) -> None:
    """Write the whole file or leave the old one; 0600."""
    new = f"{path}.new"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.rename(new, path)
    except OSError:
        remove_file(new)
        raise


def remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


class TimeMarks:
    """Times beside one stream. A mark that cannot be written is left out: output matters more."""

    __slots__ = ("_fd", "_first", "_last_ms", "_path", "_size")

    def __init__(self, path: str) -> None:
        self._path = f"{path}.times"
        self._fd = -1
        self._size = 0
        self._last_ms = 0
        self._first = b""

    def note(self, position: int) -> None:
        """What is written now begins at this position."""
        now_ms = time.time_ns() // 1_000_000
        if now_ms == self._last_ms:
            return
        mark, is_first = MARK.pack(position, now_ms), not self._last_ms
        self._last_ms = now_ms
        if is_first:
            self._first = mark
            return
        try:
            if self._fd < 0 or self._size >= TIMES_LIMIT_BYTES:
                self._begin()
            self._size += os.write(self._fd, self._first + mark)
            self._first = b""
        except OSError:
            return

    def _begin(self) -> None:
        if self._fd >= 0:
            self.close()
            os.rename(self._path, f"{self._path}.old")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RingFile:
    """The file side of one stream, made with its first byte. No method raises OSError."""

    __slots__ = (
        "_fd",
        "_limit",
        "_path",
        "_size",
        "_tail_fd",
        "_tail_size",
        "_tail_start",
        "_times",
        "base",
        "lost",
    )

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = max(limit, 2)
        self._fd = -1
        self._size = 0
        self._tail_fd = -1
        self._tail_size = 0
        self._tail_start = 0
        self._times = TimeMarks(path)
        self.base = -1  # read with the first byte: of an earlier attempt in the same folder
        self.lost = 0

    def _open(self) -> bool:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(self._path, flags, 0o600)
            # Lines that were put there before the start are kept.
            self._size = os.fstat(self._fd).st_size
        except OSError:
            return False
        return True

    def write(self, data: bytes) -> None:
        if self.base < 0:
            self.base = read_base(self._path)
        self._times.note(self.base + self._size)
        view = memoryview(data)
        while view:
            room = self._limit - self._size
            if room <= 0:
                self._rotate()
                room = self._limit - self._size
            written = self._append(view[:room]) if room > 0 else 0
            if not written:
                self.lost += len(view)
                return
            view = view[written:]

    def _append(self, view: memoryview) -> int:
        if self._fd < 0 and not self._open():
            return 0
        self._start_tail()
        if self._tail_fd < 0 and self._size < self._limit // 2:
            view = view[: self._limit // 2 - self._size]
        try:
            written = os.write(self._fd, view)
        except OSError:
            return 0
        self._size += written
        if self._tail_fd >= 0:
            self._append_tail(view[:written])
        return written

    def _start_tail(self) -> None:
        if self._tail_fd >= 0 or self._size < self._limit // 2:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._tail_fd = os.open(f"{self._path}.tail", flags, 0o600)
        except OSError:
            return
        self._tail_start, self._tail_size = self._size, 0

    def _append_tail(self, view: memoryview) -> None:
        try:
            while view:
                written = os.write(self._tail_fd, view)
                self._tail_size += written
                view = view[written:]
        except OSError:
            # It no longer mirrors the file: give it up, the next write begins another.
            self._drop_tail()

    def _drop_tail(self) -> None:
        if self._tail_fd >= 0:
            os.close(self._tail_fd)
            self._tail_fd = -1
            remove_file(f"{self._path}.tail")

    def _rotate(self) -> None:
        """Let the tail take the file's place, or leave everything as it is."""
        if self._tail_fd < 0:
            self._start_tail()
            if self._tail_fd < 0:
                return
        base = self.base + self._tail_start
        try:
            os.rename(f"{self._path}.tail", f"{self._path}.next")
            replace_file(f"{self._path}.base", b"%d\n" % base)
        except OSError:
            remove_file(f"{self._path}.next")
            os.close(self._tail_fd)
            self._tail_fd = -1
            return
        os.rename(f"{self._path}.next", self._path)
        os.close(self._fd)
        self._fd, self._size, self.base = self._tail_fd, self._tail_size, base
        self._tail_fd = -1

    def close(self) -> None:
        self._drop_tail()
        self._times.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Stream:
    """The pipe side: reads what is there, never more than one chunk at a time."""

    __slots__ = ("_is_midline", "_paid_until", "fd", "file")

    def __init__(self, fd: int, file: RingFile) -> None:
        self.fd = fd
        self.file = file
        self._is_midline = False
        self._paid_until = 0.0

    def take(self) -> int:
        """Copy one chunk; its length, 0 at the end of the stream, -1 when nothing is there yet."""
        try:
            data = os.read(self.fd, CHUNK_BYTES)
        except BlockingIOError:
            return -1
        if data:
            self.file.write(data)
            self._is_midline = not data.endswith(b"\n")
        return len(data)

    def add_line(self, line: str) -> None:
        """A line of the shim's own, after everything that the run wrote; nothing when it is empty."""
        if line:
            self.file.write((b"\n" if self._is_midline else b"") + line.encode())

    def pause_after(self, length: int, now: float) -> float:
        """Time before which no more should be read; 0.0 for "continue"."""
        self._paid_until = max(self._paid_until, now) + length / BYTES_PER_S
        return self._paid_until if self._paid_until - now > BURST_S else 0.0

    def drain(self) -> None:
        """Copy what is in the pipe. All writers of the run are dead: what is not there now never
        will be, and a stranger who got hold of the pipe may not keep us here."""
        left = DRAIN_BYTES
        while left > 0 and (length := self.take()) > 0:
            left -= length

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def read_base(path: str) -> int:
    try:
        with open(f"{path}.base", "rb") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 0


def read_output(path: str, offset: int, length: int) -> tuple[int, bytes]:
    """Up to `length` bytes from position `offset` of everything that was ever written, and the
    position of the first of them: later than `offset` when those bytes were dropped.
    FileNotFoundError when there is no such output (yet)."""
    until = time.monotonic() + MAX_READ_S
    while True:
        with open(path, "rb") as file:
            base = read_base(path)
            if _settled(path, os.fstat(file.fileno())) or time.monotonic() > until:
                start = max(offset, base)
                file.seek(start - base)
                return start, file.read(length)
        time.sleep(READ_PAUSE_S)


def read_times(path: str, start: int, end: int) -> list[tuple[int, int]]:
    """When the bytes from `start` to `end` were written: positions and times in ms, by position. The first
    one is not behind `start`, unless older marks are gone. Empty without output."""
    marks: list[tuple[int, int]] = []
    for name in (f"{path}.times", f"{path}.times.old"):
        if marks and marks[0][0] <= start:
            break
        marks = _marks(name, start, end) + marks
    if marks:
        return marks
    try:
        return [(start, os.stat(path).st_mtime_ns // 1_000_000)]
    except FileNotFoundError:
        return []


def _marks(name: str, start: int, end: int) -> list[tuple[int, int]]:
    """Those of one file from the last that is not behind `start`; only a few records of a large file are read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        count = os.fstat(fd).st_size // MARK.size

        def first_from(position: int) -> int:
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if MARK.unpack(os.pread(fd, MARK.size, middle * MARK.size))[0] < position:
                    low = middle + 1
                else:
                    high = middle
            return low

        first = max(0, first_from(start + 1) - 1)
        last = max(first_from(end), min(first + 1, count))
        data = os.pread(fd, (last - first) * MARK.size, first * MARK.size)
    finally:
        os.close(fd)
    return [(position, at_ms) for position, at_ms in MARK.iter_unpack(data)]


def _settled(path: str, opened: os.stat_result) -> bool:
    """Whether base and file belong together."""
    try:
        written = os.stat(f"{path}.next").st_mtime
    except FileNotFoundError:
        named = os.stat(path)
        return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
    # A shim that was killed in the middle leaves its `.next` behind: take what exists.
    return abs(time.time() - written) > STALE_S
