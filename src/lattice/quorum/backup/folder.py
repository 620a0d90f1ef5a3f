"""Backups: the whole state at one index in a directory, with the hash of every file. The format does not depend on the log.

::

    BACKUP/  manifest.json  manifest.sha256  archive.db  snapshots/INDEX/...

A backup contains no log: the snapshot is taken for it and covers everything up to its index. The archive is copied afterwards and
may contain more, which a restore removes. A directory appears complete or not at all; the hash of the manifest is stored beside it,
so that a single changed bit is detected.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from lattice.core.machine.codec import LevelTooHigh
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.state import State
from lattice.ports.quorum.backups import BackupError, BackupMissing
from lattice.quorum.durable import sync_folder, write_private
from lattice.quorum.snapshots.folders import SnapshotDamaged, SnapshotFolder

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_HASH = "manifest.sha256"
ARCHIVE = "archive.db"
SNAPSHOTS = "snapshots"
_CHUNK_BYTES = 1 << 20
_COPY_PAGES = 1000
MAX_MANIFEST = 16 << 20

# Called with bytes done, total bytes, and the current activity.
Progress = Callable[[int, int, str], None]


def no_progress(_done: int, _total: int, _what: str) -> None:
    """For callers that show no progress."""


# Bounds of a manifest: it may be untrusted, and its numbers are used in calculations.
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Word = Annotated[str, msgspec.Meta(max_length=256)]


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a backup: its relative name, size and sha256."""

    name: _Word
    size_bytes: _Count
    sha256: _Word


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a backup: the state right after entry `index` of the log of that epoch."""

    format: _Count
    created_at: _Word
    server: _Word
    epoch: _Count
    index: _Count
    digest: _Word
    files: tuple[StoredFile, ...]
    level: _Count = OLDEST  # that a server must support to be restored from it

    @property
    def size_bytes(self) -> int:
        return sum(stored.size_bytes for stored in self.files)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of a backup: a fresh snapshot, the archive beside it, and their server."""

    snapshots: SnapshotFolder
    archive: Path
    server: str
    epoch: int
    index: int
    digest: str
    level: int = OLDEST


def write(source: Source, target: Path, progress: Progress = no_progress) -> Manifest:
    """Writes the backup into the new directory `target`. Blocks."""
    if target.exists():
        raise BackupError(f"{target} already exists; choose another name")
    scratch = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        try:
            manifest = _fill(source, scratch, progress)
            scratch.rename(target)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise BackupError(f"{error.filename or target}: {error.strerror or error}") from error
    return manifest


def verify(backup: Path, progress: Progress = no_progress) -> Manifest:
    """The manifest, after every file was verified and the state was loaded. Raises BackupError. Blocks."""
    return verified(backup, progress)[0]


def verified(backup: Path, progress: Progress = no_progress) -> tuple[Manifest, State]:
    """As `verify`, but also returns the loaded state."""
    manifest = read_manifest(backup)
    done = 0
    for stored in manifest.files:
        progress(done, manifest.size_bytes, f"checking {stored.name}")
        _check_file(backup, stored)
        done += stored.size_bytes
    _check_nothing_else(backup, manifest)
    progress(done, manifest.size_bytes, "loading the state")
    state = _checked_state(backup, manifest)
    _check_archive(backup / ARCHIVE, manifest)
    progress(done, manifest.size_bytes, "done")
    return manifest, state


def read_manifest(backup: Path) -> Manifest:
    """The manifest of a directory, after its hash was verified."""
    path = backup / MANIFEST
    try:
        if backup.is_symlink():
            raise BackupError(f"{backup} is a link; name the directory itself")
        with _opened(path) as file, _opened(backup / MANIFEST_HASH) as beside:
            data, expected = file.read(MAX_MANIFEST + 1), beside.read(_CHUNK_BYTES).strip()
    except OSError as error:
        raise BackupMissing(f"{error.filename}: {error.strerror}; is {backup} a backup?") from error
    if len(data) > MAX_MANIFEST:
        raise BackupError(f"{path} is too large for a manifest")
    if hashlib.sha256(data).hexdigest().encode() != expected:
        raise BackupError(f"{path} is damaged: it does not match {MANIFEST_HASH}")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"{path} cannot be read: {error}") from error
    if manifest.format > FORMAT_VERSION:
        raise BackupError(f"{backup} has format {manifest.format}, but this version of Lattice reads {FORMAT_VERSION}")
    return manifest


