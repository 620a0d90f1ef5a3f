"""Nodes for instances of services that wait for one: a service that runs goes before work that has not begun.

The rule of GrowAllocation judges every proposal again. See docs/architecture/services.md.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from lattice.core.machine.commands import GrowAllocation
from lattice.core.machine.rules.kept_nodes import fits_beside
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, NodeState, Share
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.shares import matches, share_of

NONE_EXCLUDED: Mapping[str, Collection[str]] = {}


def replacements(
    state: State,
    numbers: Iterable[int],
    connected: Collection[str],
    excluded: Mapping[str, Collection[str]] = NONE_EXCLUDED,
) -> list[GrowAllocation]:
    """A proposal for each missing instance that can have a node now; each node is proposed once."""
    proposals: list[GrowAllocation] = []
    taken: set[str] = set()
    for number in sorted(numbers):
        allocation = state.allocations.get(number)
        if allocation is None:
            continue
        for _ in range(allocation.missing):
            share = share_for(state, allocation, connected, taken.union(excluded.get(allocation.vcluster, ())))
            if share is None:
                break
            taken.add(share.node)
            proposals.append(GrowAllocation(number=number, run=allocation.run, share=share))
    return proposals


def share_for(state: State, allocation: Allocation, connected: Collection[str], taken: Collection[str]) -> Share | None:
    """Of the best node: one that no instance left lately, in the group of most others."""
    vcluster = state.vclusters[allocation.vcluster]
    own = frozenset(allocation.nodes)
    groups = Counter(state.nodes[name].hardware.group for name in own)
    best: tuple[tuple[int, int, int, str], Share] | None = None
    for node in state.nodes.values():
        if node.id in own or node.id in taken or node.id not in connected or not _is_open(node):
            continue
        if vcluster.nodes and node.id not in vcluster.nodes:
            continue
        share = share_of(allocation.request, node, vcluster.node_sharing)
        if not matches(allocation.request, node.hardware, node.id) or not fits_beside(
            state, node, share, vcluster, allocation.number
        ):
            continue
        rank = (_left_at(allocation, node.id), -groups[node.hardware.group], len(node.id), node.id)
        if best is None or rank < best[0]:
            best = (rank, share)
    return None if best is None else best[1]


def _is_open(node: Node) -> bool:
    return node.state is NodeState.READY and not node.shortfall


def _left_at(allocation: Allocation, node: str) -> int:
    """0 = no instance left it lately; the node that one left last comes last."""
    return len(allocation.left) - allocation.left.index(node) if node in allocation.left else 0
