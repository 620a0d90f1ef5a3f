"""Probes Down nodes from time to time, to see whether an agent answers.

Agents look for their servers themselves and register as soon as they find one; what a probe adds is the difference between a node that is
gone and one whose agent runs but cannot reach the servers, which an operator should investigate.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from lattice.control.loop import Guard, keep_turning
from lattice.core.model.nodes.nodes import NodeState
from lattice.ports.quorum.replica import Replica
from lattice.wire.agents.collecting import Alive

_log = logging.getLogger(__name__)

LOOP = "probing"
EVERY_S = 60.0
CONCURRENCY = 16
WITHIN_S = 3.0

Ask = Callable[[str, float], Awaitable[Alive | None]]


class Probing:
    """`addresses` is where each node's agent listened when it was last heard."""

    def __init__(self, replica: Replica, addresses: Mapping[str, str], ask: Ask, *, every_s: float = EVERY_S) -> None:
        self._replica = replica
        self._addresses = addresses
        self._ask = ask
        self._every_s = every_s
        self._guard = Guard(LOOP)
        self._cut_off: set[str] = set()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await asyncio.sleep(self._every_s)
        await self.probe()

    async def probe(self) -> frozenset[str]:
        """Nodes that are Down and whose agent answers."""
        nodes = self._replica.state.nodes
        down = [
            name
            for name, address in self._addresses.items()
            if address and name in nodes and nodes[name].state is NodeState.DOWN
        ]
        gate = asyncio.Semaphore(CONCURRENCY)
        answers = await asyncio.gather(*(self._probe(name, gate) for name in down))
        found = {name: alive for name, alive in zip(down, answers, strict=True) if alive is not None}
        # One that has a server is Down for another reason, which is known.
        cut_off = {name for name, alive in found.items() if not alive.is_served}
        for name in sorted(cut_off - self._cut_off):
            _log.warning(
                "the node is Down and its agent answers: is its way to the servers open?", extra={"node_id": name}
            )
        self._cut_off = cut_off
        self.counts["answered"] += len(found)
        self.counts["silent"] += len(down) - len(found)
        return frozenset(found)

    async def _probe(self, name: str, gate: asyncio.Semaphore) -> Alive | None:
        async with gate:
            with self._guard.item(name):
                answer = await self._ask(self._addresses[name], WITHIN_S)
                # Another machine may have the address by now.
                return answer if answer is not None and answer.node == name else None
        return None
