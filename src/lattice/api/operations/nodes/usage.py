"""What the runs of a node have of it, and what the node lacks: the node is asked."""

from msgspec import Struct

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.operations.nodes.nodes import GetNode, seen_work
from lattice.core.model.ids import allocation_id
from lattice.ports.nodes.agents import AgentUnreachable


class RunDevicesView(Struct, frozen=True, kw_only=True):
    """The CPUs and GPUs of a run; empty = it is bound to none, or has none."""

    id: str
    cpus: tuple[int, ...]
    gpus: tuple[int, ...]


class MissingFeatureView(Struct, frozen=True, kw_only=True):
    name: str
    reason: str


class NodeUsageView(Struct, frozen=True, kw_only=True):
    node: str
    runs: tuple[RunDevicesView, ...]
    missing: tuple[MissingFeatureView, ...]


async def node_usage(context: Context, request: GetNode) -> NodeUsageView:
    """Get the CPUs and GPUs that each run has on a node, and the features that the node lacks, with the reason."""
    node = context.state.nodes.get(request.id)
    if node is None:
        raise unknown("node", request.id, context.state.nodes)
    try:
        told = await context.services.links.measure_node(request.id)
    except AgentUnreachable as problem:
        raise ApiError("conflict", str(problem), hint="try again when the node is connected") from None
    sees_all = context.reach(Permission.CONTROL_NODES) is Reach.ALL
    seen = set(seen_work(context, node))
    runs = {use.key: use for use in told.groups if sees_all or use.key.number in seen}
    return NodeUsageView(
        node=request.id,
        runs=tuple(
            RunDevicesView(id=allocation_id(key.number), cpus=use.cpus, gpus=use.gpus)
            for key, use in sorted(runs.items(), key=lambda pair: (pair[0].number, pair[0].run))
        ),
        missing=tuple(MissingFeatureView(name=each.name, reason=each.reason) for each in told.missing),
    )
