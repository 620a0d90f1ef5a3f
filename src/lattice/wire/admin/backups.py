"""Backups as the API shows them."""

from msgspec import Struct


class BackupView(Struct, frozen=True, kw_only=True):
    """A backup of the state after log entry `index` of history `epoch`, made by `server`."""

    path: str
    created_at: str
    server: str
    index: int
    epoch: int
    digest: str
    size_bytes: int
    held_by: tuple[str, ...] = ()  # the servers on whose disks it lies


class RestoreView(Struct, frozen=True, kw_only=True):
    """The backup that the server restores at its next start."""

    path: str
    index: int
    message: str
