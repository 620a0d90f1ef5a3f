"""A missing or damaged archive: how it is detected before it is opened, and how its rows are restored.

Replaying the log restores what it still contains. The archive of a backup replaces the rest; what neither has is lost.
"""

import contextlib
import sqlite3
from pathlib import Path

import msgspec

# A larger file is checked completely only after something in it was found unreadable.
CHECKED_BYTES = 64 << 20
WAL_PARTS = ("-wal", "-shm")


class ArchiveCondition(msgspec.Struct, frozen=True):
    """`complete_to` is the entry up to which nothing is missing; `damage` says why the file is unusable."""

    exists: bool
    complete_to: int = 0
    damage: str = ""


def suspect(path: Path) -> Path:
    """A marker that exists after something in the archive could not be read."""
    return path.with_name(f"{path.name}.suspect")


def inspect(path: Path) -> ArchiveCondition:
    """Blocks; the archive must not be open."""
    if not path.exists() or not path.stat().st_size:
        return ArchiveCondition(exists=False)
    is_checked = path.stat().st_size <= CHECKED_BYTES or suspect(path).exists()
    try:
        with contextlib.closing(sqlite3.connect(path)) as db:
            row = db.execute("SELECT complete_to FROM progress").fetchone()
            verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0] if is_checked else "ok"
    except sqlite3.DatabaseError as error:
        return ArchiveCondition(exists=True, damage=str(error))
    if row is None or verdict != "ok":
        return ArchiveCondition(
            exists=True, damage=str(verdict) if row else "it does not record up to which entry it is complete"
        )
    suspect(path).unlink(missing_ok=True)
    return ArchiveCondition(exists=True, complete_to=int(row[0]))


def put_aside(path: Path) -> Path:
    """Moves a damaged archive aside; returns its new path."""
    aside = path.with_name(f"{path.name}.damaged")
    for part in ("", *WAL_PARTS):
        source = path.with_name(path.name + part)
        if source.exists():
            source.replace(aside.with_name(aside.name + part))
    suspect(path).unlink(missing_ok=True)
    return aside
