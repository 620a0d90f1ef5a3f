"""Backups of the cluster's state, as a server describes them."""

from msgspec import Struct


class Backup(Struct, frozen=True, kw_only=True):
    """The state right after log entry `index`, in a directory of the servers that hold it."""

    path: str
    created_at: str = ""
    server: str = ""
    index: int = 0
    epoch: int = 0
    digest: str = ""
    size_bytes: int = 0
    held_by: tuple[str, ...] = ()


class RestoreOrder(Struct, frozen=True, kw_only=True):
    """The backup that the server restores at its next start."""

    path: str
    index: int = 0
    message: str = ""
