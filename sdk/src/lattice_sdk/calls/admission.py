"""Who may be a node."""

from lattice_sdk.models.nodes import NodeAdmission
from lattice_sdk.operation import Steps, at, operation, write


class AdmissionCalls:
    @operation
    def admit_node(self, node_id: str, *, reason: str = "", request_id: str = "") -> Steps[NodeAdmission]:
        """Let in a node that waits for admission or was revoked, or a name before its node comes."""
        return write("POST", at("nodes", node_id, "admit"), NodeAdmission, {"reason": reason}, request_id)

    @operation
    def revoke_node(self, node_id: str, *, reason: str = "", request_id: str = "") -> Steps[NodeAdmission]:
        """End all credentials of a node at once."""
        return write("POST", at("nodes", node_id, "revoke"), NodeAdmission, {"reason": reason}, request_id)
