"""The embedded log: one SQLite file, for a cluster with one server.

An entry is acknowledged after the commit of its own transaction (WAL, `synchronous=FULL`), so that kill -9 and a power cut lose
nothing that was acknowledged. All SQL runs in a dedicated thread. A lock on a file beside the database keeps a second process
out, so the cached newest index is authoritative and `append` is a real compare-and-append.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import sqlite3
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from lattice.ports.quorum.log import (
    Conflict,
    Entry,
    LogCorrupt,
    LogError,
    LogFull,
    LogHeld,
    LogStart,
    LogUnavailable,
    Trimmed,
)
from lattice.quorum.durable import create_private
from lattice.quorum.logs.epochs import new_epoch
from lattice.quorum.logs.tails import follow

FORMAT_VERSION = 1
_READ_PAGE = 256
# Entries removed per transaction: appends run between two transactions.
_TRIM_STEP = 500
_PAGE_BYTES = 8192
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_T = TypeVar("_T")


class SqliteLog:
    """A durable log in one file; `start` is where a new log starts after a restore."""

    def __init__(self, path: Path, start: LogStart | None = None) -> None:
        self._path = path
        self._store = _Store(path, start)
        self._thread: ThreadPoolExecutor | None = None
        self._grown = asyncio.Event()

    @property
    def epoch(self) -> int:
        return self._store.epoch

    async def open(self) -> None:
        if self._thread is not None:
            return
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lattice-log")
        self._thread = thread
        try:
            await self._run(self._store.open)
        except BaseException:
            self._thread = None
            thread.shutdown(wait=False)
            raise

    async def close(self) -> None:
        if self._thread is None:
            return
        thread = self._thread
        closed = asyncio.get_running_loop().run_in_executor(thread, self._store.close)
        self._thread = None
        try:
            await closed
        finally:
            thread.shutdown(wait=False)
            self._wake_tails()

    async def bounds(self) -> tuple[int, int]:
        return await self._run(self._store.bounds)

    async def append(self, expected_last: int, payload: bytes) -> int:
        return await self._run(lambda: self._store.append(expected_last, payload), self._wake_tails)

    async def read(self, first: int, limit: int) -> Sequence[Entry]:
        return await self._run(lambda: self._store.read(first, limit))

    def tail(self, first: int) -> AsyncIterator[Entry]:
        return follow(first, self.read, lambda: self._grown)

    async def trim(self, before: int) -> None:
        while await self._run(lambda: self._store.trim_step(before)):
            pass

    async def _run(self, work: Callable[[], _T], done: Callable[[], None] | None = None) -> _T:
        """Runs `work` in the log's thread; cancelling the caller does not stop it."""
        if self._thread is None:
            raise LogUnavailable(f"{self._path}: the log is closed")
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        if done is not None:
            future.add_done_callback(lambda _: done())
        return await asyncio.shield(future)

    def _wake_tails(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class _Store:
    """The file itself; every method runs in the log's thread."""

    def __init__(self, path: Path, start: LogStart | None) -> None:
        self._path = path
        self._start = start
        self.epoch = 0
        self._lock_fd = -1
        self._db: sqlite3.Connection | None = None
        self._first = 1
        self._last = 0

    def open(self) -> None:
        with _translated(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock_fd = _take_lock(self._path)
            try:
                self._db = _connect(self._path, self._start)
                (self.epoch,) = self._db.execute("SELECT max(epoch) FROM history").fetchone()
                self._load_bounds()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        try:
            if self._db is not None:
                self._db.close()
        finally:
            self._db = None
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
                self._lock_fd = -1

    def bounds(self) -> tuple[int, int]:
        return self._first, self._last

    def append(self, expected_last: int, payload: bytes) -> int:
        if expected_last != self._last:
            raise Conflict(f"entry {expected_last + 1} cannot follow: the newest entry is {self._last}")
        index = expected_last + 1
        with _translated(self._path):
            try:
                self._open_db.execute("INSERT INTO entries VALUES (?, ?, ?)", (index, zlib.crc32(payload), payload))
            except sqlite3.Error:
                self._forget_failed_commit()
                raise
        self._last = index
        return index

    def read(self, first: int, limit: int) -> list[Entry]:
        if first < self._first:
            raise Trimmed(self._first)
        if first > self._last or limit <= 0:
            return []
        last = min(self._last, first + limit - 1)
        with _translated(self._path):
            sql = "SELECT number, crc, payload FROM entries WHERE number BETWEEN ? AND ? ORDER BY number"
            rows = self._open_db.execute(sql, (first, last)).fetchall()
        if len(rows) != last - first + 1:
            raise _corrupt(self._path, f"entries between {first} and {last} are missing")
        return [self._checked(*row) for row in rows]

    def trim_step(self, before: int) -> bool:
        """Removes some entries below `before`; returns whether there are more."""
        goal = min(before, self._last)
        step = min(goal, self._first + _TRIM_STEP)
        if step <= self._first:
            return False
        with _translated(self._path):
            try:
                self._open_db.execute("DELETE FROM entries WHERE number < ?", (step,))
            except sqlite3.Error:
                self._forget_failed_commit()
                raise
        self._first = step
        return step < goal

    @property
    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise LogUnavailable(f"{self._path}: the log is closed")
        return self._db

    def _checked(self, index: int, crc: int, payload: bytes) -> Entry:
        if zlib.crc32(payload) != crc:
            raise _corrupt(self._path, f"entry {index} does not match its checksum")
        return Entry(index, payload)

    def _load_bounds(self) -> None:
        first, last = self._open_db.execute("SELECT min(number), max(number) FROM entries").fetchone()
        self._first, self._last = (1, 0) if last is None else (first, last)

    def _forget_failed_commit(self) -> None:
        # The content of the file decides, not what we believe was written.
        with contextlib.suppress(sqlite3.Error):
            if self._open_db.in_transaction:
                self._open_db.rollback()
            self._load_bounds()


def begin_file(path: Path, start: LogStart) -> None:
    """Writes a log that continues from `start`; it must not be open."""
    store = _Store(path, start)
    store.open()
    store.close()


def read_file(path: Path, first: int) -> Iterator[Entry]:
    """The entries from `first` on of a log that is not open. Raises LogError."""
    store = _Store(path, None)
    store.open()
    try:
        while page := store.read(first, _READ_PAGE):
            yield from page
            first += len(page)
    finally:
        store.close()


def epoch_of_file(path: Path) -> int:
    """The epoch of a log that is not open."""
    store = _Store(path, None)
    store.open()
    store.close()
    return store.epoch


def _take_lock(path: Path) -> int:
    fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise LogHeld(
            f"the log {path} is in use by process {holder}; stop that server first or use another directory"
        ) from None
    # The process id is only for the message above: the lock also holds if the disk is full.
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _connect(path: Path, start: LogStart | None) -> sqlite3.Connection:
    create_private(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    try:
        db.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        _check_format(db, path, start)
    except BaseException:
        db.close()
        raise
    return db


def _check_format(db: sqlite3.Connection, path: Path, start: LogStart | None) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > FORMAT_VERSION:
        raise LogCorrupt(
            f"{path}: has format {version}, but this version of Lattice reads up to {FORMAT_VERSION}; use the newer version"
        )
    has_history = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'history'").fetchone()[0]
    if version == 0 or not has_history:
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, crc INTEGER NOT NULL, payload BLOB NOT NULL)"
        )
        # Logs of the first releases had no epochs: theirs is 1.
        epoch = 1 if version else new_epoch() if start is None else start.epoch
        db.execute("CREATE TABLE IF NOT EXISTS history (epoch INTEGER NOT NULL)")
        db.execute("INSERT INTO history VALUES (?)", (epoch,))
        if start is not None and not version:
            row = (start.index, zlib.crc32(start.payload), start.payload)
            db.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
        db.execute(f"PRAGMA user_version={FORMAT_VERSION}")
        db.execute("COMMIT")
    if start is not None and db.execute("SELECT max(epoch) FROM history").fetchone()[0] != start.epoch:
        raise LogCorrupt(f"{path} contains another log than the restored one; restore into an empty directory")


def _corrupt(path: Path, what: str) -> LogCorrupt:
    return LogCorrupt(f"{path}: the log is damaged ({what}); keep a copy of the directory and restore it from a backup")


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(path, error) from error
    except OSError as error:
        kind = LogFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else LogUnavailable
        raise kind(f"{path}: {error.strerror}") from error


def _translate(path: Path, error: sqlite3.Error) -> LogError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code & 0xFF in _CORRUPT:
        return _corrupt(path, str(error))
    if code & 0xFF in _HELD:
        return LogHeld(f"the log {path} is locked by another process ({error})")
    # A failed write leaves no commit mark in the WAL, hence nothing of the entry; file size limits and quotas also end here.
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
        return LogFull(f"{path}: no space for the entry ({error})")
    return LogUnavailable(f"{path}: {error}")
