"""Backups of one server: made from its replica, stored in its own directory."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup import restore, transfer
from lattice.quorum.backup.folder import ARCHIVE, SNAPSHOTS, Manifest, Source
from lattice.quorum.backup.replaced import Origin, end_of
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.quorum.snapshots.keeper import FAILURES

_REMEMBERED = 16


class BackupService:
    """Implements `Backups`. `folder` is the default place of backups; `kind` is the kind of log."""

    def __init__(self, replica: LogReplica, data_dir: Path, folder: Path, server: str, kind: restore.Kind) -> None:
        self._replica = replica
        self._data_dir = data_dir
        self._folder = folder
        self._server = server
        self._kind = kind
        self._one_at_a_time = asyncio.Lock()
        self._fetching = asyncio.Lock()
        self.pace = transfer.Pace()
        self._made: dict[str, BackupRecord] = {}

    async def create(self, path: str, request_id: str = "") -> BackupRecord:
        async with self._one_at_a_time:
            if request_id in self._made:
                return self._made[request_id]
            target = self._target(path)
            source = await self.source()
            made = self._record(target, await asyncio.to_thread(backup.write, source, target))
            if request_id:
                self._made[request_id] = made
                while len(self._made) > _REMEMBERED:
                    del self._made[next(iter(self._made))]
            return made

    async def source(self) -> Source:
        """The sources of a backup of the current state. Raises BackupError."""
        try:
            written = await self._replica.snapshot_now()
        except FAILURES as error:
            raise BackupError(f"cannot take a snapshot: {error}") from error
        return Source(
            snapshots=SnapshotFolder(self._data_dir / SNAPSHOTS),
            archive=self._data_dir / ARCHIVE,
            server=self._server,
            epoch=self._replica.epoch,
            index=written.index,
            digest=written.digest,
            level=written.level,
        )

    async def list(self) -> list[BackupRecord]:
        found = await asyncio.to_thread(lambda: [*backup.in_folder(self._folder)])
        return [self._record(path, manifest) for path, manifest in found]

    async def verify(self, path: str) -> BackupRecord:
        chosen = await self._chosen(path)
        return self._record(chosen, await asyncio.to_thread(backup.verify, chosen))

    async def fetch(self, path: str, server: str = "", to: str = "") -> BackupRecord:
        for each in await self.list():
            if is_named(each, path) and {server, to} <= {"", self._server}:
                return each
        raise BackupMissing(f"this server has no backup {path!r}, and shares its log with no other that could have it")

    async def pieces(self, path: str, name: str, offset: int) -> AsyncIterator[bytes]:
        """A file of a backup in the own folder, from that byte on. Raises BackupError."""
        if path not in [each.path for each in await self.list()]:
            raise BackupMissing(f"{path[:200]!r} is no backup in {self._folder}")
        async for piece in transfer.send(Path(path), name, offset):
            yield piece

    async def receive(self, path: str, pieces: transfer.Pieces) -> BackupRecord:
        """Copies a backup into the own folder, under the last part of its path. Raises BackupError."""
        if self._fetching.locked():
            raise BackupError("another backup is being fetched; ask again when it is here")
        async with self._fetching:
            return self._record(*await transfer.receive(self._folder, transfer.name_of(path), pieces, self.pace))

    async def restore_at_start(self, path: str, actor: str) -> BackupRecord:
        if self._kind != "sqlite":
            raise BackupError(
                "a backup is restored into fresh data directories where several servers share the log: stop all servers, "
                "then `lattice admin backup restore PATH --server-config FILE` for the first one and --join for the others"
            )
        found = await self.verify(path)
        origin = Origin(actor=actor, replaced=end_of(self._replica.state, self._replica.epoch))
        await asyncio.to_thread(restore.request, self._data_dir, Path(found.path), origin)
        return found

    def _target(self, path: str) -> Path:
        if not path:
            return self._folder / datetime.now(UTC).strftime("backup-%Y%m%dT%H%M%S.%fZ")
        return self._absolute(path)

    async def _chosen(self, path: str) -> Path:
        if path:
            return self._absolute(path)
        listed = await self.list()
        if not listed:
            raise BackupMissing(f"there is no backup in {self._folder} yet")
        return Path(listed[-1].path)

    def _absolute(self, path: str) -> Path:
        chosen = Path(path)
        if "\0" in path or ".." in chosen.parts:
            raise BackupError(f"invalid directory name: {path!r}")
        return chosen if chosen.is_absolute() else self._folder / chosen

    def _record(self, path: Path, manifest: Manifest) -> BackupRecord:
        return BackupRecord(
            path=str(path),
            created_at=manifest.created_at,
            server=manifest.server,
            index=manifest.index,
            epoch=manifest.epoch,
            digest=manifest.digest,
            size_bytes=manifest.size_bytes,
            held_by=(self._server,),
        )


def is_named(found: BackupRecord, path: str) -> bool:
    """Whether it is meant by this path, or by the last part of its path alone."""
    return bool(path) and path in (found.path, found.path.rpartition("/")[2])
