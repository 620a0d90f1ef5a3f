"""Which running services wait for nodes, from the events of the log; the scheduling loop asks for them before it plans."""

from collections.abc import Collection, Mapping

from lattice.core.machine.commands import GrowAllocation
from lattice.core.machine.events import (
    AllocationEnded,
    AllocationRequeued,
    AnyEvent,
    InstancesWanted,
    NodeJoined,
    NodeLeft,
)
from lattice.core.machine.state import State
from lattice.core.replacements import replacements

_TELLING = (NodeLeft, NodeJoined, InstancesWanted, AllocationEnded, AllocationRequeued)


class Replacing:
    """The numbers of services that have fewer nodes than they want."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def load(self, state: State) -> None:
        """Takes the whole state over."""
        self.numbers = {record.number for record in state.allocations.values() if record.missing}

    def note(self, state: State, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, _TELLING):
                record = state.allocations.get(event.number)
                if record is not None and record.missing:
                    self.numbers.add(event.number)
                else:
                    self.numbers.discard(event.number)

    def proposals(
        self, state: State, connected: Collection[str], excluded: Mapping[str, Collection[str]]
    ) -> list[GrowAllocation]:
        return replacements(state, self.numbers, connected, excluded) if self.numbers else []
