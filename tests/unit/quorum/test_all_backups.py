"""Backups of several servers, seen from one of them."""

from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord
from lattice.quorum.backup.transfer import Pieces
from lattice.quorum.peers.backups import AllBackups
from lattice.testing import scenario


def record(server: str, hour: int) -> BackupRecord:
    return BackupRecord(
        path=f"/data/{server}/backup-{hour}",
        created_at=f"2030-01-01T{hour:02d}:00:00Z",
        server=server,
        index=hour,
        epoch=1,
        digest="d",
        size_bytes=1,
    )


class Own:
    """The backups of one server."""

    def __init__(self, *records: BackupRecord) -> None:
        self.records = list(records)
        self.verified: list[str] = []

    async def create(self, path: str, request_id: str = "") -> BackupRecord:
        return self.records[0]

    async def list(self) -> list[BackupRecord]:
        return self.records

    async def verify(self, path: str) -> BackupRecord:
        self.verified.append(path)
        for each in self.records:
            if each.path == path:
                return each
        raise BackupMissing(f"{path}: no such backup")

    async def fetch(self, path: str, server: str = "", to: str = "") -> BackupRecord:
        raise BackupMissing(f"{path}: asked of one server alone")

    async def receive(self, path: str, pieces: Pieces) -> BackupRecord:
        told = b"".join([piece async for piece in pieces("manifest.json", 3)]).decode()
        self.records.append(structs.replace(self.records[0], path=f"/here/{path.rpartition('/')[2]}", digest=told))
        return self.records[-1]

    async def restore_at_start(self, path: str, actor: str) -> BackupRecord:
        return self.records[0]


class Others:
    def __init__(self, **servers: Own) -> None:
        self._servers = servers

    @property
    def name(self) -> str:
        return "s1"

    @property
    def others(self) -> list[str]:
        return list(self._servers)

    async def backups_of(self, name: str) -> list[BackupRecord]:
        return self._servers[name].records

    async def verify_backup_of(self, name: str, path: str) -> BackupRecord:
        return await self._servers[name].verify(path)

    async def backup_file_of(self, name: str, path: str, file: str, offset: int) -> AsyncIterator[bytes]:
        yield f"{name} {path} {file} {offset}".encode()

    async def let_fetch(self, name: str, path: str, server: str) -> BackupRecord:
        return structs.replace(self._servers[name].records[0], path=f"{path} from {server}")


@scenario
async def test_all_are_listed_whoever_leads_and_checked_where_they_lie() -> None:
    elsewhere = Own(record("s3", 1), record("s3", 3))
    shared = record("s1", 2)
    backups = AllBackups(Own(shared), Others(s2=Own(shared), s3=elsewhere))
    assert [each.index for each in await backups.list()] == [1, 2, 3]
    assert (await backups.verify(shared.path)).server == "s1"
    assert (await backups.verify("/data/s3/backup-1")).server == "s3"
    assert (await backups.verify("backup-3")).index == 3
    assert (await backups.verify("")).index == 3  # the newest of all
    assert elsewhere.verified == ["/data/s3/backup-1", "/data/s3/backup-3", "/data/s3/backup-3"]
    with pytest.raises(BackupMissing):
        await backups.verify("/nowhere")


@scenario
async def test_a_copy_is_listed_once_with_all_who_hold_it() -> None:
    shared = record("s1", 2)
    backups = AllBackups(Own(shared), Others(s2=Own(shared), s3=Own(record("s3", 3))))
    assert [each.held_by for each in await backups.list()] == [("s1", "s2"), ("s3",)]


@scenario
async def test_a_backup_is_fetched_from_the_server_that_has_it() -> None:
    own = Own(record("s1", 2))
    backups = AllBackups(own, Others(s2=Own(record("s2", 1)), s3=Own(record("s3", 3))))
    assert await backups.fetch("backup-2") is own.records[0]  # here already
    fetched = await backups.fetch("/data/s3/backup-3")
    assert (fetched.path, fetched.digest) == ("/here/backup-3", "s3 /data/s3/backup-3 manifest.json 3")
    assert (await backups.fetch("backup-1", to="s1")).digest == "s2 /data/s2/backup-1 manifest.json 3"
    assert (await backups.fetch("backup-1", "s2", "s3")).path == "backup-1 from s2"


@scenario
async def test_a_backup_that_cannot_be_fetched_is_refused_by_name() -> None:
    twice = structs.replace(record("s3", 1), path="/data/s3/backup-1", digest="other")
    backups = AllBackups(Own(record("s1", 2)), Others(s2=Own(record("s2", 1)), s3=Own(twice)))
    with pytest.raises(BackupError, match="s2 and s3 have different backups of that name"):
        await backups.fetch("backup-1")
    assert (await backups.fetch("backup-1", "s3")).digest.startswith("s3 ")
    for words in (("backup-9",), ("",), ("backup-2", "s3"), ("backup-1", "s9"), ("backup-1", "", "s9")):
        with pytest.raises(BackupMissing):
            await backups.fetch(*words)
