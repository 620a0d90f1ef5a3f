"""The part of the state that holds evictions: who is taken for whom, and the nodes that are kept meanwhile.

Written by `evolve` and the codec alone. See docs/architecture/preemption.md.
"""

from lattice.core.machine.digest import Digest
from lattice.core.model.work.evictions import Eviction, VictimPhase


class EvictionRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.records: dict[int, Eviction] = {}  # by the number of the allocation that nodes are kept for
        # Derived: for whom a victim is taken that still holds something, and for whom something of a node is kept.
        self.takers: dict[int, int] = {}
        self.keepers: dict[str, tuple[int, ...]] = {}

    def put(self, eviction: Eviction) -> None:
        old = self.records.get(eviction.number)
        if old is not None:
            self.drop(eviction.number)
        self._digest.add(b"eviction", eviction)
        self.records[eviction.number] = eviction
        for victim in eviction.victims:
            if victim.phase is not VictimPhase.GONE:
                self.takers[victim.number] = eviction.number
        for node in eviction.nodes:
            self.keepers[node] = (*self.keepers.get(node, ()), eviction.number)

    def drop(self, number: int) -> None:
        gone = self.records.pop(number)
        self._digest.remove(b"eviction", gone)
        for victim in gone.victims:
            if self.takers.get(victim.number) == number:
                del self.takers[victim.number]
        for node in gone.nodes:
            left = tuple(keeper for keeper in self.keepers[node] if keeper != number)
            if left:
                self.keepers[node] = left
            else:
                del self.keepers[node]

    def kept_on(self, node: str) -> list[Eviction]:
        """The evictions that keep something of the node."""
        return [self.records[number] for number in self.keepers.get(node, ())]
