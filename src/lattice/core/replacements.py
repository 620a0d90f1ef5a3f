"""Nodes for instances of services that wait for one: a service that runs goes before work that has not begun.

The rule of GrowAllocation judges every proposal again. See docs/architecture/services.md.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from lattice.core.machine.commands import GrowAllocation
from lattice.core.machine.rules import lending
from lattice.core.machine.rules.kept_nodes import fits_beside
from lattice.core.machine.state import State
from lattice.core.model.capacity.lending import homes_of, lending_of
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
    waiting = [found for number in sorted(numbers) if (found := state.allocations.get(number)) and found.missing]
    candidates = open_nodes(state, connected) if waiting else []
    for allocation in waiting:
        for _ in range(allocation.missing):
            share = share_for(state, allocation, candidates, taken.union(excluded.get(allocation.vcluster, ())))
            if share is None:
                break
            taken.add(share.node)
            proposals.append(GrowAllocation(number=allocation.number, run=allocation.run, share=share))
    return proposals


def open_nodes(state: State, connected: Collection[str]) -> list[Node]:
    """Nodes on which an instance could start now, in the order in which they are taken when nothing else speaks for one."""
    found = [node for node in state.nodes.values() if _is_open(node) and not node.holder and node.id in connected]
    return sorted(found, key=lambda node: (len(node.id), node.id))


def share_for(
    state: State, allocation: Allocation, candidates: Iterable[Node], taken: Collection[str], *, is_more: bool = False
) -> Share | None:
    """Of the best of these nodes, as `open_nodes` has them: one that no instance left lately, in the group of most others.

    A node that is one more than it needs may be borrowed, from those who lend at once, if none of its own is free.
    """
    vcluster = state.vclusters[allocation.vcluster]
    own = frozenset(allocation.nodes)
    groups = Counter(state.nodes[name].hardware.group for name in own)
    # The first one of this rank is the best there can be.
    highest = (False, 0, -max(groups.values(), default=0))
    best: tuple[tuple[bool, int, int], Share] | None = None
    for node in candidates:
        is_foreign = bool(vcluster.nodes) and node.id not in vcluster.nodes
        if node.id in taken or node.id in own or (is_foreign and not (is_more and _is_lent_at_once(state, node.id))):
            continue
        rank = (is_foreign, _left_at(allocation, node.id), -groups[node.hardware.group])
        if best is not None and rank >= best[0]:
            continue
        share = share_of(allocation.request, node, vcluster.node_sharing)
        if not matches(allocation.request, node.hardware, node.id) or not fits_beside(
            state, node, share, vcluster, allocation.number
        ):
            continue
        if is_foreign and lending.check_placement(state, allocation, (share,)) is not None:
            continue
        best = (rank, share)
        if rank == highest:
            break
    return None if best is None else best[1]


def _is_open(node: Node) -> bool:
    return node.state is NodeState.READY and not node.shortfall


def _is_lent_at_once(state: State, node: str) -> bool:
    """How long a node was idle is known to plans alone."""
    homes = homes_of(node, state.vclusters.values())
    return bool(homes) and not any(lending_of(home).lend_after_s for home in homes)


def _left_at(allocation: Allocation, node: str) -> int:
    """0 = no instance left it lately; the node that one left last comes last."""
    return len(allocation.left) - allocation.left.index(node) if node in allocation.left else 0
