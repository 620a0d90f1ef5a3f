"""What is fresh and never in the log: when each node was last heard, and what it said of itself.

Times are monotonic seconds of the process that heard them. One task owns an `Observations`; others take `connected()`.
"""

from msgspec import Struct
from msgspec.structs import replace


class Observation(Struct, frozen=True, kw_only=True):
    """One node as last heard."""

    last_heard: float
    seq: int = 0
    load1: float = 0.0
    memory_used_mb: int = 0
    connected: bool = False


class Observations:
    """The newest observation of every node that was heard of."""

    def __init__(self) -> None:
        self._nodes: dict[str, Observation] = {}
        self._connected: set[str] = set()

    def get(self, node: str) -> Observation | None:
        return self._nodes.get(node)

    def nodes(self) -> dict[str, Observation]:
        """A copy: node id to its observation."""
        return dict(self._nodes)

    def connected(self) -> frozenset[str]:
        """Nodes whose agent takes orders at this moment."""
        return frozenset(self._connected)

    def greet(self, node: str, heard_at: float) -> None:
        """An agent opened a stream: its sequence starts again. It takes no orders before it is admitted."""
        self.leave(node)
        old = self._nodes.get(node) or Observation(last_heard=heard_at)
        self._nodes[node] = replace(old, last_heard=heard_at, seq=0)

    def admit(self, node: str) -> None:
        """The agent that was greeted takes orders from now on."""
        self._nodes[node] = replace(self._nodes[node], connected=True)
        self._connected.add(node)

    def join(self, node: str, heard_at: float) -> None:
        """Both at once."""
        self.greet(node, heard_at)
        self.admit(node)

    def leave(self, node: str) -> None:
        """The stream is gone; what was heard stays."""
        self._connected.discard(node)
        old = self._nodes.get(node)
        if old is not None:
            self._nodes[node] = replace(old, connected=False)

    def hear(self, node: str, heard_at: float, *, seq: int, load1: float = 0.0, memory_used_mb: int = 0) -> bool:
        """Notes a heartbeat; False, and nothing noted, when its sequence number did not rise."""
        old = self._nodes.get(node)
        if old is not None and seq <= old.seq:
            return False
        self._nodes[node] = Observation(
            last_heard=heard_at,
            seq=seq,
            load1=load1,
            memory_used_mb=memory_used_mb,
            connected=node in self._connected,
        )
        return True

    def touch(self, node: str, heard_at: float) -> None:
        """Any other sign of life, and the fresh time-out that a node gets when a server takes over."""
        old = self._nodes.get(node)
        self._nodes[node] = Observation(last_heard=heard_at) if old is None else replace(old, last_heard=heard_at)
