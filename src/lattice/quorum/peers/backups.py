"""The backups of all servers: listed together, and verified on the server that holds them."""

import asyncio
from typing import Protocol

from lattice.ports.quorum.backups import BackupMissing, BackupRecord, Backups


class OtherServers(Protocol):
    @property
    def others(self) -> list[str]: ...

    async def backups_of(self, name: str) -> list[BackupRecord]: ...

    async def verify_backup_of(self, name: str, path: str) -> BackupRecord: ...


class AllBackups:
    """Implements `Backups` over those of this server and of the others."""

    def __init__(self, own: Backups, servers: OtherServers) -> None:
        self._own = own
        self._servers = servers

    async def create(self, path: str, request_id: str = "") -> BackupRecord:
        return await self._own.create(path, request_id)

    async def list(self) -> list[BackupRecord]:
        elsewhere = await asyncio.gather(*(self._servers.backups_of(name) for name in self._servers.others))
        # Servers may share a folder.
        found = {(each.path, each.digest, each.created_at): each for each in sum(elsewhere, await self._own.list())}
        return sorted(found.values(), key=lambda each: (each.created_at, each.index, each.server, each.path))

    async def verify(self, path: str) -> BackupRecord:
        try:
            return await self._own.verify(path or await self._newest())
        except BackupMissing:
            for name in self._servers.others:
                for each in await self._servers.backups_of(name):
                    if path and path in (each.path, each.path.rpartition("/")[2]):
                        return await self._servers.verify_backup_of(name, each.path)
                    if not path and each.path == await self._newest():
                        return await self._servers.verify_backup_of(name, each.path)
            raise

    async def restore_at_start(self, path: str, actor: str) -> BackupRecord:
        return await self._own.restore_at_start(path, actor)

    async def _newest(self) -> str:
        listed = await self.list()
        return listed[-1].path if listed else ""
