"""What is kept on nodes for work that others were taken for: no other work gets it. See docs/architecture/preemption.md."""

from msgspec.structs import replace

from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, Share
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.shares import fits


def without(node: Node, leaving: frozenset[int]) -> Node:
    """The node as it will be when these have left it."""
    holder = 0 if node.holder in leaving else node.holder
    tenures = tuple(tenure for tenure in node.tenures if tenure.number not in leaving)
    return replace(node, holder=holder, tenures=tenures, vcluster=node.vcluster if holder or tenures else "")


def fits_beside(state: State, node: Node, share: Share, vcluster: Vcluster, number: int) -> bool:
    """Whether the share fits on the node beside what is kept there for others, once their victims have left as well."""
    if not fits(node, share, vcluster.name):
        return False
    others = [eviction for eviction in state.evictions.kept_on(node.id) if eviction.number != number]
    if not others:
        return True
    leaving = frozenset(victim.number for eviction in others for victim in eviction.victims)
    later = without(node, leaving)
    cpus, memory_mb, gpus = later.free_share()
    for eviction in others:
        kept = next(each for each in eviction.shares if each.node == node.id)
        if share.whole or kept.whole or state.allocations[eviction.number].vcluster != vcluster.name:
            return False
        cpus, memory_mb, gpus = cpus - kept.cpus, memory_mb - kept.memory_mb, gpus - kept.gpus
    return share.cpus <= cpus and share.memory_mb <= memory_mb and share.gpus <= gpus


def check_placement(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> Rejected | None:
    """Neither victims nor third parties get what is kept for another allocation."""
    if not state.evictions.records:
        return None
    vcluster = state.vclusters[allocation.vcluster]
    for share in shares:
        if not fits_beside(state, state.nodes[share.node], share, vcluster, allocation.number):
            return Rejected(code="stale", message=f"node {share.node} is kept for other work")
    return None
