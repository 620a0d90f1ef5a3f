"""Backups of the whole state, as the API asks for them. They are in directories of the servers.

Errors of this boundary::

    BackupError          it cannot be made, is damaged, or cannot be restored here; the text says which and why
    +- BackupMissing     there is no backup of that name
"""

from typing import Protocol

from msgspec import Struct


class BackupError(Exception):
    """The backup cannot be made, is damaged, or cannot be restored here; the text says which and why."""


class BackupMissing(BackupError):
    """There is no backup of that name."""


class BackupRecord(Struct, frozen=True, kw_only=True):
    """A backup as its manifest describes it: the state right after log entry `index`."""

    path: str
    created_at: str
    server: str
    index: int
    epoch: int
    digest: str
    size_bytes: int
    held_by: tuple[str, ...] = ()  # the servers on whose disks it lies


class Backups(Protocol):
    async def create(self, path: str, request_id: str = "") -> BackupRecord:
        """A new backup of the state as it is now, in the folder `path`, which may not exist yet; empty: one is named.

        A request that is repeated under its id is given the backup that it made.
        """
        ...

    async def list(self) -> list[BackupRecord]:
        """Those in the server's own folder, oldest first; damage is not looked for."""
        ...

    async def verify(self, path: str) -> BackupRecord:
        """The record of a backup of which every byte was checked and the state loaded; empty: the newest one."""
        ...

    async def fetch(self, path: str, server: str = "", to: str = "") -> BackupRecord:
        """A verified copy of a backup in the own folder of server `to`, empty: of this one, taken from `server`, empty: from any.

        Returns the one that is there already, if it is the same.
        """
        ...

    async def restore_at_start(self, path: str, actor: str) -> BackupRecord:
        """Checks the backup and notes that the next start of this server begins with it, and who asked for that."""
        ...
