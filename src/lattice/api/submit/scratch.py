"""Whether the nodes can give a submission the scratch that it asks for."""

import asyncio
from collections.abc import Sequence

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.defaults import PreparedSubmission
from lattice.api.submit.site_images import add_feature
from lattice.core.model.nodes.nodes import Node
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.wire.text.problems import BadField
from lattice.wire.work.payloads import decode_work
from lattice.wire.work.submissions import DISK_SCRATCH, MEMORY_SCRATCH, SCRATCH_FEATURE

MAX_ASKED = 3  # nodes that are asked why they cannot


async def settle_scratch(context: Context, prepared: PreparedSubmission) -> None:
    """Depends on the vCluster that was chosen. Raises BadField and ApiError."""
    size_mb = decode_work(prepared.command.payload).scratch_mb
    nodes = context.state.nodes
    if not size_mb or not nodes:
        return
    if not any(SCRATCH_FEATURE in node.hardware.features for node in nodes.values()):
        told = await asyncio.gather(*(_why_not(context, name) for name in sorted(nodes)[:MAX_ASKED]))
        why = "; ".join(filter(None, told))
        raise ApiError(
            "infeasible",
            f"scratch: no node of this cluster can give it a size{why and f': {why}'}",
            hint="leave the size out, or ask the operators for nodes that can",
        )
    found = context.state.vclusters.get(prepared.command.vcluster)
    members = found.nodes if found is not None and found.nodes else nodes
    able = [nodes[name] for name in members if name in nodes and SCRATCH_FEATURE in nodes[name].hardware.features]
    _check_disks(able, size_mb)
    _keep_from_memory(prepared, able, size_mb)


async def _why_not(context: Context, node: str) -> str:
    """Empty where it does not say so."""
    try:
        told = await context.services.links.measure_node(node)
    except AgentUnreachable:
        return ""
    return next((f"{node}: {each.reason}" for each in told.missing if each.name == SCRATCH_FEATURE), "")


def _check_disks(able: Sequence[Node], size_mb: int) -> None:
    """More than any node has is refused, where they say how much that is."""
    sizes = [node.figures.tmp_disk_mb if node.figures is not None else 0 for node in able]
    if all(sizes) and size_mb > max(sizes, default=size_mb):
        raise BadField(
            "scratch",
            "no node has as much",
            current=f"{size_mb:,} MB",
            limit=f"{max(sizes):,} MB, the largest disk for scratch",
        )


def _keep_from_memory(prepared: PreparedSubmission, able: Sequence[Node], size_mb: int) -> None:
    """Where scratch lies in memory it counts as memory of the work, so it cannot be more than that."""
    memory_mb = prepared.command.request.memory_mb
    in_memory = [node for node in able if MEMORY_SCRATCH in node.hardware.features]
    if not 0 < memory_mb < size_mb or not in_memory:
        return
    if len(in_memory) == len(able):
        raise BadField(
            "scratch",
            "is more than the memory of the work, in which it lies on these nodes",
            current=f"{size_mb:,} MB",
            limit=f"{memory_mb:,} MB, the memory of the work on each node",
            hint="ask for more memory, or for less scratch",
        )
    add_feature(prepared, DISK_SCRATCH)
