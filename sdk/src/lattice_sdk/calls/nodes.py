"""Nodes: read them, take them out of service and back."""

from collections.abc import Mapping, Sequence

from lattice_sdk.models.inventory import NodeInventory
from lattice_sdk.models.nodes import NodeEvent, NodeOutcome, NodeOutcomes, NodeUsage
from lattice_sdk.models.records import Node, Page
from lattice_sdk.operation import Steps, at, everything, given, operation, read, write

# Names and folded names, `nid[001-128,200]`, in one text or several.
NodeSet = str | Sequence[str]
LONGEST_ORDER_S = 120.0


class NodeCalls:
    @operation
    def list_nodes(
        self,
        *,
        state: str = "",
        vcluster: str = "",
        group: str = "",
        nodes: str = "",
        filter: Sequence[str] = (),
        sort: str = "",
    ) -> Steps[list[Node]]:
        """All nodes, or those in these states (joined by commas), of this vCluster or topology group, or of a folded set; `filter`
        are conditions on fields of `node_status`, `sort` its fields."""
        query = given(state=state, vcluster=vcluster, group=group, nodes=nodes, sort=sort)
        return everything("/nodes", Page[Node], [*query, *(("filter", condition) for condition in filter)])

    @operation
    def get_node(self, node_id: str) -> Steps[Node]:
        """Get one node."""
        return read(at("nodes", node_id), Node)

    @operation
    def node_usage(self, node_id: str) -> Steps[NodeUsage]:
        """The CPUs and GPUs that each run has on it, and the features that it lacks; the node is asked."""
        return read(at("nodes", node_id, "usage"), NodeUsage)

    @operation
    def get_node_inventory(self, node_id: str) -> Steps[NodeInventory]:
        """What it is made of, as its agent last said."""
        return read(at("nodes", node_id, "inventory"), NodeInventory)

    @operation
    def node_events(self, node_id: str, *, since: str = "") -> Steps[list[NodeEvent]]:
        """What happened to it, oldest first; `since` an RFC 3339 time."""
        return everything(at("nodes", node_id, "events"), Page[NodeEvent], given(since=since))

    @operation
    def drain_node(self, node_id: str, reason: str = "", *, urgent: bool = False, request_id: str = "") -> Steps[Node]:
        """Let nothing new start on it; what runs may end, or with `urgent` is ended and queued again."""
        return _order(node_id, "drain", reason, request_id, urgent=urgent)

    @operation
    def undrain_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Take a drain back."""
        return _order(node_id, "undrain", reason, request_id)

    @operation
    def disable_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Take it down immediately; work on it is requeued or fails."""
        return _order(node_id, "disable", reason, request_id)

    @operation
    def enable_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Bring a disabled node back."""
        return _order(node_id, "enable", reason, request_id)

    @operation
    def reboot_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Reboot a node; it is Booting until it registers again."""
        return _order(node_id, "reboot", reason, request_id)

    @operation
    def fault_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Steps[Node]:
        """Report a hardware failure detected out of band: the node is Down immediately."""
        return _order(node_id, "fault", reason, request_id)

    @operation
    def wipe_node(self, node_id: str, reason: str = "", *, force: bool = False, request_id: str = "") -> Steps[Node]:
        """Have everything erased that sensitive work may have left; `force`: it was done by hand."""
        return _order(node_id, "wipe", reason, request_id, force=force)

    @operation
    def drain_node_set(
        self, nodes: NodeSet, reason: str = "", *, urgent: bool = False, request_id: str = ""
    ) -> Steps[list[NodeOutcome]]:
        """Let nothing new start on these nodes; what runs may end. Nothing happens when one of them is unknown."""
        return _order_set("drain", nodes, reason, request_id, urgent=urgent)

    @operation
    def undrain_node_set(self, nodes: NodeSet, reason: str = "", *, request_id: str = "") -> Steps[list[NodeOutcome]]:
        """Take drains back."""
        return _order_set("undrain", nodes, reason, request_id)

    @operation
    def disable_node_set(self, nodes: NodeSet, reason: str = "", *, request_id: str = "") -> Steps[list[NodeOutcome]]:
        """Take these nodes down immediately; work on them is requeued or fails."""
        return _order_set("disable", nodes, reason, request_id)

    @operation
    def enable_node_set(self, nodes: NodeSet, reason: str = "", *, request_id: str = "") -> Steps[list[NodeOutcome]]:
        """Bring disabled nodes back."""
        return _order_set("enable", nodes, reason, request_id)

    @operation
    def reboot_node_set(self, nodes: NodeSet, reason: str = "", *, request_id: str = "") -> Steps[list[NodeOutcome]]:
        """Reboot nodes; they are Booting until they register again."""
        return _order_set("reboot", nodes, reason, request_id)

    @operation
    def fault_node_set(self, nodes: NodeSet, reason: str = "", *, request_id: str = "") -> Steps[list[NodeOutcome]]:
        """Report a hardware failure detected out of band: the nodes are Down immediately."""
        return _order_set("fault", nodes, reason, request_id)

    @operation
    def wipe_node_set(
        self, nodes: NodeSet, reason: str = "", *, force: bool = False, request_id: str = ""
    ) -> Steps[list[NodeOutcome]]:
        """Have everything erased that sensitive work may have left; `force`: it was done by hand."""
        return _order_set("wipe", nodes, reason, request_id, force=force)


def _order(node_id: str, order: str, reason: str, request_id: str, **more: bool) -> Steps[Node]:
    return write("POST", at("nodes", node_id, order), Node, _said(reason, more), request_id)


def _order_set(order: str, nodes: NodeSet, reason: str, request_id: str, **more: bool) -> Steps[list[NodeOutcome]]:
    fields = {"nodes": nodes, **_said(reason, more)}
    answer = yield from write("POST", at("nodes", order), NodeOutcomes, fields, request_id, timeout_s=LONGEST_ORDER_S)
    return answer.items


def _said(reason: str, more: Mapping[str, bool]) -> dict[str, object]:
    return {**({"reason": reason} if reason else {}), **{name: True for name, is_so in more.items() if is_so}}
