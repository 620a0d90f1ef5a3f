"""Backups of several servers, seen from one of them."""

import pytest

from lattice.ports.quorum.backups import BackupMissing, BackupRecord
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

    async def restore_at_start(self, path: str, actor: str) -> BackupRecord:
        return self.records[0]


class Others:
    def __init__(self, **servers: Own) -> None:
        self._servers = servers

    @property
    def others(self) -> list[str]:
        return list(self._servers)

    async def backups_of(self, name: str) -> list[BackupRecord]:
        return self._servers[name].records

    async def verify_backup_of(self, name: str, path: str) -> BackupRecord:
        return await self._servers[name].verify(path)


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
