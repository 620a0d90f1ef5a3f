"""Replicas over recorded data folders."""

from pathlib import Path

from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.testing import HandClock

NOW_MS = 1_700_000_000_000


def replica_of(data: Path, now_ms: int = NOW_MS) -> LogReplica:
    return LogReplica(
        log=SqliteLog(data / "log.db"),
        archive=SqliteArchive(data / "archive.db"),
        snapshots=SnapshotFolder(data / "snapshots"),
        clock=HandClock(now_ms),
    )


def remove_locks(data: Path) -> None:
    for leftover in data.glob("*.lock"):
        leftover.unlink()
