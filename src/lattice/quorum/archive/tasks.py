"""Ended tasks of archived groups: a few compressed pieces per group instead of a row per task."""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator

import msgspec
import zstandard

from lattice.core.machine.parts.folded_tasks import FoldedChunk, FoldedTasks, ended_tasks
from lattice.core.model.work.allocations import Allocation, TaskGroup

SCHEMA = "CREATE TABLE IF NOT EXISTS task_rows (number INTEGER, piece INTEGER, rows BLOB, PRIMARY KEY (number, piece))"
_KEPT = 4  # groups whose rows stay decompressed for the next page
_MAX_BYTES = 64 << 20
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FoldedChunk).decode
_compressor = zstandard.ZstdCompressor(level=3)


class ArchivedTasks:
    """The table of rows, for the one thread that has the archive open."""

    def __init__(self) -> None:
        self._unpacked: OrderedDict[int, FoldedTasks | None] = OrderedDict()

    def write(self, db: sqlite3.Connection, rows: FoldedTasks) -> None:
        db.executemany(
            "INSERT OR REPLACE INTO task_rows VALUES (?, ?, ?)",
            ((rows.number, piece, _compressor.compress(_encode(chunk))) for piece, chunk in enumerate(rows.chunks())),
        )

    def forget_orphans(self, db: sqlite3.Connection) -> None:
        """Removes the rows of groups that are no longer here."""
        db.execute("DELETE FROM task_rows WHERE number NOT IN (SELECT number FROM records WHERE kind = 1)")
        self._unpacked.clear()

    def rows_of(self, db: sqlite3.Connection, number: int) -> FoldedTasks | None:
        if number in self._unpacked:
            self._unpacked.move_to_end(number)
            return self._unpacked[number]
        pieces = db.execute("SELECT rows FROM task_rows WHERE number = ? ORDER BY piece", (number,)).fetchall()
        rows: FoldedTasks | None = None
        for (packed,) in pieces:
            chunk = _decode(zstandard.decompress(packed, max_output_size=_MAX_BYTES))
            rows = rows or FoldedTasks(number, chunk.size, chunk.base)
            rows.show(chunk)
        self._unpacked[number] = rows
        while len(self._unpacked) > _KEPT:
            self._unpacked.popitem(last=False)
        return rows


def task_of(group: TaskGroup, rows: FoldedTasks | None, number: int) -> Allocation | None:
    """The task with this number, if its group has its result."""
    position = number - group.number - 1
    found = next(ended_tasks(group, rows, position + 1), None)
    return found if found is not None and found.number == number else None


def tasks_below(group: TaskGroup, rows: FoldedTasks | None, before: int | None) -> Iterator[Allocation]:
    """The group's ended tasks with numbers below that, highest first."""
    below = group.size if before is None else before - group.number - 1
    return ended_tasks(group, rows, max(0, below))
