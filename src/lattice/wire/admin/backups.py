"""Backups as the API shows them."""

from msgspec import Struct


class BackupView(Struct, frozen=True, kw_only=True):
    """A backup: the state right after log entry `index` of the history `epoch`, in a folder of `server`."""

    path: str
    created_at: str
    server: str
    index: int
    epoch: int
    digest: str
    size_bytes: int


class RestoreView(Struct, frozen=True, kw_only=True):
    """What the next start of the server begins with."""

    path: str
    index: int
    message: str
