"""Backups of the log: a folder with etcd's database, files that belong to it, and a manifest with the hash of each.

A restore rewinds history. It makes a new cluster, with a token and an epoch that no former member or server has, so that nobody
continues the old one. Files are copied before the database: a state that is newer than the log would let indexes be given twice.
::

    BACKUP/  manifest.json  etcd.db  files/...
"""

import asyncio
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import msgspec

from lattice.quorum.durable import sync_folder
from lattice.quorum.etcd_client import EtcdClient
from lattice.quorum.etcd_member import EtcdMember
from lattice.quorum.etcd_settings import MemberSettings, Origin, has_data, private_folder, write_origin
from lattice.quorum.logs.etcd import EtcdLog, raise_epoch

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
DATABASE = "etcd.db"
FILES = "files"
_HASH_BYTES = 32
_CHUNK_BYTES = 1 << 20
_RESTORE_WITHIN_S = 600.0
_CHECK_PAGE = 256


class BackupError(Exception):
    """The backup cannot be made, is damaged, or cannot be restored here; the text says which and why."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a backup: its name in it, its size, its sha256."""

    name: str
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. The log in it goes at least from `first_index` to `last_index`."""

    format: int
    created_at: str
    epoch: int
    first_index: int
    last_index: int
    etcd_version: str
    files: list[StoredFile]


async def create(client: EtcdClient, target: Path, files: Mapping[str, Path] | None = None) -> Manifest:
    """Writes a backup into the new folder `target`; it appears whole or not at all."""
    scratch = await asyncio.to_thread(_begin, target)
    try:
        stored = [
            await asyncio.to_thread(_copy, source, scratch, f"{FILES}/{name}")
            for name, source in sorted((files or {}).items())
        ]
        first, last, epoch = await _describe(client)
        stored.append(await _download(client, scratch))
        manifest = Manifest(
            format=FORMAT_VERSION,
            created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            epoch=epoch,
            first_index=first,
            last_index=last,
            etcd_version=(await client.status()).version,
            files=stored,
        )
        await asyncio.to_thread(_finish, scratch, target, manifest)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return manifest


def verify(backup: Path) -> Manifest:
    """The manifest, after every file was found whole. Raises BackupError."""
    manifest = read_manifest(backup)
    for stored in manifest.files:
        path = backup / _safe(stored.name)
        try:
            size, digest = _digest(path)
        except OSError as error:
            raise BackupError(f"{path}: {error.strerror}") from error
        if (size, digest) != (stored.size_bytes, stored.sha256):
            raise BackupError(f"{path} is damaged: it is not what {MANIFEST} says")
    _check_database(backup / DATABASE)
    return manifest


async def verify_entries(
    backup: Path, settings: MemberSettings, check: Callable[[int, bytes], None] | None = None
) -> Manifest:
    """Like `verify`, and reads every entry of the log through a member of its own; `check` may raise over one.

    `settings` name an unused folder and free addresses; nothing of them is left.
    """
    manifest = await asyncio.to_thread(verify, backup)
    member = await restore(backup, settings)
    try:
        log = EtcdLog(member.client())
        await log.open()
        try:
            first, last = await log.bounds()
            if first > manifest.first_index or last < manifest.last_index:
                raise BackupError(f"the log in {backup} goes from {first} to {last}, not as far as {MANIFEST} says")
            for index in range(first, last + 1, _CHECK_PAGE):
                for entry in await log.read(index, _CHECK_PAGE):
                    if check is not None:
                        check(entry.index, entry.payload)
        finally:
            await log.close()
    finally:
        await member.stop()
        shutil.rmtree(settings.folder, ignore_errors=True)
    return manifest


async def restore(backup: Path, settings: MemberSettings, *, epoch_at_least: int = 0) -> EtcdMember:
    """The first member of a new cluster that begins with the backup, running; others join it.

    Refuses a folder that holds a member. `epoch_at_least` is for histories that continued after the backup was made.
    """
    manifest = await asyncio.to_thread(verify, backup)
    if has_data(settings) or settings.origin.exists():
        raise BackupError(f"{settings.folder} holds a member; a backup is restored into an empty folder only")
    token = f"lattice-{secrets.token_hex(8)}"
    private_folder(settings.folder)
    shutil.rmtree(settings.data, ignore_errors=True)
    await _unpack(backup / DATABASE, settings, token)
    cluster = {settings.name: settings.peer_url}
    write_origin(settings, Origin(name=settings.name, token=token, cluster=cluster, is_joining=False))
    member = EtcdMember(settings)
    try:
        await member.restart()
        async with member.client() as client:
            await raise_epoch(client, max(manifest.epoch + 1, epoch_at_least))
    except BaseException:
        await member.stop()
        raise
    return member


def read_manifest(backup: Path) -> Manifest:
    path = backup / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}; is this a backup?") from error
    except msgspec.DecodeError as error:
        raise BackupError(f"{path} cannot be read: {error}") from error
    if manifest.format > FORMAT_VERSION:
        raise BackupError(f"{backup} is in format {manifest.format}, this version of Lattice reads {FORMAT_VERSION}")
    if all(stored.name != DATABASE for stored in manifest.files):
        raise BackupError(f"{path} names no database")
    return manifest


async def _describe(client: EtcdClient) -> tuple[int, int, int]:
    log = EtcdLog(client.at(client.endpoint))
    await log.open()
    try:
        return *await log.bounds(), log.epoch
    finally:
        await log.close()


async def _download(client: EtcdClient, folder: Path) -> StoredFile:
    digest, size = hashlib.sha256(), 0
    with (folder / DATABASE).open("xb") as file:
        async for piece in client.snapshot():
            await asyncio.to_thread(file.write, piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    await asyncio.to_thread(_check_database, folder / DATABASE)
    return StoredFile(name=DATABASE, size_bytes=size, sha256=digest.hexdigest())


def _check_database(path: Path) -> None:
    """etcd puts a hash of the database behind it: a transfer that was cut off shows here."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = path.stat().st_size - _HASH_BYTES
        while left > 0 and (piece := file.read(min(_CHUNK_BYTES, left))):
            digest.update(piece)
            left -= len(piece)
        if left != 0 or file.read() != digest.digest():
            raise BackupError(f"{path} is damaged: the database does not match its own hash")


