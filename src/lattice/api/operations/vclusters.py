"""vClusters: read, create, change."""

from collections import Counter

from msgspec import Struct

from lattice.api.context import Context, NoParameters
from lattice.api.cursors import Page
from lattice.api.errors import unknown
from lattice.core.machine.commands import SetVcluster
from lattice.core.model.allocations import AllocationState
from lattice.core.model.tenants import Vcluster
from lattice.wire.admin import VclusterFields, VclusterView, changed_vcluster, vcluster_view


class GetVcluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


async def list_vclusters(context: Context, request: NoParameters) -> Page[VclusterView]:
    """All vClusters."""
    pending, running = _counts(context)
    vclusters = context.state.vclusters
    return Page(
        items=[
            vcluster_view(vclusters[name], pending=pending[name], running=running[name]) for name in sorted(vclusters)
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
    vcluster = context.state.vclusters.get(name)
    if vcluster is None:
        raise unknown("vCluster", name, context.state.vclusters)
    return vcluster


def _view(context: Context, name: str) -> VclusterView:
    vcluster = _find(context, name)
    pending, running = _counts(context)
    return vcluster_view(vcluster, pending=pending[name], running=running[name])


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
