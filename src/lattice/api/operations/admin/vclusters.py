"""vClusters: read, create, change."""

from collections import Counter

import msgspec
from msgspec import Struct

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context, NoParameters
from lattice.api.errors import unknown
from lattice.api.find.cursors import Page
from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import AllocationState
from lattice.wire.admin.admin import VclusterFields, VclusterView, changed_vcluster, vcluster_view


class GetVcluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


async def list_vclusters(context: Context, request: NoParameters) -> Page[VclusterView]:
    """The vClusters that the caller's tenants may use, or all."""
    pending, running = _counts(context)
    return Page(
        items=[
            _shown(context, vcluster, pending[name], running[name])
            for name, vcluster in sorted(_visible(context).items())
        ]
    )


async def get_vcluster(context: Context, request: GetVcluster) -> VclusterView:
    """One vCluster with its limits and what is in it."""
    return _view(context, request.name)


async def create_vcluster(context: Context, request: VclusterFields) -> VclusterView:
    """A new vCluster."""
    vcluster = changed_vcluster(Vcluster(name=request.name), request)
    await context.carry_out(SetVcluster(vcluster=vcluster, create=True), request.request_id)
    return _view(context, request.name)


async def update_vcluster(context: Context, request: VclusterFields) -> VclusterView:
    """Changes what the request names."""
    async with context.services.administration:
        vcluster = changed_vcluster(_find(context, request.name), request)
        await context.carry_out(SetVcluster(vcluster=vcluster), request.request_id)
    return _view(context, request.name)


def _find(context: Context, name: str) -> Vcluster:
    visible = _visible(context)
    if name not in visible:
        raise unknown("vCluster", name, visible)
    return visible[name]


def _sees_all(context: Context) -> bool:
    return Reach.ALL in (context.reach(Permission.READ_TENANTS), context.reach(Permission.CONTROL_NODES))


def _visible(context: Context) -> dict[str, Vcluster]:
    """A vCluster for other tenants alone is nobody else's business."""
    vclusters = context.state.vclusters
    if _sees_all(context):
        return vclusters
    own = set(context.identity.tenants)
    return {name: each for name, each in vclusters.items() if not each.tenants or own & set(each.tenants)}


def _shown(context: Context, vcluster: Vcluster, pending: int, running: int) -> VclusterView:
    view = vcluster_view(vcluster, pending=pending, running=running)
    if _sees_all(context):
        return view
    own = context.identity.tenants
    return msgspec.structs.replace(view, tenants=tuple(name for name in vcluster.tenants if name in own))


def _view(context: Context, name: str) -> VclusterView:
    vcluster = _find(context, name)
    pending, running = _counts(context)
    return _shown(context, vcluster, pending[name], running[name])


def _counts(context: Context) -> tuple[Counter[str], Counter[str]]:
    """Pending and running work by vCluster."""
    pending: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for record in context.state.allocations.values():
        if record.state is AllocationState.PENDING:
            pending[record.vcluster] += 1
        elif record.is_holding:
            running[record.vcluster] += 1
    for group in context.state.groups.values():
        pending[group.template.vcluster] += group.pending_count
    return pending, running
