"""The archive's file: one row per finished allocation or task group, keyed by number. It runs in one thread."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from lattice.core.machine.parts.folded_tasks import FoldedTasks
from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.ports.quorum.archive import ArchivedRecord, ArchiveError, ArchiveFilter
from lattice.quorum.archive import dags as archived_dags
from lattice.quorum.archive.repair import suspect
from lattice.quorum.archive.tasks import SCHEMA as TASKS_SCHEMA
from lattice.quorum.archive.tasks import ArchivedTasks, task_of, tasks_below
from lattice.quorum.durable import create_private

FORMAT_VERSION = 1
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ALLOCATION, _GROUP = 0, 1
# `last` is the highest number of a task group's block; `block` the group a row belongs to, 0 without one. The payload comes
# last, so that queries that do not name it do not read its pages.
_SCHEMA = (
    """CREATE TABLE records (
    number INTEGER PRIMARY KEY, last INTEGER NOT NULL, entry INTEGER NOT NULL, kind INTEGER NOT NULL,
    block INTEGER NOT NULL, user TEXT NOT NULL, tenant TEXT NOT NULL, vcluster TEXT NOT NULL, name TEXT NOT NULL,
    state TEXT NOT NULL, ended_at INTEGER NOT NULL, record BLOB NOT NULL, payload BLOB NOT NULL)""",
    "CREATE INDEX records_by_user ON records (user, number)",
    "CREATE INDEX records_by_end ON records (ended_at)",
    "CREATE INDEX records_by_block ON records (block, number) WHERE block > 0",
    "CREATE INDEX records_that_are_groups ON records (number) WHERE kind = 1",
    "CREATE TABLE progress (complete_to INTEGER NOT NULL, newest INTEGER NOT NULL)",
    "INSERT INTO progress VALUES (0, 0)",
)
_INSERT = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_Row = tuple[int | str | bytes, ...]


class Waiting(NamedTuple):
    """A record to be written, and the log entry that archived it."""

    entry: int
    record: ArchivedRecord
    payload: bytes
    rows: FoldedTasks | None = None  # of a task group


class ArchiveStore:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self.damage = ""
        self._tasks = ArchivedTasks()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode_allocation = msgspec.msgpack.Decoder(Allocation).decode
        self._decode_group = msgspec.msgpack.Decoder(TaskGroup).decode

    def open(self) -> tuple[int, int]:
        """Opens or creates the file; returns the entry up to which it is complete and the newest entry that it has rows of."""
        with self._translated():
            self._db = _connect(self._path)
            complete_to, newest = self._db.execute("SELECT * FROM progress").fetchone()
            return complete_to, newest

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def write(self, batch: Sequence[Waiting], complete_to: int, dags: Sequence[tuple[int, Dag]] = ()) -> None:
        newest = max((waiting.entry for waiting in batch), default=0)
        newest = max((newest, *(entry for entry, _ in dags)))
        with self._translated(), self._transaction() as db:
            db.executemany(_INSERT, (self._row(waiting) for waiting in batch))
            archived_dags.write(db, dags)
            for waiting in batch:
                if waiting.rows is not None:
                    self._tasks.write(db, waiting.rows)
            db.execute(
                "UPDATE progress SET complete_to = max(complete_to, ?), newest = max(newest, ?)",
                (complete_to, newest),
            )

    def rewind(self, last_entry: int) -> int:
        with self._translated(), self._transaction() as db:
            db.execute(
                "UPDATE progress SET complete_to = min(complete_to, ?), newest = ?",
                (last_entry, last_entry),
            )
            removed = db.execute("DELETE FROM records WHERE entry > ?", (last_entry,)).rowcount
            self._tasks.forget_orphans(db)
            return removed + archived_dags.rewind(db, last_entry)

    def dag(self, number: int) -> Dag | None:
        with self._translated():
            return archived_dags.find(self._open_db, number)

    def dag_page(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        with self._translated():
            return archived_dags.page(self._open_db, user, tenant, before, limit)

    def forget(self, ended_before: int, limit: int) -> int:
        sql = """DELETE FROM records WHERE number IN
            (SELECT number FROM records WHERE ended_at < ? ORDER BY ended_at LIMIT ?)"""
        with self._translated(), self._transaction() as db:
            removed = db.execute(sql, (ended_before, limit)).rowcount
            if removed:
                self._tasks.forget_orphans(db)
            return removed + archived_dags.forget(db, ended_before)

    def exact(self, number: int) -> ArchivedRecord | None:
        return self._one("SELECT kind, record FROM records WHERE number = ?", (number,))

    def block_of(self, number: int) -> ArchivedRecord | None:
        """The task group whose block has the number."""
        sql = """SELECT kind, record FROM records WHERE number =
            (SELECT max(number) FROM records WHERE kind = 1 AND number < ?) AND last >= ?"""
        return self._one(sql, (number, number))

    def task(self, number: int) -> ArchivedRecord | None:
        """The task with the number, or the whole group if it has no result for that task."""
        group = self.block_of(number)
        if not isinstance(group, TaskGroup):
            return group
        with self._translated():
            return task_of(group, self._tasks.rows_of(self._open_db, group.number), number) or group

    def tasks_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[Allocation]:
        """Tasks that are rows of archived groups, as `page` gives whole records."""
        rough = msgspec.structs.replace(wanted, states=(), until=0, with_groups=True, with_tasks=False)
        conditions, values = _conditions(rough, before)
        sql = f"SELECT record FROM records WHERE kind = 1 AND {conditions} ORDER BY number DESC"  # noqa: S608
        found: list[Allocation] = []
        with self._translated():
            for (record,) in self._open_db.execute(sql, values):
                group = self._decode_group(record)
                rows = self._tasks.rows_of(self._open_db, group.number)
                for task in tasks_below(group, rows, before):
                    if matches(task, wanted):
                        found.append(task)
                    if len(found) == limit:
                        return found
        return found

    def payload(self, number: int) -> bytes:
        with self._translated():
            row = self._open_db.execute("SELECT payload FROM records WHERE number = ?", (number,)).fetchone()
            return b"" if row is None else bytes(row[0])

    def page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        conditions, values = _conditions(wanted, before)
        # Column names are ours, every value is bound.
        sql = f"SELECT kind, record FROM records WHERE {conditions} ORDER BY number DESC LIMIT ?"  # noqa: S608
        with self._translated():
            rows = self._open_db.execute(sql, (*values, limit)).fetchall()
            return [self._record(kind, record) for kind, record in rows]

    def _one(self, sql: str, values: tuple[int, ...]) -> ArchivedRecord | None:
        with self._translated():
            row = self._open_db.execute(sql, values).fetchone()
            return None if row is None else self._record(*row)

    def _row(self, waiting: Waiting) -> _Row:
        record = waiting.record
        is_group = isinstance(record, TaskGroup)
        head = record.template if isinstance(record, TaskGroup) else record
        last = record.number + record.size if isinstance(record, TaskGroup) else record.number
        return (
            record.number,
            last,
            waiting.entry,
            _GROUP if is_group else _ALLOCATION,
            record.number if is_group else head.group,
            head.user,
            head.tenant,
            head.vcluster,
            head.name,
            state_of(record),
            record.ended_at,
            self._encode(record),
            waiting.payload,
        )

    def _record(self, kind: int, data: bytes) -> ArchivedRecord:
        return self._decode_group(data) if kind == _GROUP else self._decode_allocation(data)

    @property
    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise ArchiveError("the archive is closed")
        return self._db

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._open_db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, OSError) as error:
            if getattr(error, "sqlite_errorcode", 0) in _DAMAGED and self._path is not None:
                self._note_damage(self._path, error)
                raise ArchiveError(self.damage) from error
            raise ArchiveError(f"archive {self._path}: {error}") from error

    def _note_damage(self, path: Path, error: Exception) -> None:
        """Makes the next start check the whole file and repair it."""
        self.damage = (
            f"archive {path} is damaged ({error}); restart this server: it repairs the archive or reports what is lost"
        )
        with contextlib.suppress(OSError):
            suspect(path).touch(mode=0o600)


def state_of(record: ArchivedRecord) -> AllocationState:
    """The state of a record; for a task group, that of its worst task."""
    if isinstance(record, Allocation):
        return record.state
    if record.failed:
        return AllocationState.FAILED
    return AllocationState.CANCELLED if record.cancelled else AllocationState.COMPLETED


def matches(record: ArchivedRecord, wanted: ArchiveFilter) -> bool:
    """Applies the filters of `page` to a record that is not in the file yet."""
    is_group = isinstance(record, TaskGroup)
    head = record.template if isinstance(record, TaskGroup) else record
    return (
        wanted.user in ("", head.user)
        and wanted.tenant in ("", head.tenant)
        and wanted.vcluster in ("", head.vcluster)
        and wanted.name in ("", head.name)
        and (not wanted.states or state_of(record) in wanted.states)
        and record.ended_at >= wanted.since
        and (not wanted.until or record.ended_at < wanted.until)
        and wanted.group in (0, record.number if is_group else head.group)
        and (wanted.with_groups or not is_group)
        and (wanted.with_tasks or is_group or not head.group)
    )


def _conditions(wanted: ArchiveFilter, before: int | None) -> tuple[str, list[int | str]]:
    tests: list[tuple[str, int | str]] = []
    if before is not None:
        tests.append(("number < ?", before))
    for column in ("user", "tenant", "vcluster", "name"):
        if value := getattr(wanted, column):
            tests.append((f"{column} = ?", value))
    if wanted.since:
        tests.append(("ended_at >= ?", wanted.since))
    if wanted.until:
        tests.append(("ended_at < ?", wanted.until))
    if wanted.group:
        tests.append(("block > 0 AND block = ?", wanted.group))
    if not wanted.with_groups:
        tests.append(("kind = ?", _ALLOCATION))
    conditions = [test for test, _ in tests]
    values = [value for _, value in tests]
    if not wanted.with_tasks:
        conditions.append("(kind = 1 OR block = 0)")
    if wanted.states:
        conditions.append(f"state IN ({', '.join('?' * len(wanted.states))})")
        values.extend(wanted.states)
    return " AND ".join(conditions) or "1", values


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        create_private(path)
    db = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        _check_format(db, path)
        db.execute(TASKS_SCHEMA)
        db.execute(archived_dags.SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _check_format(db: sqlite3.Connection, path: Path | None) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > FORMAT_VERSION:
        raise ArchiveError(
            f"archive {path}: written in format {version}, this version of Lattice reads up to {FORMAT_VERSION}; "
            "start the newer version"
        )
    if version == 0:
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute(f"PRAGMA user_version={FORMAT_VERSION}")
        db.execute("COMMIT")
