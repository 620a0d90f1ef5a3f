"""Share arithmetic: what a request takes of a node, whether a node suits it, whether there is room.

The rules that check a placement and the plan that proposes one both ask here, so that they cannot disagree.
See docs/architecture/core.md.
"""

from lattice.core.model.nodes.nodes import Hardware, Node, Share
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request

DEFAULT_CPUS = 1


def takes_whole_nodes(request: Request, sharing: NodeSharing) -> bool:
    """True when the request gets nodes of its own, by the vCluster's setting or by its own request."""
    return sharing is NodeSharing.EXCLUSIVE or request.exclusive


def amounts(request: Request, hardware: Hardware) -> tuple[int, int, int]:
    """CPUs, megabytes and GPUs of a share on such a node; memory not asked for follows the CPUs."""
    cpus = request.cpus or DEFAULT_CPUS
    memory_mb = request.memory_mb or cpus * hardware.memory_mb // max(1, hardware.cpus)
    return cpus, memory_mb, request.gpus


def share_of(request: Request, node: Node, sharing: NodeSharing) -> Share:
    """What the request would hold of this node. Says nothing about whether it suits or fits."""
    if takes_whole_nodes(request, sharing):
        return Share(node=node.id)
    cpus, memory_mb, gpus = amounts(request, node.hardware)
    return Share(node=node.id, whole=False, cpus=cpus, memory_mb=memory_mb, gpus=gpus)


def fits(node: Node, share: Share, vcluster: str) -> bool:
    """True when an allocation of the vCluster may hold the share now, as far as the node's holders go."""
    if node.holder or node.claimant:
        return False
    if share.whole:
        return not node.tenures
    if node.tenures and node.vcluster != vcluster:
        return False
    cpus, memory_mb, gpus = node.free_share()
    return share.cpus <= cpus and share.memory_mb <= memory_mb and share.gpus <= gpus


def matches(request: Request, hardware: Hardware, node_id: str) -> bool:
    """True when an empty node of that kind and name satisfies every constraint of the request."""
    if request.node_list and node_id not in request.node_list:
        return False
    return node_id not in request.exclude and suits(request, hardware)


def suits(request: Request, hardware: Hardware) -> bool:
    """The part of `matches` that is the same for all nodes of one kind."""
    return (
        max(DEFAULT_CPUS, request.cpus) <= hardware.cpus
        and max(request.memory_mb, request.min_memory_mb) <= usable_memory_mb(request, hardware)
        and (hardware.unified_memory or not request.require_unified_memory)
        and request.gpus <= hardware.gpus
        and (not request.gpu_type or request.gpu_type == hardware.gpu_type)
        and set(request.features) <= set(hardware.features)
    )


def usable_memory_mb(request: Request, hardware: Hardware) -> int:
    """Expansion memory counts only for work that allows it, and never for shares."""
    return hardware.memory_mb + (hardware.cxl_memory_mb if request.allow_cxl_memory else 0)
