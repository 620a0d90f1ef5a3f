"""DAGs that have left the hot state, in a separate table beside the records of their members."""

import sqlite3
from collections.abc import Iterable

import msgspec

from lattice.core.model.work.dags import Dag

SCHEMA = """CREATE TABLE IF NOT EXISTS dags (
    number INTEGER PRIMARY KEY, entry INTEGER NOT NULL, user TEXT NOT NULL, tenant TEXT NOT NULL,
    ended_at INTEGER NOT NULL, record BLOB NOT NULL)"""
_PAGE = """SELECT record FROM dags WHERE number < ? AND (? = '' OR user = ?) AND (? = '' OR tenant = ?)
    ORDER BY number DESC LIMIT ?"""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Dag).decode


def write(db: sqlite3.Connection, dags: Iterable[tuple[int, Dag]]) -> None:
    """Each with the log entry that archived it."""
    rows = ((dag.number, entry, dag.user, dag.tenant, dag.ended_at, _encode(dag)) for entry, dag in dags)
    db.executemany("INSERT OR REPLACE INTO dags VALUES (?, ?, ?, ?, ?, ?)", rows)


def rewind(db: sqlite3.Connection, last_entry: int) -> int:
    return db.execute("DELETE FROM dags WHERE entry > ?", (last_entry,)).rowcount


def forget(db: sqlite3.Connection, ended_before: int) -> int:
    return db.execute("DELETE FROM dags WHERE ended_at < ?", (ended_before,)).rowcount


def find(db: sqlite3.Connection, number: int) -> Dag | None:
    row = db.execute("SELECT record FROM dags WHERE number = ?", (number,)).fetchone()
    return None if row is None else _decode(row[0])


def page(db: sqlite3.Connection, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
    """Highest number first; an empty user or tenant means all."""
    rows = db.execute(_PAGE, (before, user, user, tenant, tenant, limit)).fetchall()
    return [_decode(row[0]) for row in rows]
