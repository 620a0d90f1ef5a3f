"""Judges the scheduler's proposals: what it saw may be gone. A refusal here is normal operation (code `stale`).

Nothing is taken on trust from the plan, not even what it computed from the same records a moment ago: nodes, limits and quotas are
checked again, so that a defect in the scheduler, or two leaders for a moment, can delay work but never give a node twice.
See docs/architecture/core.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import kept_nodes, lending, preparation, sensitive
from lattice.core.machine.rules.work import quotas, reservations
from lattice.core.machine.rules.work.deadlines import due_at
from lattice.core.machine.rules.work.tasks import materialise
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger, next_allocation_state
from lattice.core.model.capacity.lending import borrows
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import Node, NodeState, Share
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Allocation, Hold, Part, Request
from lattice.core.model.work.shares import fits, matches, share_of


def place(state: State, command: cmd.PlaceAllocation, at: int) -> tuple[ev.AnyEvent, ...] | Rejected:
    """A task that is still folded into its group becomes a record of its own first, in the same command."""
    found = materialise(state, command.number)
    if found is None:
        return _stale(f"{allocation_id(command.number)} does not exist any more")
    allocation, released = found
    refusal = (
        check_allocation(state, allocation, command, at)
        or check_count(allocation.request, command.shares)
        or check_nodes(state, allocation, command.shares)
        or kept_nodes.check_placement(state, allocation, command.shares)
        or reservations.check_placement(state, allocation, command.shares, at)
        or quotas.check_placement(state, allocation, command.shares)
        or sensitive.check_placement(state, allocation, command.shares)
    )
    if refusal is not None:
        return refusal
    launch = command.shares if allocation.per_node else preparation.started_on(state, allocation, command.shares)
    placed = ev.AllocationPlaced(
        number=command.number,
        run=command.run,
        shares=command.shares,
        parts=tuple(Part(node=share.node) for share in launch),
    )
    return (*released, placed)


def check_allocation(
    state: State, allocation: Allocation, command: cmd.PlaceAllocation | cmd.EvictAllocations, at: int
) -> Rejected | None:
    """Whether it still waits. The run makes a proposal good for one start: the same one, repeated later, is for a run that was."""
    label = allocation_id(allocation.number)
    if next_allocation_state(allocation.state, AllocationTrigger.PLACE) is None:
        return _stale(f"{label} is {allocation.state}")
    if command.run != allocation.run + 1:
        return _stale(f"{label} is at run {allocation.run}")
    if allocation.hold is not Hold.NONE or allocation.eligible_at > at:
        return _stale(f"{label} is held or not eligible yet")
    if allocation.waits_for:
        return _stale(f"{label} waits for other allocations")
    if 0 < due_at(allocation) <= at:
        return _stale(f"{label} could not end before its deadline")
    group = state.groups.get(allocation.group)
    if group is not None and group.concurrency and group.holding >= group.concurrency:
        return _stale(f"task group {allocation_id(group.number)} is at its concurrency limit")
    return None


def check_count(request: Request, shares: tuple[Share, ...]) -> Rejected | None:
    most = max(request.nodes, request.max_nodes)
    distinct = len({share.node for share in shares})
    if request.nodes <= len(shares) <= most and distinct == len(shares):
        return None
    return _stale(f"{len(shares)} shares on {distinct} nodes proposed, {request.nodes} to {most} requested")


def check_nodes(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> Rejected | None:
    """Whether every node may be given to it now."""
    vcluster = state.vclusters[allocation.vcluster]
    if not vcluster.is_up:
        return _stale(f'vCluster "{vcluster.name}" is down')
    for share in shares:
        node = state.nodes.get(share.node)
        if node is None or not may_have(allocation, vcluster, node, share) or not fits(node, share, vcluster.name):
            return _stale(f"node {share.node} cannot be given")
    return lending.check_placement(state, allocation, shares)


def may_have(allocation: Allocation, vcluster: Vcluster, node: Node, share: Share) -> bool:
    """Whether this share of the node suits the allocation, whatever holds the node now.

    The amounts are computed again: a share that differs from what the request means on this node is not given.
    """
    return (
        node.state is NodeState.READY
        and not node.shortfall
        and (not vcluster.nodes or node.id in vcluster.nodes or borrows(vcluster))  # which node, `lending` judges
        and matches(allocation.request, node.hardware, node.id)
        and share == share_of(allocation.request, node, vcluster.node_sharing)
    )


def _stale(message: str) -> Rejected:
    return Rejected(code="stale", message=message)
