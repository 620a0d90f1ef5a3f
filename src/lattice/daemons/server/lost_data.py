"""Missing or damaged data of a single server: detected at start, restored from a backup, or reported."""

import asyncio
import contextlib
import logging
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lattice.config.schema import ServerConfig
from lattice.config.sections.work import SlurmSection
from lattice.daemons.outside.objects import has_shared_store
from lattice.daemons.server.recovery import object_snapshots
from lattice.ports.quorum.backups import BackupError
from lattice.quorum.archive.repair import WAL_PARTS, inspect, put_aside
from lattice.quorum.backup import folder as backups
from lattice.quorum.backup.restore import read_start
from lattice.quorum.durable import create_private
from lattice.quorum.losses import Losses
from lattice.quorum.owner import Owner, note_owner

LOG = "log.db"
ARCHIVE = "archive.db"
BEGUN = "log-begun"

_log = logging.getLogger(__name__)


def note_begun(config: ServerConfig) -> None:
    """Records that this server has a log, and whose it is. Blocks."""
    data_dir = Path(config.data_dir)
    if data_dir.is_dir() and not (data_dir / BEGUN).exists():
        create_private(data_dir / BEGUN)
    note_owner(data_dir, owner_by(config))


def owner_by(config: ServerConfig) -> Owner:
    """A cluster with the name that every cluster has by default has none."""
    name = config.slurm.cluster_name
    return Owner(cluster="" if name == SlurmSection().cluster_name else name, server=config.name)


def refuse_lost_log(data_dir: Path, losses: Losses) -> None:
    """Raises DataLost if a server that had a log finds none, unless the loss is accepted. Blocks."""
    log = data_dir / LOG
    if read_start(data_dir) is not None or (log.exists() and log.stat().st_size):
        return
    if not (data_dir / BEGUN).exists():
        return
    losses.meet(f"{log} is missing or empty, and with it everything since the last snapshot", "restore it or a backup")
    for part in ("", "-wal", "-shm"):
        log.with_name(log.name + part).unlink(missing_ok=True)


def mend_archive(config: ServerConfig) -> None:
    """Replaces a missing or damaged archive with that of a backup; the log fills in later records. Blocks."""
    data_dir = Path(config.data_dir)
    path = data_dir / ARCHIVE
    found = inspect(path)
    if found.exists and not found.damage:
        return
    if found.damage:
        _log.error("%s is damaged (%s): moved it to %s", path, found.damage, put_aside(path))
    elif (data_dir / BEGUN).exists():
        _log.error("%s is missing or empty", path)
    else:
        return
    with tempfile.TemporaryDirectory(dir=data_dir, prefix=".repairing-") as scratch:
        source = _take_from(path, _backups_of(config, Path(scratch)), _epoch(data_dir / LOG))
    _log.warning("restoring the archive from %s and the log", source or "no backup")


def _take_from(path: Path, found: Iterable[Path], epoch: int) -> str:
    """Installs the archive of the first intact backup of this epoch; returns its name, empty if there is none."""
    for backup in found:
        try:
            manifest = backups.verify(backup)
        except BackupError as error:
            _log.error("cannot use backup %s: %s", backup, error)
            continue
        if manifest.epoch != epoch:
            continue
        draft = path.with_name(f".{path.name}.new")
        shutil.copyfile(backup / backups.ARCHIVE, draft)
        draft.chmod(0o600)
        for part in WAL_PARTS:
            path.with_name(path.name + part).unlink(missing_ok=True)
        draft.replace(path)
        return f"{backup.name} (entry {manifest.index})"
    return ""


def _backups_of(config: ServerConfig, scratch: Path) -> list[Path]:
    """The newest in the object store, then those of this server, newest first."""
    folder = Path(config.backup.directory) if config.backup.directory else Path(config.data_dir) / "backups"
    own = [path for path, _ in backups.in_folder(folder)][::-1]
    if not has_shared_store(config) or not config.snapshots.to_object_store:
        return own
    try:
        asyncio.run(object_snapshots(config, scratch).fetch_newest(scratch / "from-object-store"))
    except (BackupError, OSError) as error:
        _log.warning("no archive from the object store: %s", error)
        return own
    return [scratch / "from-object-store", *own]


def _epoch(log: Path) -> int:
    try:
        with contextlib.closing(sqlite3.connect(log)) as db:
            return int(db.execute("SELECT max(epoch) FROM history").fetchone()[0])
    except (sqlite3.Error, TypeError):
        return 0
