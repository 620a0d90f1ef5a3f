"""Moves instances of services off nodes that are drained: a service has no end that a drain could wait for.

One instance of a service at a time, and only while another node is free for it; until then it keeps running where it is, and the node is
Draining. The state is the only memory. An urgent drain does not wait like this. See docs/architecture/services.md.
"""

from collections.abc import Iterator

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import AnyCommand, Envelope, ShrinkAllocation
from lattice.core.machine.events import AnyEvent, NodeMoved
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.work.allocations import Allocation, AllocationState, PartPhase
from lattice.core.replacements import open_nodes, share_for
from lattice.ports.quorum.replica import Replica

LOOP = "drains of services"
LOOK_EVERY_S = 1.0
REST_S = 3600.0
_STAYING = (PartPhase.RUNNING, PartPhase.RESTARTING)


class Moving:
    """`move_due` does the work of one turn."""

    def __init__(self, replica: Replica, observations: Observations) -> None:
        self._replica, self._observations = replica, observations
        self._alarm, self._guard = Alarm(), Guard(LOOP)
        self._draining = {node.id for node in replica.state.nodes.values() if node.state is NodeState.DRAINING}
        replica.subscribe(self._note, of=(NodeMoved,))

    async def run(self) -> None:
        await keep_turning(LOOP, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(LOOK_EVERY_S if self._draining else REST_S)
        await self.move_due()

    async def move_due(self) -> None:
        """Proposes for every service that has an instance on a draining node whatever can be done now."""
        state, due = self._replica.state, list[AnyCommand]()
        taken: set[str] = set()
        moved: set[int] = set()
        for name in sorted(self._draining):
            node = state.nodes.get(name)
            if node is None or node.state is not NodeState.DRAINING:
                self._draining.discard(name)
                continue
            for number in sorted(set(node.holders()) - moved):
                with self._guard.item(allocation_id(number)):
                    moves = list(self._moves(state, state.allocations[number], name, taken))
                    due += moves
                    moved.update(number for _ in moves)
        if due:
            await self._replica.propose_many(due, LOOP)

    def _moves(self, state: State, record: Allocation, node: str, taken: set[str]) -> Iterator[AnyCommand]:
        if not _can_move(record, node):
            return
        share = share_for(state, record, open_nodes(state, self._observations.connected()), taken)
        if share is None:
            return
        taken.add(share.node)
        reason = f"node {node} is drained"
        yield ShrinkAllocation(number=record.number, run=record.run, node=node, reason=reason, replace=True)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, NodeMoved) and event.state is NodeState.DRAINING:
                self._draining.add(event.node)
                self._alarm.ring()


def _can_move(record: Allocation, node: str) -> bool:
    """Its other instances serve meanwhile: nothing is missing, coming or leaving, and it is not being updated."""
    if not record.has_instances or record.state is not AllocationState.RUNNING or record.missing:
        return False
    if record.rollout is not None and record.rollout.is_open:
        return False
    here = next((part for part in record.parts if part.node == node), None)
    return here is not None and all(part.phase in _STAYING for part in record.parts)
