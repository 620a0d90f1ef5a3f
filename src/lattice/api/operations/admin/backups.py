"""Backups of the whole state: made by the leader, listed, verified and fetched wherever they lie, restored at the next start."""

from msgspec import Struct, structs

from lattice.api.answers import Page
from lattice.api.auditing import record
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.core.model.site.audit import AuditOutcome
from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord, Backups
from lattice.ports.site.audit import AuditError
from lattice.wire.admin.backups import BackupView, RestoreView


class CreateBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` is a new directory on the leader; if empty, the leader creates one in its backup directory."""

    path: str = ""
    request_id: str = ""


class VerifyBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str = ""  # empty: the newest one of the server's own folder


class FetchBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` is a path that the list shows, or its last part."""

    path: str
    server: str = ""  # from which it is taken; empty: any that has it
    to: str = ""  # into whose folder it is copied; empty: the leader's
    request_id: str = ""


class RestoreBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    request_id: str = ""


async def create_backup(context: Context, request: CreateBackup) -> BackupView:
    """Create a backup of the current state."""
    await record(context, "backup.create", request.path, outcome=AuditOutcome.BEGUN)
    try:
        return _view(await _service(context).create(request.path, request.request_id or context.request_id))
    except BackupError as error:
        raise _refused(error) from error


async def list_backups(context: Context, request: NoParameters) -> Page[BackupView]:
    """List the backups on all servers, oldest first."""
    return Page(items=[_view(found) for found in await _service(context).list()])


async def verify_backup(context: Context, request: VerifyBackup) -> BackupView:
    """Verify a backup: check every byte and load its state."""
    try:
        return _view(await _service(context).verify(request.path))
    except BackupError as error:
        raise _refused(error) from error


async def fetch_backup(context: Context, request: FetchBackup) -> BackupView:
    """Copy a backup from one server to the leader, or to the server named by `to`, and verify the copy."""
    await record(context, "backup.fetch", request.path, outcome=AuditOutcome.BEGUN)
    try:
        return _view(await _service(context).fetch(request.path, request.server, request.to))
    except BackupError as error:
        raise _refused(error) from error


async def restore_backup(context: Context, request: RestoreBackup) -> RestoreView:
    """Verify a backup and restore it at the next start of this server."""
    await record(context, "backup.restore", request.path, outcome=AuditOutcome.BEGUN)
    try:
        found = await _service(context).restore_at_start(request.path, context.user)
        if context.services.audit is not None:
            await context.services.audit.seal()
    except AuditError as error:
        raise ApiError("unavailable", str(error), hint="try again") from error
    except BackupError as error:
        raise _refused(error) from error
    message = (
        f"restart server {context.services.server_name}: it begins with this backup, and keeps what it has now aside"
    )
    return RestoreView(path=found.path, index=found.index, message=message)


def _service(context: Context) -> Backups:
    service = context.services.backups
    if service is None:
        raise ApiError("conflict", "this server keeps its log in memory: there is nothing to back up")
    return service


def _view(found: BackupRecord) -> BackupView:
    return BackupView(**structs.asdict(found))


def _refused(error: BackupError) -> ApiError:
    if isinstance(error, BackupMissing):
        return ApiError("not_found", str(error), hint="lattice admin backup list")
    return ApiError("conflict", str(error))
