"""Which nodes are not heard though they should be, and since when; for those who watch the cluster from outside."""

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.ports.clock import Clock

# Others are booting, were taken out of service, or have alerts of their own.
_HEARD = frozenset({NodeState.READY, NodeState.DEGRADED, NodeState.DRAINING, NodeState.DRAINED})


def silent_nodes(
    state: State, observations: Observations, clock: Clock, *, timeout_s: float, began_s: float
) -> dict[str, float]:
    """Nodes beyond their time-out, with the moment of their last sign of life in seconds since 1970.

    Of a node that fell silent before this server led, that is the moment at which it began to lead: `began_s`, as the clock counts.
    """
    now_s, monotonic_s = clock.now_ms() / 1000, clock.monotonic_s()
    silent: dict[str, float] = {}
    for name, node in state.nodes.items():
        if not _is_expected(node):
            continue
        heard = observations.get(name)
        age_s = monotonic_s - (began_s if heard is None else heard.last_heard)
        if age_s > timeout_s:
            silent[name] = now_s - age_s
    return silent


def _is_expected(node: Node) -> bool:
    return node.state in _HEARD or (node.state is NodeState.DOWN and node.down_cause is DownCause.SILENCE)
