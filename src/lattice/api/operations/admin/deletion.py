"""Deletes tenants, projects, vClusters and nodes that nothing uses."""

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.operations.admin.reservations import Deleted
from lattice.core.machine.commands import DeleteRecord
from lattice.core.model.site.deletion import Deletable


class DropRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    request_id: str = ""


class DropProject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: str
    name: str
    request_id: str = ""


class DropNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    request_id: str = ""


async def delete_tenant(context: Context, request: DropRecord) -> Deleted:
    """Delete a tenant without work, projects and reservations; its past work stays in the history."""
    _keep_default("tenant", request.name, context.services.default_tenant)
    return await _delete(context, DeleteRecord(what=Deletable.TENANT, name=request.name), request.request_id)


async def delete_project(context: Context, request: DropProject) -> Deleted:
    """Delete a project without work; its past work stays in the history."""
    tenant = context.chosen_tenant(Permission.WRITE_PROJECTS, request.tenant)
    if not context.covers_tenant(Permission.WRITE_PROJECTS, tenant):
        raise ApiError("forbidden", f'you may not change projects of tenant "{tenant[:80]}"')
    command = DeleteRecord(what=Deletable.PROJECT, name=request.name, tenant=tenant)
    return await _delete(context, command, request.request_id)


async def delete_vcluster(context: Context, request: DropRecord) -> Deleted:
    """Delete a vCluster without work; its baseline goes with it."""
    _keep_default("vCluster", request.name, context.services.default_vcluster)
    return await _delete(context, DeleteRecord(what=Deletable.VCLUSTER, name=request.name), request.request_id)


async def delete_node(context: Context, request: DropNode) -> Deleted:
    """Delete a node that is out of service and whose agent is stopped; it is a stranger if it comes back."""
    heard = context.services.observations.get(request.id)
    if request.id in context.state.nodes and heard is not None and heard.connected:
        raise ApiError(
            "conflict",
            f"the agent of node {request.id} is connected",
            hint="Stop the agent first; it would register again at once.",
        )
    return await _delete(context, DeleteRecord(what=Deletable.NODE, name=request.id), request.request_id)


def _keep_default(what: str, name: str, default: str) -> None:
    if name == default:
        raise ApiError(
            "conflict",
            f'{what} "{name}" is the default and stays',
            hint="Work that names none goes there; the server's configuration says which it is.",
        )


async def _delete(context: Context, command: DeleteRecord, request_id: str) -> Deleted:
    async with context.services.administration:
        await context.carry_out(command, request_id)
    return Deleted(name=command.name)
