"""Creates a data directory from a backup before a server starts: a directory, a packed snapshot, or the object store."""

import asyncio
import os
import pwd
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lattice.config.schema import ServerConfig
from lattice.control.audit.keys import Signer
from lattice.control.audit.replaced_tail import replaced_tail
from lattice.core.machine.state import State
from lattice.core.model.site.audit import AuditHead
from lattice.daemons.outside.objects import has_shared_store, object_store_of
from lattice.daemons.server.guards import KEY_FILE, audit_signer
from lattice.ports.quorum.backups import BackupError
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.ports.site.audit import AuditError
from lattice.quorum.backup import folder as backup
from lattice.quorum.backup.folder import Manifest, Progress, no_progress
from lattice.quorum.backup.objects import ObjectSnapshots, unpack
from lattice.quorum.backup.replaced import ChainEnd, Origin, end_of, state_of
from lattice.quorum.backup.restore import Start, carry_out_request, check_fresh, epoch_of, restore
from lattice.wire.files.audit import ARCHIVE, parse_segment


@dataclass(frozen=True)
class Recovered:
    """The entry after which a server continues, and the source of that state."""

    start: Start
    source: str


def object_snapshots(config: ServerConfig, scratch: Path) -> ObjectSnapshots:
    """The snapshots in the configured object store. Raises BackupError without one."""
    if not has_shared_store(config):
        raise BackupError("no object store is configured; set object_store.directory or object_store.bucket")
    return ObjectSnapshots(object_store_of(config), scratch)


def recover(
    config: ServerConfig, source: Path | None, progress: Progress = no_progress, replaces: Path | None = None
) -> Recovered:
    """Restores a backup, or the newest intact snapshot of the object store, into the fresh data directory. Blocks.

    `replaces` is the data directory of the former history, where it is still there.
    """
    data_dir = Path(config.data_dir)
    check_fresh(data_dir)
    origin = Origin(actor=_operator(), replaced=_replaced(config, replaces))
    if source is not None and source.is_dir():
        return Recovered(restore(source, data_dir, config.quorum.kind, progress, origin), str(source))
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data_dir.parent, prefix=".recovery-") as folder:
            fetched, name = _fetched(config, source, Path(folder), progress)
            start = restore(fetched, data_dir, config.quorum.kind, progress, origin)
    except OSError as error:
        raise BackupError(f"{error.filename or data_dir}: {error.strerror or error}") from error
    return Recovered(start, name)


def carry_out_asked(config: ServerConfig) -> tuple[Start, Path] | None:
    """Carries out a restore that was requested while the server ran; returns where it continues, and where the former data is. Blocks."""

    def keep_tail(replaced: State, epoch: int, kept: AuditHead) -> None:
        _keep_tail(config, audit_signer(config), replaced, epoch, kept)

    return carry_out_request(Path(config.data_dir), keep_tail)


def _replaced(config: ServerConfig, replaces: Path | None) -> ChainEnd:
    """The end of the former audit chain, from its data, else from its archived segments."""
    if replaces is None:
        return asyncio.run(_archived_end(config))
    state = state_of(replaces)
    if state is None:
        raise BackupError(f"{replaces}: cannot read snapshots or log; omit --replaces to restore without them")
    epoch = epoch_of(replaces)
    own_key = replaces / KEY_FILE
    try:
        has_own = own_key.exists() and not config.audit.signing_key
        signer = Signer(own_key, config.name) if has_own else audit_signer(config)
    except AuditError as error:
        raise BackupError(str(error)) from error
    _keep_tail(config, signer, state, epoch, AuditHead())
    return end_of(state, epoch)


async def _archived_end(config: ServerConfig) -> ChainEnd:
    """Names of archived segments contain only the start of the link."""
    try:
        names = [name async for name in object_store_of(config).names(ARCHIVE)]
    except ObjectStoreError as error:
        raise BackupError(str(error)) from error
    segments = [segment for segment in map(parse_segment, names) if segment is not None]
    newest = max(segments, key=lambda segment: (segment.last_at, segment.last), default=None)
    return ChainEnd() if newest is None else ChainEnd(last=newest.last, link=newest.head)


def _keep_tail(config: ServerConfig, signer: Signer, replaced: State, epoch: int, kept: AuditHead) -> None:
    tail = replaced_tail(replaced.audit, kept, signer, time.time_ns() // 1_000_000, epoch)
    if tail is None:
        return
    try:
        asyncio.run(object_store_of(config).put(tail.name, tail.data))
    except ObjectStoreError as error:
        raise BackupError(f"cannot keep the replaced part of the audit chain: {error}") from error


def _operator() -> str:
    """The account that runs the restore, and the one that called sudo."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    before = os.environ.get("SUDO_USER", "")
    return f"os:{name}" + (f" (sudo: {before[:64]})" if before else "")


def check(config: ServerConfig | None, source: Path | None, progress: Progress = no_progress) -> tuple[str, Manifest]:
    """Verifies a backup without restoring it; returns which one, and its content. Blocks."""
    if source is not None and source.is_dir():
        return str(source), backup.verify(source, progress)
    with tempfile.TemporaryDirectory(prefix="lattice-verify-") as folder:
        if source is None and config is None:
            raise BackupError("name a backup, or the configuration of a server with an object store")
        fetched, name = _fetched(config, source, Path(folder), progress)
        return name, backup.verify(fetched, progress)


def _fetched(config: ServerConfig | None, source: Path | None, scratch: Path, progress: Progress) -> tuple[Path, str]:
    """A backup in a directory below `scratch`, and its name."""
    target = scratch / "backup"
    if source is not None:
        unpack(source, target)
        return target, str(source)
    assert config is not None  # noqa: S101 - checked by the callers
    snapshots = object_snapshots(config, scratch)
    name, _ = asyncio.run(snapshots.fetch_newest(target, progress))
    return target, name
