"""The checks of nodes."""

from collections.abc import Sequence

from lattice_sdk.models.health import NodeChecks
from lattice_sdk.operation import Steps, at, operation, write

LONGEST_CHECK_S = 90.0


class HealthCalls:
    @operation
    def check_node(self, node_id: str, checks: Sequence[str] = ()) -> Steps[NodeChecks]:
        """Have its health checks run now, or those named, and say how they stand."""
        body = {"checks": list(checks)} if checks else {}
        return write("POST", at("nodes", node_id, "check"), NodeChecks, body, "", timeout_s=LONGEST_CHECK_S)
