"""The history of a node: its last moves with trigger, actor, reason and the work that was lost by them.

Written by `evolve` and the codec alone. The history is only shown: no rule decides by it. It is no part of the digest, because a
replica that began with a snapshot of an earlier version knows less of the past than one that read the whole log, and both are right.
See docs/architecture/nodes.md.
"""

from msgspec import Struct

from lattice.core.model.nodes.nodes import Node, NodeState

KEPT = 64  # entries per node


class NodeHistoryEntry(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What happened to a node. `allocations` are the numbers of those that lost it."""

    at: int
    trigger: str
    from_state: NodeState
    to_state: NodeState
    by: str = ""
    why: str = ""
    allocations: tuple[int, ...] = ()


class NodeHistory(Struct, frozen=True, kw_only=True, gc=False):
    """The entries of one node, oldest first; how a history is kept in a snapshot."""

    node: str
    entries: tuple[NodeHistoryEntry, ...]


class NodeHistories:
    """The histories of all nodes."""

    def __init__(self) -> None:
        self.histories: dict[str, tuple[NodeHistoryEntry, ...]] = {}

    def tell(self, node: str, entry: NodeHistoryEntry) -> None:
        self.histories[node] = (*self.histories.get(node, ())[1 - KEPT :], entry)

    def load(self, history: NodeHistory) -> None:
        self.histories[history.node] = history.entries[-KEPT:]

    def forget(self, node: str) -> None:
        self.histories.pop(node, None)

    def of(self, node: str) -> tuple[NodeHistoryEntry, ...]:
        """Oldest first; empty for an unknown node."""
        return self.histories.get(node, ())


def registration_entry(before: Node, after: Node, at: int) -> NodeHistoryEntry | None:
    """What a registration adds to the history by itself: that the machine was rebooted, or its agent replaced."""
    if before.boot_id and before.boot_id != after.boot_id:
        return NodeHistoryEntry(at=at, trigger="rebooted", from_state=before.state, to_state=after.state)
    if before.agent_version and before.agent_version != after.agent_version:
        why = f"agent {before.agent_version} became {after.agent_version}"
        return NodeHistoryEntry(at=at, trigger="agent_changed", from_state=before.state, to_state=after.state, why=why)
    return None
