"""A running allocation gains or loses a node: one family of rules for replaced instances, scaling, and whatever takes nodes back.

What holds: a node is given only as a placement would give it (free, suitable, within every quota), never beyond what the request
allows; it is given back when its instance has ended, never before. See docs/architecture/services.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import kept_nodes, sensitive
from lattice.core.machine.rules.instances import leaving
from lattice.core.machine.rules.work import quotas, reservations
from lattice.core.machine.rules.work.placement import check_nodes
from lattice.core.machine.state import State
from lattice.core.machine.transitions import PartTrigger, next_part_phase
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import (
    ACTIVE,
    INSTANCE_SHIFT,
    Allocation,
    AllocationState,
    Part,
    PartPhase,
    StopIntent,
)

Events = tuple[ev.AnyEvent, ...]


def grow(state: State, command: cmd.GrowAllocation, at: int) -> Events | Rejected:
    """One more node, for an instance that left or, with `size`, beyond that."""
    found = _running(state, command.number, command.run)
    if isinstance(found, Rejected):
        return found
    most = found.most_nodes
    size = command.size or found.size
    if len(found.shares) >= size or size > most:
        message = f"{allocation_id(found.number)} has {len(found.shares)} nodes and should have {size}, at most {most}"
        return Rejected(code="stale", message=message)
    if command.size and found.state is AllocationState.CHECKPOINTING:
        return Rejected(code="stale", message=f"{allocation_id(found.number)} writes a checkpoint")
    shares = (command.share,)
    if command.share.node in found.nodes:
        return Rejected(code="stale", message=f"{allocation_id(found.number)} has node {command.share.node} already")
    refusal = (
        check_nodes(state, found, shares)
        or kept_nodes.check_placement(state, found, shares)
        or reservations.check_placement(state, found, shares, at)
        or quotas.check_growth(state, found, shares)
        or sensitive.check_placement(state, found, shares)
    )
    if refusal is not None:
        return refusal
    part = Part(node=command.share.node, seq=(found.last_instance + 1) << INSTANCE_SHIFT, joined_at=at)
    joined = ev.NodeJoined(number=found.number, share=command.share, part=part)
    wanted = (ev.InstancesWanted(number=found.number, wanted=size),) if command.size else ()
    return (*wanted, joined)


def shrink(state: State, command: cmd.ShrinkAllocation) -> Events | Rejected:
    """The node is given back when its instance has ended; the last instance is cancelled, not taken away."""
    found = _running(state, command.number, command.run)
    if isinstance(found, Rejected):
        return found
    part = next((each for each in found.parts if each.node == command.node), None)
    phase = None if part is None else next_part_phase(part.phase, PartTrigger.LEAVE)
    if part is None or phase is None:
        return Rejected(
            code="stale",
            message=f"{allocation_id(found.number)} has no instance on node {command.node} that could leave",
        )
    staying = [each for each in found.parts if each.node != part.node and each.phase is not PartPhase.LEAVING]
    if not staying and command.replace:
        return _moved(state, found, command.node)
    if not staying:
        return Rejected(
            code="conflict",
            message=f"node {command.node} has the last instance of {allocation_id(found.number)}",
            hint=f"`lattice cancel {allocation_id(found.number)}` ends it.",
        )
    if found.scaling is not None and not command.replace and found.size <= found.scaling.min_nodes:
        return Rejected(
            code="stale",
            message=f"{allocation_id(found.number)} has its minimum of {found.scaling.min_nodes} nodes",
        )
    if part.phase is PartPhase.LEAVING and not found.is_renewed(part.node):
        return ()
    left = leaving(found, part, command.reason)
    return left if command.replace else (ev.InstancesWanted(number=found.number, wanted=found.size - 1), *left)


def _moved(state: State, found: Allocation, node: str) -> Events | Rejected:
    """The last instance goes as the whole service: it is queued again and starts elsewhere."""
    if found.state is not AllocationState.RUNNING:
        return Rejected(code="stale", message=f"{allocation_id(found.number)} is {found.state}")
    if not state.nodes[node].drain_wanted:
        return Rejected(code="stale", message=f"node {node} is not drained")
    return (ev.AllocationStopping(number=found.number, intent=StopIntent.DRAIN, lost_node=node),)


def _running(state: State, number: int, run: int) -> Allocation | Rejected:
    found = state.allocations.get(number)
    if found is None or found.run != run or found.state not in ACTIVE or not found.has_instances:
        return Rejected(code="stale", message=f"{allocation_id(number)} does not run with instances at run {run}")
    return found
