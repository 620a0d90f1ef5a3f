"""Nodes: read them, take them out of service and back."""

from lattice_sdk.models import Node, Page
from lattice_sdk.operation import Steps, at, everything, given, operation, read, write


class NodeCalls:
    @operation
    def list_nodes(self, *, state: str = "", vcluster: str = "", group: str = "") -> Steps[list[Node]]:
        """All nodes, or those in these states (joined by commas), of this vCluster or topology group."""
        return everything("/nodes", Page[Node], given(state=state, vcluster=vcluster, group=group))

    @operation
    def get_node(self, node_id: str) -> Steps[Node]:
        """One node."""
        return read(at("nodes", node_id), Node)

    @operation
    def drain_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Let nothing new start on it; what runs may end."""
        return _order(node_id, "drain", reason, request_id)

    @operation
    def undrain_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Take a drain back."""
        return _order(node_id, "undrain", reason, request_id)

    @operation
    def disable_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Take it down at once; what runs on it is requeued or fails."""
        return _order(node_id, "disable", reason, request_id)

    @operation
    def enable_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Bring a disabled node back."""
        return _order(node_id, "enable", reason, request_id)


def _order(node_id: str, order: str, reason: str, request_id: str) -> Steps[Node]:
    return write("POST", at("nodes", node_id, order), Node, {"reason": reason} if reason else {}, request_id)
