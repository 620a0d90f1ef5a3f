"""Restoring a backup: a data directory that continues from it, in a new epoch.

A restore rewinds history. The log starts again after the restored state, with a higher epoch, so that no server and no agent of the
former cluster continues it; its first entry records in the audit chain who restored what (`quorum/backup/replaced.py`). A restore is
atomic: everything is prepared in a directory beside its destination and moved in by renames, the log (or, if the log is in etcd, the
note from which it will start) last; without that a server refuses to start. The next restore removes what an interrupted one left.
::

    DATA/  snapshots/INDEX/  archive.db  log.db          one server
    DATA/  snapshots/INDEX/  archive.db  restored.json   several: `lattice-server --bootstrap` writes it to the log
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from lattice.core.machine.codec import encode_batch
from lattice.core.machine.commands import Envelope, RecordAudit
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.state import State
from lattice.core.model.site.audit import AuditHead, AuditNote
from lattice.ports.quorum.backups import BackupError
from lattice.ports.quorum.log import LogCorrupt, LogError, LogStart
from lattice.quorum.backup import folder as backups
from lattice.quorum.backup.folder import ARCHIVE, SNAPSHOTS, Manifest, Progress, no_progress
from lattice.quorum.backup.replaced import UNKNOWN, Origin, end_of, note_of, state_of
from lattice.quorum.durable import sync_folder, write_private
from lattice.quorum.logs.epochs import new_epoch
from lattice.quorum.logs.sqlite import begin_file, epoch_of_file

LOG = "log.db"
ETCD = "etcd"
RESTORED = "restored.json"
REQUEST = "restore.json"
SCRATCH = ".restoring"
RESTORER = "restore"
# In the order in which they are moved in.
_PLACES = (SNAPSHOTS, ARCHIVE, LOG, RESTORED)
_LEFTOVERS = (f"{LOG}-wal", f"{LOG}-shm", f"{ARCHIVE}-wal", f"{ARCHIVE}-shm")

Kind = Literal["sqlite", "etcd"]


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """restored.json: the newest entry that the restored state contains; the log of several servers starts after it."""

    index: int
    epoch: int
    former: int = 0
    digest: str = ""
    backup: str = ""
    level: int = OLDEST
    note: AuditNote | None = None  # the first entry of the restored chain; none without a chain
    at: int = 0

    def log_start(self) -> LogStart:
        # The entry after the state: with none before it, the log cannot be mistaken for the whole history.
        told = () if self.note is None else (RecordAudit(notes=(self.note,)),)
        envelopes = tuple(Envelope(at=self.at, command=command, actor=RESTORER) for command in told)
        return LogStart(
            index=self.index + 1,
            epoch=self.epoch,
            payload=encode_batch(f"restored-{self.digest}", envelopes, self.level),
            former=self.former,
        )


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """restore.json: the backup that the next start of this server restores, and who requested it."""

    path: str
    origin: Origin = Origin()


# Keeps the part of an audit chain that a backup lacks: the replaced state, its epoch, the head of the chain in the backup.
KeepTail = Callable[[State, int, AuditHead], None]


def keep_no_tail(_replaced: State, _epoch: int, _kept: AuditHead) -> None:
    """For servers without an audit chain."""


def restore(
    backup: Path, data_dir: Path, kind: Kind, progress: Progress = no_progress, origin: Origin = UNKNOWN
) -> Start:
    """Creates a data directory from a backup after verifying it. Refuses a directory that contains a cluster. Blocks."""
    check_fresh(data_dir)
    manifest, state = backups.verified(backup, progress)
    try:
        return _place(backup, manifest, state, data_dir, kind, origin)
    except OSError as error:
        raise BackupError(f"{error.filename or data_dir}: {error.strerror or error}") from error


def check_fresh(data_dir: Path) -> None:
    """Refuses a directory that contains part of a cluster, except what an interrupted restore left."""
    if (data_dir / SCRATCH).exists():
        _undo(data_dir)
    if (data_dir / RESTORED).exists():
        raise BackupError(
            f"{data_dir} contains a restored backup with which no server has started yet; "
            "start one there with --bootstrap and nothing else, or empty the directory"
        )
    for name in (*_PLACES, ETCD):
        if (data_dir / name).exists():
            raise BackupError(
                f"{data_dir} already contains a cluster ({name} exists); "
                "restore into an empty data directory, or move this one away first"
            )


def read_start(data_dir: Path) -> Start | None:
    """Where the log in etcd must start; None for a server that was not restored, or whose log exists."""
    try:
        return msgspec.json.decode((data_dir / RESTORED).read_bytes(), type=Start)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise BackupError(f"{data_dir / RESTORED} cannot be read: {error}; restore the backup again") from error


def log_has_begun(data_dir: Path) -> None:
    """Removes the note once the log in etcd exists."""
    (data_dir / RESTORED).unlink(missing_ok=True)
    sync_folder(data_dir)


def refuse_unfinished(data_dir: Path) -> None:
    """Raises if a restore into the directory was interrupted: its content belongs to no epoch."""
    if (data_dir / SCRATCH).exists():
        raise BackupError(f"a restore into {data_dir} was interrupted; run it again")


def request(data_dir: Path, path: Path, origin: Origin) -> None:
    """Makes the next start of the server restore this backup."""
    draft = data_dir / f"{REQUEST}.new"
    draft.unlink(missing_ok=True)
    write_private(draft, msgspec.json.encode(Request(path=str(path), origin=origin)))
    draft.rename(data_dir / REQUEST)
    sync_folder(data_dir)


def carry_out_request(data_dir: Path, keep_tail: KeepTail = keep_no_tail) -> tuple[Start, Path] | None:
    """Carries out a restore that was requested while the server ran; moves the previous data to the returned directory. Blocks."""
    try:
        asked = msgspec.json.decode((data_dir / REQUEST).read_bytes(), type=Request)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise BackupError(
            f"{data_dir / REQUEST} cannot be read: {error}; remove it to start without a restore"
        ) from error
    backup = Path(asked.path)
    manifest, state = backups.verified(backup)
    origin = _replacing(data_dir, asked, state, keep_tail)
    former = data_dir / time.strftime("replaced-%Y%m%dT%H%M%SZ", time.gmtime())
    former.mkdir(mode=0o700)
    epoch = epoch_of(data_dir)
    for name in (*_PLACES, *_LEFTOVERS):
        if (data_dir / name).exists():
            (data_dir / name).rename(former / name)
    sync_folder(data_dir)
    start = _place(backup, manifest, state, data_dir, "sqlite", origin, former_epoch=epoch)
    (data_dir / REQUEST).unlink()
    sync_folder(data_dir)
    return start, former


def _replacing(data_dir: Path, asked: Request, restored: State, keep_tail: KeepTail) -> Origin:
    """The record about the replaced history; stored first, so that an interrupted restore can be repeated."""
    replaced = state_of(data_dir) if (data_dir / LOG).exists() else None
    if replaced is None:
        return asked.origin  # the end that the server knew at the time of the request
    epoch = epoch_of(data_dir)
    keep_tail(replaced, epoch, restored.audit.head)
    origin = Origin(actor=asked.origin.actor, replaced=end_of(replaced, epoch))
    request(data_dir, Path(asked.path), origin)
    return origin


def _place(
    backup: Path,
    manifest: Manifest,
    state: State,
    data_dir: Path,
    kind: Kind,
    origin: Origin,
    former_epoch: int = 0,
) -> Start:
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = data_dir / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    sync_folder(data_dir)
    epoch = new_epoch(max(manifest.epoch, former_epoch))
    start = Start(
        index=manifest.index,
        epoch=epoch,
        former=manifest.epoch,
        digest=manifest.digest,
        backup=str(backup),
        level=manifest.level,
        note=note_of(origin, backup, manifest) if state.audit.is_on else None,
        at=max(state.last_at, time.time_ns() // 1_000_000),
    )
    try:
        for stored in manifest.files:
            target = scratch / backups.safe(stored.name)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(backup / stored.name, target)
            target.chmod(0o600)
            with target.open("rb") as file:
                os.fsync(file.fileno())
        for folder in (scratch / SNAPSHOTS / str(manifest.index), scratch / SNAPSHOTS):
            sync_folder(folder)
        if kind == "sqlite":
            _begin_log(scratch / LOG, start.log_start())
        else:
            write_private(scratch / RESTORED, msgspec.json.encode(start))
        sync_folder(scratch)
        for name in _PLACES:
            if (scratch / name).exists():
                (scratch / name).rename(data_dir / name)
                sync_folder(data_dir)
    except BaseException:
        _undo(data_dir)
        raise
    shutil.rmtree(scratch)
    sync_folder(data_dir)
    return start


def _undo(data_dir: Path) -> None:
    """Removes what a restore has moved in. The scratch directory only exists if there was no cluster before."""
    for name in reversed(_PLACES):
        place = data_dir / name
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    shutil.rmtree(data_dir / SCRATCH, ignore_errors=True)
    sync_folder(data_dir)


def _begin_log(path: Path, start: LogStart) -> None:
    try:
        begin_file(path, start)
    except LogError as error:
        raise BackupError(str(error)) from error
    (path.parent / f"{path.name}.lock").unlink(missing_ok=True)


def epoch_of(data_dir: Path) -> int:
    """The epoch of the existing log; 0 without one, or if it is damaged, which may be the reason for the restore."""
    path = data_dir / LOG
    try:
        return epoch_of_file(path) if path.exists() else 0
    except LogCorrupt:
        return 0
    except LogError as error:
        raise BackupError(str(error)) from error
