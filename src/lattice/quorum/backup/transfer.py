"""A backup that lies on another server: fetched file by file, and kept only after every byte of it was verified.

::

    FOLDER/.NAME.fetched/    what has arrived; the next attempt continues from there
    FOLDER/NAME/             appears when it is complete and good

The other server is trusted no further than it has to be: names and sizes are those of the manifest, which is checked first,
and a copy must leave room on the disk.
"""

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from msgspec import Struct

from lattice.ports.quorum.backups import BackupError
from lattice.ports.quorum.peers import PeerLost, PeerRefused
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup.folder import ARCHIVE, MANIFEST, MANIFEST_HASH, MAX_MANIFEST, SNAPSHOTS, Manifest
from lattice.quorum.durable import sync_folder, write_private

PIECE_BYTES = 1 << 18
MAX_FILES = 10_000
_MAX_HASH = 1 << 10
_ATTEMPTS = 5  # in a row, without a byte
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}")
_FILE = re.compile(rf"{SNAPSHOTS}/\d+/[A-Za-z0-9_][A-Za-z0-9_.-]*|{re.escape(ARCHIVE)}")
_SUFFIX = ".fetched"

# A file of the backup, from that byte on. Raises PeerLost.
Pieces = Callable[[str, int], AsyncIterator[bytes]]


class Pace(Struct, frozen=True, kw_only=True):
    """How fast it is copied, so that the log keeps its share of disk and network; how long a lost connection is left alone."""

    bytes_per_s: float = 64 << 20
    again_after_s: float = 1.0
    room_bytes: int = 1 << 30  # that must be left on the disk, or a tenth of it if that is less


def name_of(path: str) -> str:
    """The last part of a backup's path, as the name of a copy. Refuses what could lead elsewhere."""
    name = path.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise BackupError(f"{path[:200]!r} cannot be fetched: its name is not made of letters, digits, _, . and -")
    return name


async def send(path: Path, name: str, offset: int) -> AsyncIterator[bytes]:
    """A file of a backup, from that byte on. Raises BackupError."""
    manifest = await asyncio.to_thread(backup.read_manifest, path)
    if name not in {stored.name for stored in manifest.files} | {MANIFEST, MANIFEST_HASH}:
        raise BackupError(f"{name[:200]!r} is no file of {path}")
    try:
        with await asyncio.to_thread(backup.open_file, path, name) as file:
            file.seek(offset)
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
    except OSError as error:
        raise BackupError(f"{path / name}: {error.strerror}") from error


async def receive(folder: Path, name: str, pieces: Pieces, pace: Pace) -> tuple[Path, Manifest]:
    """The copy, FOLDER/NAME, after it was verified. Raises BackupError; what has arrived is kept for the next attempt."""
    target, scratch = folder / name_of(name), folder / f".{name_of(name)}{_SUFFIX}"
    try:
        told = await _small(pieces, MANIFEST, MAX_MANIFEST), await _small(pieces, MANIFEST_HASH, _MAX_HASH)
        manifest = await asyncio.to_thread(_begun, folder, scratch, *told)
        if await asyncio.to_thread(os.path.lexists, target):
            return target, await asyncio.to_thread(_same, target, manifest, scratch)
        await asyncio.to_thread(_check_room, scratch, manifest, pace)
        copying = _Copying(scratch, pieces, pace)
        for stored in manifest.files:
            await copying.file(stored)
        await asyncio.to_thread(_finish, scratch, target)
    except PeerLost as error:
        raise BackupError(str(error)) from error
    except OSError as error:
        raise BackupError(f"{error.filename or target}: {error.strerror or error}") from error
    return target, manifest


async def _small(pieces: Pieces, name: str, limit: int) -> bytes:
    data = b""
    async for piece in pieces(name, 0):
        data += piece
        if len(data) > limit:
            raise BackupError(f"{name} of the other server is too large")
    return data


