"""Folds what a site specified and what an agent measured into the record of a node.

Before: the event was decided on this state. After: a node that was only specified is Unknown, with the hardware it should have.
See docs/architecture/nodes.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.parts.node_history import NodeHistoryEntry
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, Node
from lattice.core.model.nodes.specifications import Specification

DECLARED, UNFIT, FIT = "declared", "unfit", "fit"  # in the history of a node


def evolve_specification(state: State, event: ev.NodeSpecified | ev.NodeMeasured, at: int) -> None:
    match event:
        case ev.NodeSpecified():
            _specified(state, event, at)
        case ev.NodeMeasured():
            node = state.nodes[event.node]
            _tell(state, node, event, at)
            state.put_node(replace(node, figures=event.figures, shortfall=event.shortfall))
        case _:
            assert_never(event)


def _specified(state: State, event: ev.NodeSpecified, at: int) -> None:
    node = state.nodes.get(event.node)
    if node is None:
        node = Node(id=event.node, hardware=Hardware(cpus=0, memory_mb=0), changed_at=at)
        entry = NodeHistoryEntry(at=at, trigger=DECLARED, from_state=node.state, to_state=node.state, by=event.by)
        state.histories.tell(node.id, entry)
    if not node.registered_at:
        node = replace(node, hardware=_declared(event.specification))
    _tell(state, node, event, at)
    state.put_node(replace(node, specification=event.specification, shortfall=event.shortfall))


def _tell(state: State, node: Node, event: ev.NodeSpecified | ev.NodeMeasured, at: int) -> None:
    """A node that may not work, or may again, is part of its history; its state is what it was."""
    if event.shortfall == node.shortfall:
        return
    trigger = UNFIT if event.shortfall else FIT
    why = event.shortfall or "has what it must have"
    entry = NodeHistoryEntry(at=at, trigger=trigger, from_state=node.state, to_state=node.state, by=event.by, why=why)
    state.histories.tell(node.id, entry)


def _declared(specification: Specification) -> Hardware:
    return Hardware(cpus=specification.cpus, memory_mb=specification.memory_mb)
