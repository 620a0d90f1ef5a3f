"""Backups of the whole state."""

from lattice_sdk.models.backups import Backup, RestoreOrder
from lattice_sdk.models.records import Page
from lattice_sdk.operation import Steps, everything, given, operation, read, write

BACKUP_TIMEOUT_S = 3600.0


class BackupCalls:
    @operation
    def create_backup(self, path: str = "", *, request_id: str = "") -> Steps[Backup]:
        """Create a backup of the whole state, in a new directory on the leader."""
        return write("POST", "/admin/backup", Backup, {"path": path}, request_id, timeout_s=BACKUP_TIMEOUT_S)

    @operation
    def list_backups(self) -> Steps[list[Backup]]:
        """The backups of all servers that answer, oldest first."""
        return everything("/admin/backup", Page[Backup])

    @operation
    def verify_backup(self, path: str = "") -> Steps[Backup]:
        """The newest backup, or the one named, after the server checked every byte of it."""
        return read("/admin/backup/verify", Backup, given(path=path), timeout_s=BACKUP_TIMEOUT_S)

    @operation
    def fetch_backup(self, path: str, server: str = "", to: str = "", *, request_id: str = "") -> Steps[Backup]:
        """Copy a backup of another server into the backup directory of the leader, or of server `to`."""
        body = {"path": path, "server": server, "to": to}
        return write("POST", "/admin/backup/fetch", Backup, body, request_id, timeout_s=BACKUP_TIMEOUT_S)

    @operation
    def restore_backup(self, path: str, *, request_id: str = "") -> Steps[RestoreOrder]:
        """Lets the next start of the server begin with a backup."""
        return write("POST", "/admin/restore", RestoreOrder, {"path": path}, request_id, timeout_s=BACKUP_TIMEOUT_S)
