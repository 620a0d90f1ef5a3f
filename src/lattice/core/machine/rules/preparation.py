"""Which nodes of an allocation are prepared before it runs: those of its entrypoint, and others that have something to prepare.

A node has that when its site runs programs there or gives each run a directory, which it says with the feature `prologue`, or when
the work brings images or data that nodes mount. Such a node has a part without a process: a step finds there what the entrypoint has
on its own node, and when the work has ended the node is cleared before it is given back. See docs/architecture/launch-hooks.md.
"""

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation

PROLOGUE = "prologue"
BROUGHT = frozenset(
    {"uenv", "container", "data", "scratch"}
)  # features that work asks for when nodes mount something for it


def started_on(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> tuple[Share, ...]:
    """The first node runs the entrypoint. Servers of the release before know parts of such nodes alone."""
    first, *others = shares
    if state.level < 2 or not others:
        return (first,)
    is_needed = not BROUGHT.isdisjoint(allocation.request.features)
    return (first, *(each for each in others if is_needed or PROLOGUE in state.nodes[each.node].hardware.features))
