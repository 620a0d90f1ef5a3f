"""vClusters: read, create, change."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.api.find.visibility import find_vcluster, own_tenants_among, sees_all_vclusters, visible_vclusters
from lattice.api.operations.admin.tenant_limits import check_vcluster_change
from lattice.core.machine.commands import SetVcluster
from lattice.core.machine.rules.lending import borrowed_by, lent_by
from lattice.core.model.capacity.lending import homes_of
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.site.weights import FACTORS
from lattice.core.scheduler.score.profiles import profile_of
from lattice.wire.admin.admin import (
    LoanView,
    VclusterFields,
    VclusterView,
    changed_vcluster,
    new_vcluster,
    vcluster_view,
)
from lattice.wire.text.times import rfc3339


class GetVcluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


async def list_vclusters(context: Context, request: NoParameters) -> Page[VclusterView]:
    """List the vClusters that the caller's tenants may use; all of them for administrators."""
    pending, running = _counts(context)
    return Page(
        items=[
            _shown(context, vcluster, pending[name], running[name])
            for name, vcluster in sorted(visible_vclusters(context).items())
        ]
    )


async def get_vcluster(context: Context, request: GetVcluster) -> VclusterView:
    """Get one vCluster with its limits, nodes and current use."""
    return _view(context, request.name)


class WeightsView(Struct, frozen=True, kw_only=True):
    """The weights in force, which sum to 1; `order` is `fifo` where the queue does not go by them."""

    vcluster: str
    profile: str
    order: Literal["score", "fifo"]
    weights: dict[str, float]


async def vcluster_weights(context: Context, request: GetVcluster) -> WeightsView:
    """Get the scheduling weights that are in force in a vCluster: its own or, without any, those of its profile."""
    profile = profile_of({}, find_vcluster(context, request.name))
    return WeightsView(
        vcluster=request.name,
        profile=profile.name,
        order="fifo" if profile.order == "fifo" else "score",
        weights={name: round(weight, 6) for name, weight in zip(FACTORS, profile.weights, strict=True)},
    )


async def create_vcluster(context: Context, request: VclusterFields) -> VclusterView:
    """Create a vCluster."""
    vcluster = new_vcluster(request)
    _check_nodes(context, vcluster.nodes)
    await context.carry_out(SetVcluster(vcluster=vcluster, create=True), request.request_id)
    return _view(context, request.name)


async def update_vcluster(context: Context, request: VclusterFields) -> VclusterView:
    """Change the fields that the request contains."""
    async with context.services.administration:
        old = find_vcluster(context, request.name)
        vcluster = changed_vcluster(old, request)
        check_vcluster_change(context, old, vcluster)
        _check_nodes(context, [name for name in vcluster.nodes if name not in old.nodes])
        await context.carry_out(SetVcluster(vcluster=vcluster), request.request_id)
    return _view(context, request.name)


def _check_nodes(context: Context, names: Iterable[str]) -> None:
    """An unknown node would never give the vCluster anything. Raises ApiError."""
    strangers = [name for name in names if name not in context.state.nodes]
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise ApiError(
            "not_found",
            f'unknown node "{strangers[0][:64]}"{more}',
            hint="`lattice nodes` lists them; a node is known once its agent has registered or its file was imported",
        )


def _shown(context: Context, vcluster: Vcluster, pending: int, running: int) -> VclusterView:
    view = vcluster_view(vcluster, pending=pending, running=running)
    seen = frozenset(visible_vclusters(context))
    lending = msgspec.structs.replace(
        view.lending,
        lend_to=tuple(name for name in view.lending.lend_to if name in seen),
        lent=_loans(context, lent_by(context.state, vcluster), seen, vcluster),
        borrowed=_loans(context, borrowed_by(context.state, vcluster), seen, vcluster),
    )
    view = msgspec.structs.replace(view, lending=lending)
    if sees_all_vclusters(context):
        return view
    return msgspec.structs.replace(view, tenants=own_tenants_among(context, vcluster.tenants))


def _loans(context: Context, nodes: list[str], seen: frozenset[str], vcluster: Vcluster) -> tuple[LoanView, ...]:
    """The nodes with the other vCluster that has a part in it, where the caller may know of that."""
    state, found = context.state, []
    for name in nodes:
        node = state.nodes[name]
        homes = [home.name for home in homes_of(name, state.vclusters.values())]
        other = node.vcluster if node.vcluster != vcluster.name else next(iter(homes), "")
        since = min((state.allocations[number].started_at for number in node.holders()), default=0)
        found.append(LoanView(node=name, vcluster=other if other in seen else "", since=rfc3339(since)))
    return tuple(found)


def _view(context: Context, name: str) -> VclusterView:
    vcluster = find_vcluster(context, name)
    pending, running = _counts(context)
    return _shown(context, vcluster, pending[name], running[name])


def _counts(context: Context) -> tuple[Counter[str], Counter[str]]:
    """Pending and running work by vCluster."""
    pending: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for record in context.state.allocations.values():
        if record.is_waiting:
            pending[record.vcluster] += 1
        elif record.is_holding:
            running[record.vcluster] += 1
    for group in context.state.groups.values():
        pending[group.template.vcluster] += group.pending_count
    return pending, running
