"""Nodes that are not heard through their collectors: they are asked themselves before they count as silent.

A collector asks and is answered, and what it does with the answers is its own affair: by fault or by malice it may hold one back. A node
with an open stream that it says nothing of reports itself for a while, and so is never taken for dead because of another.
"""

import logging
from collections.abc import Container, Iterable, Mapping

from lattice.core.model.nodes.observations import Observations

_log = logging.getLogger(__name__)

# Fraction of its time-out without a report; then it reports itself for this many time-outs.
OF_TIMEOUT = 0.75
TIMEOUTS = 5.0
SEARCHES_PER_TIMEOUT = 10


class UnreportedNodes:
    def __init__(self, observations: Observations) -> None:
        self._observations = observations
        self._known: dict[
            str, tuple[str, float]
        ] = {}  # through whom it was not heard, and until when it reports itself
        self._next_search = (
            0.0  # not before; put off when the server was held up, because what nodes said meanwhile is unread
        )
        self.count = 0  # all there ever were

    def __contains__(self, node: object) -> bool:
        return node in self._known

    @property
    def unheard_through(self) -> dict[str, str]:
        """Each of them, and the collector it was not heard through."""
        return {node: collector for node, (collector, _) in self._known.items()}

    def discard(self, node: str) -> None:
        self._known.pop(node, None)

    def clear(self) -> None:
        self._known.clear()

    def bear(self, now: float, timeout_s: float) -> None:
        """The server was held up: what came meanwhile is still unread."""
        self._next_search = now + OF_TIMEOUT * timeout_s

    def keep_those_of(self, collectors: Container[str], nodes: Container[str]) -> None:
        """Forgets those whose collector is none any more, and those that are not among the nodes."""
        self._known = {
            node: unreported_node
            for node, unreported_node in self._known.items()
            if unreported_node[0] in collectors and node in nodes
        }

    def search(self, now: float, timeout_s: float, given: Mapping[str, str], open_nodes: Container[str]) -> bool:
        """Whether nodes have gone astray, or may be gathered again; `given` says who is to be heard through whom."""
        if now < self._next_search:
            return False
        self._next_search = now + timeout_s / SEARCHES_PER_TIMEOUT
        over = [node for node, (_, until) in self._known.items() if now >= until]
        for node in over:
            del self._known[node]
        found = [node for node in self._unheard(now - OF_TIMEOUT * timeout_s, given) if node in open_nodes]
        for node in found:
            self._known[node] = given[node], now + TIMEOUTS * timeout_s
        if found:
            self.count += len(found)
            _log.warning("not heard through their collectors and asked themselves: %s", ", ".join(found[:10]))
        return bool(over or found)

    def _unheard(self, since: float, given: Mapping[str, str]) -> Iterable[str]:
        get, known = self._observations.get, self._known
        for node, collector in given.items():
            if collector and node not in known:
                observation = get(node)
                if observation is not None and observation.last_heard < since:
                    yield node