def _begun(folder: Path, scratch: Path, manifest: bytes, beside: bytes) -> Manifest:
    """Makes the directory for what comes, or takes the one of an earlier attempt at the same backup."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for other in folder.glob(f".*{_SUFFIX}"):
        if other != scratch or other.is_symlink() or _read(other / MANIFEST) != manifest:
            _remove(other)
    if not scratch.exists():
        scratch.mkdir(mode=0o700)
        write_private(scratch / MANIFEST, manifest)
        write_private(scratch / MANIFEST_HASH, beside)
    try:
        return _bounded(backup.read_manifest(scratch))
    except BackupError:
        _remove(scratch)
        raise


def _bounded(manifest: Manifest) -> Manifest:
    names = [stored.name for stored in manifest.files]
    if len(names) > MAX_FILES or len(set(names)) != len(names):
        raise BackupError(f"the manifest names too many files ({len(names)}), or one of them twice")
    for name in names:
        if not _FILE.fullmatch(name):
            raise BackupError(f"invalid file name in a backup: {name!r}")
    return manifest


def _same(target: Path, manifest: Manifest, scratch: Path) -> Manifest:
    _remove(scratch)
    if target.is_symlink() or backup.read_manifest(target) != manifest:
        raise BackupError(f"{target} already exists and is another backup; move it away first")
    return manifest


def _check_room(scratch: Path, manifest: Manifest, pace: Pace) -> None:
    disk = shutil.disk_usage(scratch)
    here = sum(path.stat().st_size for path in scratch.rglob("*") if path.is_file())
    needed, left = max(manifest.size_bytes - here, 0), min(pace.room_bytes, disk.total // 10)
    if needed + left > disk.free:
        _remove(scratch)
        raise BackupError(
            f"there is no room for it in {scratch.parent}: {needed} bytes are missing here, "
            f"{disk.free} are free, and {left} must be left"
        )


class _Copying:
    def __init__(self, scratch: Path, pieces: Pieces, pace: Pace) -> None:
        self._scratch = scratch
        self._pieces = pieces
        self._pace = pace
        self._begun = time.monotonic()
        self._bytes = 0

    async def file(self, stored: backup.StoredFile) -> None:
        path = self._scratch / backup.safe(stored.name)
        for parent in reversed(path.relative_to(self._scratch).parents):
            (self._scratch / parent).mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size > stored.size_bytes:
                os.ftruncate(fd, 0)
            lost = 0
            while (offset := os.fstat(fd).st_size) < stored.size_bytes:
                lost = await self._some(fd, stored, offset, lost)
            await asyncio.to_thread(os.fsync, fd)
        finally:
            os.close(fd)

    async def _some(self, fd: int, stored: backup.StoredFile, offset: int, lost: int) -> int:
        """As much as comes; how many attempts in a row brought nothing."""
        begun, problem = offset, "the answer ended early"
        try:
            async for piece in self._pieces(stored.name, offset):
                if offset + len(piece) > stored.size_bytes:
                    raise BackupError(f"{stored.name} of the other server is larger than its manifest says")
                await asyncio.to_thread(_write, fd, piece, offset)
                offset += len(piece)
                await self._keep_pace(len(piece))
        except PeerRefused:
            raise
        except PeerLost as error:
            problem = str(error)
        if offset == stored.size_bytes:
            return 0
        lost = lost + 1 if offset == begun else 0
        if lost >= _ATTEMPTS:
            raise BackupError(
                f"{stored.name} breaks off at byte {offset}: {problem}; ask again, it continues from there"
            )
        await asyncio.sleep(self._pace.again_after_s)
        return lost

    async def _keep_pace(self, size: int) -> None:
        self._bytes += size
        ahead_s = self._bytes / self._pace.bytes_per_s - (time.monotonic() - self._begun)
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)


def _write(fd: int, piece: bytes, offset: int) -> None:
    view = memoryview(piece)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


def _finish(scratch: Path, target: Path) -> None:
    try:
        backup.verify(scratch)
    except BackupError:
        _remove(scratch)
        raise
    for inner in (*(path for path in scratch.rglob("*") if path.is_dir()), scratch):
        sync_folder(inner)
    scratch.rename(target)
    sync_folder(target.parent)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
