"""What is fresh and never in the log: when each node was last heard, and what it said of itself.

Times are monotonic seconds of the process that heard them. One task owns an `Observations`; others take `connected()`.
A node's heartbeats are numbered for as long as its agent's process lives, over all its streams; one whose number does not rise is an
old one, regardless of the sender. See docs/architecture/nodes.md.
"""

from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.nodes.readiness import ReadinessBoard
from lattice.core.model.services.requests import RequestBoard
from lattice.core.model.services.scaling import ScalingBoard


class Beat(Struct, frozen=True, kw_only=True, gc=False):
    """A sign of life; `seq` rises as long as the agent's process lives, `session` is the one it was welcomed to (0 = not said)."""

    seq: int
    running: int = 0
    load1: float = 0.0
    memory_used_mb: int = 0
    session: int = 0
    fingerprint: bytes = b""  # how that of its inventory begins
    gpus: int = 0  # that answer now
    temperature_c: float = 0.0  # the highest, 0 = not measured
    memory_errors: int = 0
    failing_checks: int = 0


_NOTHING_SAID = Beat(seq=0)
MAX_STARTS = 10_000


class Observation(Struct, frozen=True, kw_only=True, gc=False):
    """One node as last heard."""

    last_heard: float
    beat: Beat = _NOTHING_SAID  # the newest
    connected: bool = False
    process: int = 0  # of the agent that speaks for the node, 0 = not said

    @property
    def seq(self) -> int:
        return self.beat.seq

    @property
    def load1(self) -> float:
        return self.beat.load1

    @property
    def memory_used_mb(self) -> int:
        return self.beat.memory_used_mb


class Observations:
    """The newest observation of every node that was heard of."""

    def __init__(self) -> None:
        self._nodes: dict[str, Observation] = {}
        self._connected: set[str] = set()
        self.protocols: dict[str, int] = {}  # the version that each connected agent and this server agreed on
        self._starts: dict[int, tuple[int, str]] = {}  # allocations whose start takes long: the run, and how far it is
        self.readiness = ReadinessBoard()
        self.requests = RequestBoard()  # that the gateway carried
        self.scaling = ScalingBoard()
        self.via: dict[str, str] = {}  # nodes whose last heartbeat a collector brought, and which one

    def get(self, node: str) -> Observation | None:
        return self._nodes.get(node)

    def nodes(self) -> dict[str, Observation]:
        """A copy: node id to its observation."""
        return dict(self._nodes)

    def connected(self) -> frozenset[str]:
        """Nodes whose agent takes orders at this moment."""
        return frozenset(self._connected)

    def greet(self, node: str, heard_at: float, process: int = 0) -> None:
        """An agent opened a stream: another process counts its beats from one again. It takes no orders before it is admitted."""
        self._connected.discard(node)
        old = self._nodes.get(node) or Observation(last_heard=heard_at)
        is_same = process != 0 and process == old.process
        beat = old.beat if is_same else replace(old.beat, seq=0)
        self._nodes[node] = Observation(last_heard=heard_at, beat=beat, process=process)

    def admit(self, node: str) -> None:
        """The agent that was greeted takes orders from now on."""
        self._nodes[node] = replace(self._nodes[node], connected=True)
        self._connected.add(node)

    def join(self, node: str, heard_at: float) -> None:
        """Both in one record."""
        self.greet(node, heard_at)
        self.admit(node)

    def leave(self, node: str) -> None:
        """The stream is gone; what was heard stays."""
        self.protocols.pop(node, None)
        self._connected.discard(node)
        old = self._nodes.get(node)
        if old is not None:
            self._nodes[node] = replace(old, connected=False)

    def hear(self, node: str, heard_at: float, beat: Beat) -> bool:
        """Notes a heartbeat; False, and nothing noted, when its sequence number did not rise."""
        old = self._nodes.get(node)
        if old is None:
            self._nodes[node] = Observation(last_heard=heard_at, beat=beat)
            return True
        if beat.seq <= old.beat.seq:
            return False
        # One that was brought may be older than another sign of life.
        heard_at = max(heard_at, old.last_heard)
        self._nodes[node] = Observation(last_heard=heard_at, beat=beat, connected=old.connected, process=old.process)
        return True

    def note_start(self, number: int, run: int, node: str, text: str) -> None:
        """How far a start is on one of its nodes; the newest word counts."""
        self._starts.pop(number, None)
        self._starts[number] = (run, f"{node}: {text}")
        if len(self._starts) > MAX_STARTS:
            del self._starts[next(iter(self._starts))]

    def start_of(self, number: int, run: int) -> str:
        """What was heard last of this start; empty if nothing."""
        heard = self._starts.get(number)
        return heard[1] if heard is not None and heard[0] == run else ""

    def touch(self, node: str, heard_at: float) -> None:
        """Any other sign of life, and the fresh time-out that a node gets when a server takes over."""
        old = self._nodes.get(node)
        self._nodes[node] = Observation(last_heard=heard_at) if old is None else replace(old, last_heard=heard_at)
