"""The story of a node: its last moves with trigger, actor, reason and the work that was lost by them.

Written by `evolve` and the codec alone. The story is told, never asked: no rule decides by it. It is no part of the digest, because a
replica that began with a snapshot of an earlier version knows less of the past than one that read the whole log, and both are right.
"""

from msgspec import Struct

from lattice.core.model.nodes.nodes import Node, NodeState

KEPT = 64  # entries per node


class StoryEntry(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What happened to a node. `allocations` are the numbers of those that lost it."""

    at: int
    trigger: str
    from_state: NodeState
    to_state: NodeState
    by: str = ""
    why: str = ""
    allocations: tuple[int, ...] = ()


class NodeStory(Struct, frozen=True, kw_only=True, gc=False):
    """The entries of one node, oldest first; how a story is kept in a snapshot."""

    node: str
    entries: tuple[StoryEntry, ...]


class StoryBook:
    """The stories of all nodes."""

    def __init__(self) -> None:
        self.stories: dict[str, tuple[StoryEntry, ...]] = {}

    def tell(self, node: str, entry: StoryEntry) -> None:
        self.stories[node] = (*self.stories.get(node, ())[1 - KEPT :], entry)

    def load(self, story: NodeStory) -> None:
        self.stories[story.node] = story.entries[-KEPT:]

    def of(self, node: str) -> tuple[StoryEntry, ...]:
        """Oldest first; empty for a node that nobody knows."""
        return self.stories.get(node, ())


def registration_entry(before: Node, after: Node, at: int) -> StoryEntry | None:
    """What a registration adds to the story by itself: that the machine was started anew, or its agent replaced."""
    if before.boot_id and before.boot_id != after.boot_id:
        return StoryEntry(at=at, trigger="rebooted", from_state=before.state, to_state=after.state)
    if before.agent_version and before.agent_version != after.agent_version:
        why = f"agent {before.agent_version} became {after.agent_version}"
        return StoryEntry(at=at, trigger="agent_changed", from_state=before.state, to_state=after.state, why=why)
    return None
