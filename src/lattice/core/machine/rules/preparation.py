"""Which nodes of an allocation are prepared before it runs: those of its entrypoint, and others that have something to prepare.

A node has that when its site runs programs there or gives each run a directory, which it says with the feature `prologue`, or when
the work brings images or data that nodes mount. Such a node has a part without a process: a step finds there what the entrypoint has
on its own node, and when the work has ended the node is cleared before it is given back. While results are copied from the node of
the entrypoint, the others are cleared and given back already. See docs/architecture/launch-hooks.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.nodes.at_hand import IMAGE_FEATURES
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, Part, PartPhase

PROLOGUE = "prologue"
COPIES = "its work has ended, and its results are being copied"
BROUGHT = IMAGE_FEATURES | {"data", "scratch"}  # features that work asks for when nodes mount something for it


def started_on(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> tuple[Share, ...]:
    """The first node runs the entrypoint. Servers of the release before know parts of such nodes alone."""
    first, *others = shares
    if state.level < 2 or not others:
        return (first,)
    is_needed = not BROUGHT.isdisjoint(allocation.request.features)
    return (first, *(each for each in others if is_needed or PROLOGUE in state.nodes[each.node].hardware.features))


def leave(state: State, command: cmd.LeaveNodes) -> tuple[ev.PartChanged, ...]:
    """Late, repeated or from another node than that of the entrypoint, it is accepted and changes nothing."""
    allocation = state.allocations.get(command.number)
    if allocation is None or not is_leavable(allocation, command.run, command.node):
        return ()
    return tuple(
        ev.PartChanged(number=allocation.number, part=replace(part, phase=PartPhase.LEAVING, message=COPIES))
        for part in unneeded(allocation)
    )


def is_leavable(allocation: Allocation, run: int, node: str) -> bool:
    """Whether the word of the node, that its process has ended, may free others. A run that stops has ended them anyway."""
    if allocation.per_node or not allocation.stages_out or allocation.state is not AllocationState.RUNNING:
        return False
    return allocation.run == run and node == allocation.nodes[0] and bool(unneeded(allocation))


def unneeded(allocation: Allocation) -> list[Part]:
    """The parts that were there for steps of the entrypoint."""
    return [part for part in allocation.parts[1:] if part.phase is PartPhase.RUNNING]


def is_given_back(allocation: Allocation, before: Part, part: Part) -> bool:
    """Whether a prepared node whose part has ended, as `part` says, leaves now: the first node is still there, and saves results."""
    if not allocation.is_prepared_only(part.node) or not allocation.stages_out:
        return False
    if allocation.launched[0].phase is not PartPhase.RUNNING:
        return False
    is_ended = allocation.state is AllocationState.STOPPING and part.cause is Cause.CANCELLED
    return is_ended or before.phase is PartPhase.LEAVING
