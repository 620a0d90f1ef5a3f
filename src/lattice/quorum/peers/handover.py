"""A copy of a server's state for another one that can no longer get it from the log: newest snapshot and archive in one file.

The snapshot is chosen first and the archive copied afterwards, so that the archive has everything that left the state before it.
The receiver verifies the snapshot's hashes before it replaces any of its own data.
"""

import re
import shutil
import sqlite3
import tarfile
import tempfile
from pathlib import Path

from lattice.quorum.durable import sync_folder
from lattice.quorum.snapshots.folders import SnapshotDamaged, SnapshotFolder

ARCHIVE = "archive.db"
SNAPSHOTS = "snapshots"
_NAME = re.compile(rf"{SNAPSHOTS}/\d+/[A-Za-z0-9_][A-Za-z0-9_.-]*|{re.escape(ARCHIVE)}")


class NothingToHandOver(Exception):
    """There is no snapshot here, or the data from another server is unusable."""


def pack(data_dir: Path) -> Path:
    """Creates a file with the newest snapshot and the archive; the caller removes it. Blocks."""
    indexes = SnapshotFolder(data_dir / SNAPSHOTS).indexes()
    if not indexes:
        raise NothingToHandOver("this server has no snapshot yet")
    newest = data_dir / SNAPSHOTS / str(indexes[-1])
    with tempfile.TemporaryDirectory(dir=data_dir, prefix=".handover-") as folder:
        copy = Path(folder) / ARCHIVE
        _copy_archive(data_dir / ARCHIVE, copy)
        with tempfile.NamedTemporaryFile(dir=data_dir, prefix=".handover-", suffix=".tar", delete=False) as file:
            try:
                with tarfile.open(fileobj=file, mode="w") as tar:
                    for part in sorted(newest.iterdir()):
                        tar.add(part, arcname=f"{SNAPSHOTS}/{newest.name}/{part.name}")
                    tar.add(copy, arcname=ARCHIVE)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    return Path(file.name)


def unpack(packed: Path, data_dir: Path, at_least: int = 0) -> int:
    """Installs a snapshot and its archive, unless it is older than `at_least`; returns the snapshot's index. They must not be open. Blocks."""
    with tempfile.TemporaryDirectory(dir=data_dir, prefix=".handover-") as folder:
        fresh = Path(folder)
        try:
            with tarfile.open(packed) as tar:
                for part in tar:
                    if not part.isfile() or not _NAME.fullmatch(part.name):
                        raise NothingToHandOver(f"unexpected content: {part.name[:80]}")
                    tar.extract(part, fresh, set_attrs=False, filter="data")
        except tarfile.TarError as error:
            raise NothingToHandOver(f"it is damaged: {error}") from error
        received = SnapshotFolder(fresh / SNAPSHOTS)
        (index,) = received.indexes() or [0]
        if index < at_least:
            raise NothingToHandOver(
                f"its newest snapshot, {index}, does not reach the log, which starts at entry {at_least + 1}"
            )
        try:
            received.load(index)
        except SnapshotDamaged as error:
            raise NothingToHandOver(str(error)) from error
        _put_in_place(fresh, data_dir, index)
    return index


def _put_in_place(fresh: Path, data_dir: Path, index: int) -> None:
    # The archive first: with only the archive, the next start looks for a snapshot again.
    for leftover in (f"{ARCHIVE}-wal", f"{ARCHIVE}-shm"):
        (data_dir / leftover).unlink(missing_ok=True)
    (fresh / ARCHIVE).chmod(0o600)
    (fresh / ARCHIVE).replace(data_dir / ARCHIVE)
    target = data_dir / SNAPSHOTS
    target.mkdir(mode=0o700, exist_ok=True)
    shutil.rmtree(target / str(index), ignore_errors=True)
    (fresh / SNAPSHOTS / str(index)).rename(target / str(index))
    sync_folder(target)
    sync_folder(data_dir)


def _copy_archive(source: Path, target: Path) -> None:
    with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as live, sqlite3.connect(target) as copy:
        live.backup(copy, pages=1000)
    live.close()
    copy.close()
