"""What an operator can do instead of an order that a node refuses, by its state. See docs/architecture/nodes.md."""

from lattice.core.model.nodes.nodes import DownCause, Node, NodeState

_BY_ITSELF = "It returns by itself when its agent is heard again."
_BY_ENABLE = "Use enable."
_BY_UNDRAIN = "It has drifted: undrain it."

_BACK = {
    NodeState.UNKNOWN: "It was never heard: start its agent.",
    NodeState.DEGRADED: "It returns by itself when it is heard and its checks pass.",
    NodeState.DRAINING: "Use undrain for drained nodes.",
    NodeState.DRAINED: "Use undrain for drained nodes.",
    NodeState.FAILED: "Use enable or reboot.",
    NodeState.BOOTING: "",
    NodeState.READY: "",
    NodeState.DOWN: "",  # answered by its cause
    NodeState.QUARANTINE: "",  # answered by its wipe
}
_BACK_FROM_DOWN = {
    DownCause.SILENCE: _BY_ITSELF,
    DownCause.HARDWARE: _BY_ENABLE,
    DownCause.OPERATOR: _BY_ENABLE,
    DownCause.DRIFT: _BY_UNDRAIN,
}


def back_into_service(node: Node) -> str:
    """How a node that is neither drained nor disabled gets work again; empty when nothing has to be done."""
    if node.state is NodeState.QUARANTINE:
        return _by_wipe(node)
    if node.down_cause is None:
        return _BACK[node.state]
    hint = _BACK_FROM_DOWN[node.down_cause]
    return f"{hint} It comes back drained: undrain it then." if node.drain_wanted else hint


def to_reboot(node: Node) -> str:
    """What comes before a reboot."""
    if node.down_cause is DownCause.OPERATOR:
        return "It is disabled: enable it first."
    if node.down_cause is DownCause.DRIFT:
        return _BY_UNDRAIN
    if node.state is NodeState.DRAINING:
        return "Wait until it is Drained."
    if node.state is NodeState.QUARANTINE:
        return _by_wipe(node)
    return "It waits to be wiped." if node.wipe is not None else "Drain it first."


def _by_wipe(node: Node) -> str:
    return f"It waits to be wiped: `lattice admin node wipe {node.id} --force`, or disable it."
