"""Containers that steps named: which nodes keep some for which run, so that they hear when it is over.

A node knows when a run ends whose part it has. On the other nodes of an allocation nothing of it may be left but these containers.
A new leader learns of them when the nodes register, and a node that was away hears in its Welcome which runs hold it.
"""

from collections.abc import Callable, Iterable

from lattice.core.machine.state import State
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.steps import DropContainersOrder, LaunchRequest, StepRefused

CONTAINER = "container"
STEP_CONTAINER = "step_container"  # feature of a node whose steps have containers of their own
NAMED_NODES = 5


def check_containers(state: State, nodes: Iterable[str], request: LaunchRequest) -> None:
    """Raises StepRefused where a node of the step cannot make its container."""
    if request.container is None:
        return
    features = {node: state.nodes[node].hardware.features for node in nodes}
    lacking = [node for node, has in features.items() if STEP_CONTAINER not in has]
    if not lacking:
        return
    more = f" and {len(lacking) - NAMED_NODES} more" if len(lacking) > NAMED_NODES else ""
    is_old = any(CONTAINER in features[node] for node in lacking)
    what = "cannot give a step a container of its own yet" if is_old else "no container runtime"
    raise StepRefused(
        "infeasible",
        f"{'node' if len(lacking) == 1 else 'nodes'} {', '.join(lacking[:NAMED_NODES])}{more}: {what}",
        hint="leave them out with --nodelist, or ask the operators: `lattice nodes ID` says what a node lacks",
    )


class KeptContainers:
    """`order` sends to a node; what does not arrive there is made up for when it registers again."""

    def __init__(self, order: Callable[[str, DropContainersOrder], bool]) -> None:
        self._order = order
        self._nodes: dict[int, dict[RunKey, set[str]]] = {}

    def launched(self, key: RunKey, nodes: Iterable[str], request: LaunchRequest) -> None:
        if request.container is not None and request.container.name:
            self._nodes.setdefault(key.number, {}).setdefault(key, set()).update(nodes)

    def registered(self, node: str, keys: Iterable[RunKey], held_by: Iterable[RunKey]) -> None:
        """Of runs that do not hold the node the Welcome tells it."""
        for key in set(keys).intersection(held_by):
            self._nodes.setdefault(key.number, {}).setdefault(key, set()).add(node)

    def ended(self, number: int) -> None:
        """The present run of the allocation is over, and with it all before."""
        for key, nodes in self._nodes.pop(number, {}).items():
            for node in sorted(nodes):
                self._order(node, DropContainersOrder(key=key))

    def clear(self) -> None:
        self._nodes.clear()