def in_folder(folder: Path) -> Iterator[tuple[Path, Manifest]]:
    """The backups in a directory, oldest first; entries without a readable manifest are skipped."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.name.startswith("."):
            with contextlib.suppress(BackupError):
                found.append((path, read_manifest(path)))
    yield from sorted(found, key=lambda pair: (pair[1].created_at, pair[1].index, pair[0].name))


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy of a SQLite file that may be in use."""
    if not source.exists():
        raise BackupError(f"{source}: no such file")
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            live.backup(copy, pages=_COPY_PAGES)
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise BackupError(f"cannot copy {source}: {error}") from error
    target.chmod(0o600)


def _fill(source: Source, folder: Path, progress: Progress) -> Manifest:
    names = [
        f"{SNAPSHOTS}/{source.index}/{path.name}" for path in sorted(source.snapshots.path(source.index).iterdir())
    ]
    if not names:
        raise BackupError(f"snapshot {source.index} was removed meanwhile; try again")
    (folder / SNAPSHOTS / str(source.index)).mkdir(parents=True, mode=0o700)
    for done, name in enumerate(names):
        progress(done, len(names) + 1, f"copying {name}")
        shutil.copyfile(source.snapshots.path(source.index) / PurePosixPath(name).name, folder / name)
        (folder / name).chmod(0o600)
    progress(len(names), len(names) + 1, f"copying {ARCHIVE}")
    copy_database(source.archive, folder / ARCHIVE)
    files = tuple(_stored(folder, name) for name in (*names, ARCHIVE))
    manifest = Manifest(
        format=FORMAT_VERSION,
        created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        server=source.server,
        epoch=source.epoch,
        index=source.index,
        digest=source.digest,
        level=source.level,
        files=files,
    )
    data = msgspec.json.format(msgspec.json.encode(manifest))
    write_private(folder / MANIFEST, data)
    write_private(folder / MANIFEST_HASH, hashlib.sha256(data).hexdigest().encode() + b"\n")
    for part in (folder / SNAPSHOTS / str(source.index), folder / SNAPSHOTS, folder):
        sync_folder(part)
    return manifest


def _stored(folder: Path, name: str) -> StoredFile:
    with (folder / name).open("rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256")
        return StoredFile(name=name, size_bytes=file.tell(), sha256=digest.hexdigest())


def open_file(backup: Path, name: str) -> BufferedReader:
    """A file of a backup, opened for reading. Raises OSError, BackupError."""
    path = backup / safe(name)
    _check_parents(backup, path)
    return _opened(path)


def _check_file(backup: Path, stored: StoredFile) -> None:
    path = backup / safe(stored.name)
    try:
        with open_file(backup, stored.name) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error
    if (size, digest) != (stored.size_bytes, stored.sha256):
        raise BackupError(f"{path} is damaged: it does not match {MANIFEST}")


def _check_parents(backup: Path, path: Path) -> None:
    """Refuses links, which could lead out of the backup."""
    for parent in path.parents:
        if parent == backup:
            return
        if parent.is_symlink():
            raise BackupError(f"{parent} is a link; backups must not contain links")


def _opened(path: Path) -> BufferedReader:
    """Opens a plain file for reading. Refuses anything else: reading a pipe could block forever. Raises OSError, BackupError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BackupError(f"{path} is a link; backups must not contain links") from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BackupError(f"{path} is not a plain file")
    return os.fdopen(fd, "rb")


def _check_nothing_else(backup: Path, manifest: Manifest) -> None:
    known = {stored.name for stored in manifest.files} | {MANIFEST, MANIFEST_HASH}
    for path in sorted(backup.rglob("*")):
        name = path.relative_to(backup).as_posix()
        if not path.is_dir() and name not in known:
            raise BackupError(f"{path} does not belong to the backup")


def _checked_state(backup: Path, manifest: Manifest) -> State:
    try:
        state = SnapshotFolder(backup / SNAPSHOTS).load(manifest.index)
    except (SnapshotDamaged, LevelTooHigh) as error:
        raise BackupError(f"cannot load the state: {error}") from error
    if state.digest() != manifest.digest:
        raise BackupError(f"{backup}: the digest of the state does not match {MANIFEST}")
    return state


def _check_archive(path: Path, manifest: Manifest) -> None:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
            (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            (complete_to,) = db.execute("SELECT complete_to FROM progress").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{path} cannot be read: {error}") from error
    if verdict != "ok":
        raise BackupError(f"{path} is damaged: {verdict}")
    if complete_to < manifest.index:
        raise BackupError(f"{path} is complete only up to entry {complete_to}, but the state is at {manifest.index}")


def safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or not name.isprintable():
        raise BackupError(f"invalid file name in a backup: {name!r}")
    return path
