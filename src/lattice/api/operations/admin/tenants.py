"""Tenants and their projects."""

import msgspec
from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError, unknown
from lattice.api.find.visibility import own_user_among
from lattice.api.operations.admin.tenant_limits import check_project_change, check_tenant_change
from lattice.core.machine.commands import SetProject, SetTenant
from lattice.core.model.site.tenants import Project, Tenant
from lattice.wire.admin.admin import (
    ProjectFields,
    ProjectView,
    TenantFields,
    TenantView,
    changed_project,
    changed_tenant,
    project_view,
    tenant_view,
)


class GetTenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class ProjectQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: str = ""


async def list_tenants(context: Context, request: NoParameters) -> Page[TenantView]:
    """List the caller's tenants; all tenants for administrators."""
    return Page(items=[_view(context, tenant) for tenant in _visible(context)])


async def get_tenant(context: Context, request: GetTenant) -> TenantView:
    """Get one tenant with its limits and current use."""
    return _view(context, find_tenant(context, request.name))


async def create_tenant(context: Context, request: TenantFields) -> TenantView:
    """Create a tenant."""
    tenant = changed_tenant(Tenant(name=request.name), request)
    await context.carry_out(SetTenant(tenant=tenant, create=True), request.request_id)
    return _view(context, context.state.tenants[request.name])


async def update_tenant(context: Context, request: TenantFields) -> TenantView:
    """Change the limits that the request contains."""
    # One at a time: each builds on what it read.
    async with context.services.administration:
        old = find_tenant(context, request.name)
        tenant = changed_tenant(old, request)
        check_tenant_change(context, old, tenant)
        await context.carry_out(SetTenant(tenant=tenant), request.request_id)
    return _view(context, context.state.tenants[request.name])


async def list_projects(context: Context, request: ProjectQuery) -> Page[ProjectView]:
    """List the projects of the caller's tenants, or of one tenant."""
    tenants = context.visible_tenants(Permission.READ_PROJECTS)
    if request.tenant:
        tenants = (context.chosen_tenant(Permission.READ_PROJECTS, request.tenant),)
    projects = context.state.projects
    return Page(items=[project_view(projects[key]) for key in sorted(projects) if tenants is None or key[0] in tenants])


async def create_project(context: Context, request: ProjectFields) -> ProjectView:
    """Create a project in a tenant."""
    tenant = _own_tenant(context, request.tenant)
    project = changed_project(Project(tenant=tenant, name=request.name), request)
    check_project_change(context, tenant, project)
    await context.carry_out(SetProject(project=project, create=True), request.request_id)
    return project_view(context.state.projects[tenant, request.name])


async def update_project(context: Context, request: ProjectFields) -> ProjectView:
    """Change the limits that the request contains."""
    tenant = _own_tenant(context, request.tenant)
    async with context.services.administration:
        old = context.state.projects.get((tenant, request.name))
        if old is None:
            known = [name for owner, name in context.state.projects if owner == tenant]
            raise unknown("project", request.name, known)
        project = changed_project(old, request)
        check_project_change(context, tenant, project)
        await context.carry_out(SetProject(project=project), request.request_id)
    return project_view(context.state.projects[tenant, request.name])


def find_tenant(context: Context, name: str) -> Tenant:
    """The tenant, if the caller may see it. Raises ApiError with those that may be seen."""
    visible = {tenant.name: tenant for tenant in _visible(context)}
    if name not in visible:
        raise unknown("tenant", name, visible)
    return visible[name]


def _own_tenant(context: Context, named: str) -> str:
    tenant = context.chosen_tenant(Permission.WRITE_PROJECTS, named)
    if not context.covers_tenant(Permission.WRITE_PROJECTS, tenant):
        raise ApiError("forbidden", f'you may not change projects of tenant "{tenant[:80]}"')
    return tenant


def _visible(context: Context) -> list[Tenant]:
    tenants = context.state.tenants
    return [tenants[name] for name in sorted(tenants) if context.covers_tenant(Permission.READ_TENANTS, name)]


def _view(context: Context, tenant: Tenant) -> TenantView:
    view = tenant_view(tenant, context.state.use_of(tenant.name))
    if context.covers_tenant(Permission.READ, tenant.name):
        return view
    # Who does not see the others' work is not told who they are.
    return msgspec.structs.replace(view, members=own_user_among(context, tenant.members))
