"""Configurations of nodes: which are alike, what they should be, who differs."""

from collections.abc import Sequence

from lattice_sdk.models.conformance import Baseline, Conformance, NodeDiff, Refreshed
from lattice_sdk.models.records import Node
from lattice_sdk.operation import Steps, at, operation, read, write


class ConformanceCalls:
    @operation
    def conformance_status(self) -> Steps[Conformance]:
        """Groups of like nodes, baselines, and who differs."""
        return read("/conformance", Conformance)

    @operation
    def diff_nodes(self, node_id: str, other: str) -> Steps[NodeDiff]:
        """Compare two nodes."""
        return read(at("nodes", node_id, "diff", other), NodeDiff)

    @operation
    def approve_node(self, node_id: str, *, request_id: str = "") -> Steps[Node]:
        """Take back a node whose drift was remedied."""
        return write("POST", at("nodes", node_id, "approve"), Node, {}, request_id)

    @operation
    def refresh_conformance(self, nodes: Sequence[str] = (), *, request_id: str = "") -> Steps[Refreshed]:
        """Ask nodes, or all of them, to look at themselves again."""
        return write("POST", "/conformance/refresh", Refreshed, {"nodes": list(nodes)}, request_id)

    @operation
    def get_baseline(self, vcluster: str) -> Steps[Baseline]:
        """What the nodes of a vCluster should be."""
        return read(at("conformance", "baselines", vcluster), Baseline)

    @operation
    def set_baseline(
        self, vcluster: str, *, node: str = "", fingerprint: str = "", request_id: str = ""
    ) -> Steps[Baseline]:
        """Declare it: as this node is now, or by fingerprint."""
        fields = {"node": node} if node else {"fingerprint": fingerprint}
        return write("PUT", at("conformance", "baselines", vcluster), Baseline, fields, request_id)

    @operation
    def unset_baseline(self, vcluster: str, *, request_id: str = "") -> Steps[Baseline]:
        """Let the majority count again."""
        return write("DELETE", at("conformance", "baselines", vcluster), Baseline, None, request_id)
