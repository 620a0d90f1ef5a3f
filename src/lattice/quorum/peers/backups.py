"""The backups of all servers: listed together, verified on the server that holds them, and copied from one to another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Protocol

from msgspec import structs

from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord, Backups
from lattice.quorum.backup.service import is_named
from lattice.quorum.backup.transfer import Pieces


class OwnBackups(Backups, Protocol):
    """Those in the folder of this server."""

    async def receive(self, path: str, pieces: Pieces) -> BackupRecord: ...


class OtherServers(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def others(self) -> list[str]: ...

    async def backups_of(self, name: str) -> list[BackupRecord]: ...

    async def verify_backup_of(self, name: str, path: str) -> BackupRecord: ...

    def backup_file_of(self, name: str, path: str, file: str, offset: int) -> AsyncIterator[bytes]: ...

    async def let_fetch(self, name: str, path: str, server: str) -> BackupRecord: ...


class AllBackups:
    """Implements `Backups` over those of this server and of the others."""

    def __init__(self, own: OwnBackups, servers: OtherServers) -> None:
        self._own = own
        self._servers = servers

    async def create(self, path: str, request_id: str = "") -> BackupRecord:
        return await self._own.create(path, request_id)

    async def list(self) -> list[BackupRecord]:
        names = self._servers.others
        elsewhere = await asyncio.gather(*(self._servers.backups_of(name) for name in names))
        listed = [(self._servers.name, each) for each in await self._own.list()]
        listed += [(name, each) for name, found in zip(names, elsewhere, strict=True) for each in found]
        # Servers may share a folder, and one may have a copy of another's backup.
        found: dict[tuple[str, str, str], BackupRecord] = {}
        for name, each in listed:
            known = found.setdefault(key := (each.path, each.digest, each.created_at), each)
            holders = {name} if known is each else {*known.held_by, name}
            found[key] = structs.replace(known, held_by=tuple(sorted(holders)))
        return sorted(found.values(), key=lambda each: (each.created_at, each.index, each.server, each.path))

    async def verify(self, path: str) -> BackupRecord:
        try:
            return await self._own.verify(path or await self._newest())
        except BackupMissing:
            for name in self._servers.others:
                for each in await self._servers.backups_of(name):
                    if is_named(each, path or await self._newest()):
                        return await self._servers.verify_backup_of(name, each.path)
            raise

    async def fetch(self, path: str, server: str = "", to: str = "") -> BackupRecord:
        for name in (server, to):
            if name and name not in (self._servers.name, *self._servers.others):
                raise BackupMissing(f"there is no server {name[:80]!r}")
        if to not in ("", self._servers.name):
            return await self._servers.let_fetch(to, path, server)
        here = [each for each in await self._own.list() if is_named(each, path)]
        if here and server in ("", self._servers.name):
            return here[0]
        holder, found = await self._holder(path, [server] if server else self._servers.others)
        return await self._own.receive(found.path, partial(self._servers.backup_file_of, holder, found.path))

    async def restore_at_start(self, path: str, actor: str) -> BackupRecord:
        return await self._own.restore_at_start(path, actor)

    async def _holder(self, path: str, names: Sequence[str]) -> tuple[str, BackupRecord]:
        elsewhere = await asyncio.gather(*(self._servers.backups_of(name) for name in names))
        found = [
            (name, each)
            for name, listed in zip(names, elsewhere, strict=True)
            for each in listed
            if is_named(each, path)
        ]
        if not found:
            raise BackupMissing(f"no server that answers has a backup {path[:200]!r} in its folder")
        if len({(each.digest, each.created_at) for _, each in found}) > 1:
            holders = " and ".join(sorted(name for name, _ in found))
            raise BackupError(f"servers {holders} have different backups of that name; say from which one")
        return found[0]

    async def _newest(self) -> str:
        listed = await self.list()
        return listed[-1].path if listed else ""
