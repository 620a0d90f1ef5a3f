"""Snapshots in the object store: backups as single objects, in case all servers are lost.

::

    raft/snap-20260305T120000Z.bin     a backup directory (`quorum/backup/folder.py`) as a compressed tar file

Objects appear complete, and each contains the hashes of all its files: a damaged one is detected, and the previous one is used.
"""

import asyncio
import logging
import re
import shutil
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from lattice.ports.quorum.backups import BackupError, BackupMissing
from lattice.ports.quorum.object_store import ObjectStore, ObjectStoreError
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup.folder import Manifest, Progress, Source, no_progress
from lattice.quorum.backup.retention import choose_expired

PREFIX = "raft/snap-"
SUFFIX = ".bin"
_TIME = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(rf"{re.escape(PREFIX)}(\d{{8}}T\d{{6}}Z){re.escape(SUFFIX)}")
_PIECE_BYTES = 8 << 20
_REST_BYTES = 1 << 16
_LEVEL = 3
_RETRY_S = 60.0

_log = logging.getLogger(__name__)


class ObjectSnapshots:
    """The snapshots in one store; `scratch` is a directory with space for one of them."""

    def __init__(self, store: ObjectStore, scratch: Path) -> None:
        self._store = store
        self._scratch = scratch

    async def upload(self, source: Source, when: datetime) -> str:
        """Stores a fresh snapshot; returns its name."""
        name = name_of(when)
        with self._folder() as folder:
            await asyncio.to_thread(backup.write, source, folder / "backup")
            await asyncio.to_thread(pack, folder / "backup", folder / "packed")
            await self._store.put_file(name, folder / "packed")
        return name

    async def names(self) -> list[str]:
        """All of them, oldest first."""
        return sorted([name async for name in self._store.names(PREFIX) if _NAME.fullmatch(name)])

    async def newest_time(self) -> datetime | None:
        names = await self.names()
        return time_of(names[-1]) if names else None

    async def prune(self, now: datetime) -> list[str]:
        """Deletes expired snapshots; returns their names."""
        expired = [name_of(when) for when in choose_expired(map(time_of, await self.names()), now)]
        for name in expired:
            await self._store.delete(name)
        return expired

    async def fetch(self, name: str, target: Path, progress: Progress = no_progress) -> Manifest:
        """Unpacks a snapshot into the new directory `target` as a verified backup. Raises BackupError."""
        with self._folder() as folder:
            try:
                await self._download(name, folder / "packed", progress)
            except ObjectStoreError as error:
                raise BackupError(str(error)) from error
            return await asyncio.to_thread(_unpacked, folder / "packed", target, progress)

    async def fetch_newest(self, target: Path, progress: Progress = no_progress) -> tuple[str, Manifest]:
        """The newest intact one; damaged ones are skipped."""
        try:
            names = await self.names()
        except ObjectStoreError as error:
            raise BackupError(str(error)) from error
        for name in reversed(names):
            try:
                return name, await self.fetch(name, target, progress)
            except BackupError as error:
                _log.error("cannot use snapshot %s, trying the previous one: %s", name, error)
                await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        found = f"all {len(names)} snapshots in the object store are damaged" if names else "there are no snapshots"
        raise BackupMissing(f"nothing to recover from: {found} (looked for {PREFIX}*{SUFFIX})")

    async def _download(self, name: str, path: Path, progress: Progress) -> None:
        size = await self._store.size(name)
        with path.open("xb") as file:
            for offset in range(0, size, _PIECE_BYTES):
                progress(offset, size, f"fetching {name}")
                piece = await self._store.get(name, offset=offset, length=_PIECE_BYTES)
                await asyncio.to_thread(file.write, piece)

    def _folder(self) -> "_Scratch":
        return _Scratch(self._scratch)


class _Scratch:
    """A temporary directory."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder = parent

    def __enter__(self) -> Path:
        try:
            self._parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder = Path(tempfile.mkdtemp(dir=self._parent, prefix=".snapshot-"))
        except OSError as error:
            raise BackupError(f"{self._parent}: {error.strerror}") from error
        return self._folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class SnapshotUploads:
    """Copies a snapshot to the object store periodically; runs on the leader."""

    def __init__(
        self,
        snapshots: ObjectSnapshots,
        source: Callable[[], Awaitable[Source]],
        *,
        every_s: float,
        retry_s: float = _RETRY_S,
    ) -> None:
        self._snapshots = snapshots
        self._source = source
        self._every_s = every_s
        self._retry_s = min(retry_s, every_s)
        self.uploaded = 0
        self.failed = 0

    async def run(self) -> None:
        """Never returns. The age of the newest snapshot counts, whichever server took it."""
        while True:
            try:
                wait_s = await self._turn()
            except (BackupError, ObjectStoreError) as error:
                self.failed += 1
                wait_s = self._retry_s
                _log.error("cannot store a snapshot in the object store, next attempt in %.0f s: %s", wait_s, error)
            await asyncio.sleep(wait_s)

    async def _turn(self) -> float:
        now = datetime.now(UTC)
        newest = await self._snapshots.newest_time()
        age_s = self._every_s if newest is None else (now - newest).total_seconds()
        if 0 <= age_s < self._every_s:
            return self._every_s - age_s
        name = await self._snapshots.upload(await self._source(), now)
        expired = await self._snapshots.prune(now)
        self.uploaded += 1
        _log.info("stored snapshot %s in the object store; removed %d old ones", name, len(expired))
        return self._every_s


def name_of(when: datetime) -> str:
    return f"{PREFIX}{when.strftime(_TIME)}{SUFFIX}"


def time_of(name: str) -> datetime:
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"not a snapshot: {name}")
    return datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)


def pack(folder: Path, target: Path) -> None:
    """Packs a backup directory into one file. Blocks."""
    with (
        target.open("xb") as file,
        zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(file) as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False)


def unpack(packed: Path, target: Path) -> None:
    """Unpacks a file into a new directory without verifying the content. Raises BackupError. Blocks."""
    try:
        if not packed.is_file():
            kind = (
                "is neither a backup directory nor a packed snapshot"
                if packed.exists()
                else "No such file or directory"
            )
            raise BackupError(f"{packed}: {kind}")
        target.mkdir(mode=0o700, parents=True)
        with (
            packed.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            for member in tar:
                name = backup.safe(member.name)
                if not member.isfile():
                    raise BackupError(f"{packed.name} contains more than plain files: {member.name[:80]}")
                (target / name.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
                tar.extract(member, target, set_attrs=False, filter="data")
            # The archive ends before the stream does: what is left holds the checksum of all.
            while plain.read(_REST_BYTES):
                pass
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise BackupError(f"{packed} is damaged: {error}") from error
    except OSError as error:
        raise BackupError(f"{error.filename or target}: {error.strerror or error}") from error


def _unpacked(packed: Path, target: Path, progress: Progress) -> Manifest:
    unpack(packed, target)
    return backup.verify(target, progress)
