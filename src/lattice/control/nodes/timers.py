"""How long a node may be silent, or boot: standard, sensitive and borrowed nodes have timers of their own.

A node is sensitive while it is claimed or works for a sensitive vCluster; borrowed while it works for a vCluster that is not its own,
though it has one. Settings of the cluster win over the configuration file.
"""

from msgspec import Struct

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.site.tenants import Fencing
from lattice.ports.quorum.replica import Replica


class TimerSettings(Struct, frozen=True, kw_only=True):
    """The values in force until they are changed at run time."""

    timeout_s: float = 30.0
    grace_s: float = 60.0
    sensitive_timeout_s: float = 120.0
    sensitive_grace_s: float = 300.0
    borrowed_grace_s: float = 30.0
    boot_timeout_s: float = 600.0


KEYS = {
    "timeout_s": "node.heartbeat_timeout_s",
    "grace_s": "node.grace_s",
    "sensitive_timeout_s": "node.sensitive_heartbeat_timeout_s",
    "sensitive_grace_s": "node.sensitive_grace_s",
    "borrowed_grace_s": "node.borrowed_grace_s",
    "boot_timeout_s": "node.boot_timeout_s",
}


# Without a grace a node is Down as soon as it is silent. A time-out of nothing means the one that is configured.
_MAY_BE_NONE = frozenset({"grace_s", "sensitive_grace_s", "borrowed_grace_s"})


class NodeTimers:
    """Reads the state at each question; `told` is what agents were promised when they registered."""

    def __init__(self, replica: Replica, settings: TimerSettings) -> None:
        self._replica = replica
        self._fallback = settings
        self._made_of: tuple[str | None, ...] = ()
        self._current = settings
        self._homes: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}
        self._told: dict[str, float] = {}

    @property
    def current(self) -> TimerSettings:
        """The timers in force."""
        settings = self._replica.state.settings
        made_of = tuple(map(settings.get, KEYS.values()))  # asked for at every change of the state
        if made_of != self._made_of:
            changed = {
                name: float(text)
                for name, text in zip(KEYS, made_of, strict=True)
                if text is not None and (float(text) or name in _MAY_BE_NONE)
            }
            known = {name: getattr(self._fallback, name) for name in KEYS}
            self._current = TimerSettings(**{**known, **changed})
            self._made_of = made_of
        return self._current

    @property
    def shortest_s(self) -> float:
        timers = self.current
        all_of_them = (timers.timeout_s, timers.grace_s, timers.borrowed_grace_s, timers.boot_timeout_s)
        return min(filter(None, all_of_them))

    def wait_s(self, node: Node) -> float:
        """How long after its last sign of life the node's state changes."""
        timers, state = self.current, self._replica.state
        if is_sensitive(state, node):
            timeout_s = max(timers.timeout_s, timers.sensitive_timeout_s)
            grace_s = max(timers.grace_s, timers.sensitive_grace_s)
        else:
            timeout_s, grace_s = timers.timeout_s, timers.grace_s
            if node.state is not NodeState.READY and self._is_borrowed(node):
                grace_s = min(grace_s, timers.borrowed_grace_s)
        if node.state is NodeState.READY:
            return timeout_s
        vcluster = state.vclusters.get(node.vcluster)
        # Fenced work ends on the node at the time sent to its agent, not before.
        is_strict = vcluster is not None and vcluster.fencing is Fencing.STRICT
        return max(timeout_s + grace_s, self._told.get(node.id, 0.0) if is_strict else 0.0)

    def promise_s(self, name: str) -> float:
        """How long a silent node is kept, sent to its agent when it registers."""
        timers, state = self.current, self._replica.state
        node = state.nodes.get(name)
        told = timers.timeout_s + timers.grace_s
        if node is not None and is_sensitive(state, node):
            told = max(told, timers.sensitive_timeout_s + timers.sensitive_grace_s)
        self._told[name] = told
        return told

    def _is_borrowed(self, node: Node) -> bool:
        if not node.vcluster:
            return False
        homes = [name for name in self._replica.state.vclusters if node.id in self._nodes_of(name)]
        return bool(homes) and node.vcluster not in homes

    def _nodes_of(self, vcluster: str) -> frozenset[str]:
        listed = self._replica.state.vclusters[vcluster].nodes
        kept = self._homes.get(vcluster)
        if kept is None or kept[0] is not listed:
            kept = self._homes[vcluster] = (listed, frozenset(listed))
        return kept[1]


def is_sensitive(state: State, node: Node) -> bool:
    return bool(node.claimant) or node.vcluster in state.audit.sensitive
