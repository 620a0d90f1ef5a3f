"""Nodes whose tasks of a step have ended while others still run: the others must not wait for them in a fence.

Most steps end everywhere within a moment, and nothing is said of these.
"""

from collections.abc import Callable

from lattice.control.steps.live import LiveStep
from lattice.ports.nodes.steps import NodesEndedOrder

AFTER_S = 1.0


class Leavers:
    """Which steps have such nodes, and when the others learn it."""

    def __init__(self) -> None:
        # By number and step: when the order is sent. One entry covers all nodes that are over by then, and leaves with the order.
        self._due: dict[tuple[int, int], float] = {}

    def note(self, live: LiveStep, now_s: float) -> bool:
        """A node of the step is over; whether there is something to wait for now."""
        if not live.open_nodes or live.is_ending or live.key in self._due:
            return False
        self._due[live.key] = now_s + AFTER_S
        return True

    @property
    def next_s(self) -> float | None:
        return min(self._due.values(), default=None)

    def clear(self) -> None:
        self._due.clear()

    def tell(
        self,
        now_s: float,
        find: Callable[[tuple[int, int]], LiveStep | None],
        send: Callable[[str, NodesEndedOrder], bool],
    ) -> None:
        """The first node learns it, which all fences pass; if it is over itself, all others do."""
        for key in [key for key, when in self._due.items() if when <= now_s]:
            del self._due[key]
            live = find(key)
            if live is None or live.plan is None or live.is_ending:
                continue
            nodes = live.plan.layout.nodes
            places = tuple(place for place, node in enumerate(nodes) if node not in live.open_nodes)
            for node in nodes[:1] if nodes[0] in live.open_nodes else sorted(live.open_nodes):
                send(node, NodesEndedOrder(key=live.step_key, places=places))
