"""A data folder from a backup, before a server starts: from a folder, from a packed snapshot, or from the object store."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lattice.config.schema import ServerConfig
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.quorum.backups import BackupError
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup.folder import Manifest, Progress, no_progress
from lattice.quorum.backup.objects import ObjectSnapshots, unpack
from lattice.quorum.backup.restore import Start, check_fresh, restore


@dataclass(frozen=True)
class Recovered:
    """Where a server continues from, and the source of that state."""

    start: Start
    source: str


def object_snapshots(config: ServerConfig, scratch: Path) -> ObjectSnapshots:
    """The snapshots in the object store that is configured; raises BackupError without one."""
    directory = config.object_store.directory
    if not directory:
        raise BackupError("no object store is configured; set object_store.directory")
    return ObjectSnapshots(DirectoryStore(Path(directory)), scratch)


def recover(config: ServerConfig, source: Path | None, progress: Progress = no_progress) -> Recovered:
    """Restores a backup, or without one the newest good snapshot of the object store, into the fresh data directory. Blocks."""
    data_dir = Path(config.data_dir)
    check_fresh(data_dir)
    if source is not None and source.is_dir():
        return Recovered(restore(source, data_dir, config.quorum.kind, progress), str(source))
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data_dir.parent, prefix=".recovery-") as folder:
            fetched, name = _fetched(config, source, Path(folder), progress)
            start = restore(fetched, data_dir, config.quorum.kind, progress)
    except OSError as error:
        raise BackupError(f"{error.filename or data_dir}: {error.strerror or error}") from error
    return Recovered(start, name)


def check(config: ServerConfig | None, source: Path | None, progress: Progress = no_progress) -> tuple[str, Manifest]:
    """Verifies a backup without restoring it: which one, and what it holds. Blocks."""
    if source is not None and source.is_dir():
        return str(source), backup.verify(source, progress)
    with tempfile.TemporaryDirectory(prefix="lattice-verify-") as folder:
        if source is None and config is None:
            raise BackupError("name a backup, or the configuration of a server with an object store")
        fetched, name = _fetched(config, source, Path(folder), progress)
        return name, backup.verify(fetched, progress)


def _fetched(config: ServerConfig | None, source: Path | None, scratch: Path, progress: Progress) -> tuple[Path, str]:
    """A backup in a folder below `scratch`, and what it is called."""
    target = scratch / "backup"
    if source is not None:
        unpack(source, target)
        return target, str(source)
    assert config is not None  # noqa: S101 - checked by the callers
    snapshots = object_snapshots(config, scratch)
    name, _ = asyncio.run(snapshots.fetch_newest(target, progress))
    return target, name