def _copy(source: Path, folder: Path, name: str) -> StoredFile:
    target = folder / _safe(name)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise BackupError(f"{source}: {error.strerror}") from error
    with target.open("rb") as file:
        os.fsync(file.fileno())
    size, digest = _digest(target)
    return StoredFile(name=name, size_bytes=size, sha256=digest)


def _begin(target: Path) -> Path:
    if target.exists():
        raise BackupError(f"{target} exists already; choose another name")
    scratch = target.with_name(target.name + ".part")
    shutil.rmtree(scratch, ignore_errors=True)
    private_folder(scratch)
    return scratch


def _finish(scratch: Path, target: Path, manifest: Manifest) -> None:
    with (scratch / MANIFEST).open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(scratch)
    scratch.rename(target)
    sync_folder(target.parent)


def _digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise BackupError(f"not a name of a file in a backup: {name!r}")
    return path


async def _unpack(database: Path, settings: MemberSettings, token: str) -> None:
    program = shutil.which("etcdutl") or shutil.which("etcdctl")
    if program is None:
        raise BackupError(
            "neither etcdutl nor etcdctl is installed (Debian: etcd-client); one of them restores backups"
        )
    process = await asyncio.create_subprocess_exec(
        program,
        "snapshot",
        "restore",
        str(database),
        f"--name={settings.name}",
        f"--initial-cluster={settings.name}={settings.peer_url}",
        f"--initial-cluster-token={token}",
        f"--initial-advertise-peer-urls={settings.peer_url}",
        f"--data-dir={settings.data}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"ETCDCTL_API": "3", "PATH": os.environ.get("PATH", "")},
    )
    try:
        async with asyncio.timeout(_RESTORE_WITHIN_S):
            output, _ = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode != 0:
        words = output.decode(errors="replace").strip().splitlines()[-1:]
        raise BackupError(f"{program} could not restore {database}: {' '.join(words)}")
