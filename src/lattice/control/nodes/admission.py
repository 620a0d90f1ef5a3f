"""Who may be a node, as the servers ask it: are these credentials still good, and may this enrolment token be used?"""

from lattice.core.machine.commands import EnrolNode
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.admission import AdmissionStatus, Enrolment
from lattice.ports.quorum.replica import Replica

SINCE_LEVEL = 2  # before it, servers of the release before share the log and know no enrolments


def credentials_refusal(state: State, node: str, issued_at_s: int) -> str | None:
    """Why credentials that were issued at that time do not make their holder this node; None when they may."""
    judged = state.admission.names.get(node)
    if judged is None:
        return None
    if judged.standing is AdmissionStatus.REVOKED:
        return f"the credentials of node {node} were revoked; an administrator has to admit it again"
    if issued_at_s * 1000 < judged.valid_from:
        return f"these credentials of node {node} were issued before it was revoked; it needs new ones"
    return None


class NodeAdmissions:
    """Implements `Admissions` for the service that issues certificates."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def refusal(self, node: str, issued_at_s: int) -> str | None:
        return credentials_refusal(self._replica.state, node, issued_at_s)

    def valid_from_s(self, node: str) -> int:
        judged = self._replica.state.admission.names.get(node)
        return 0 if judged is None else -(-judged.valid_from // 1000)

    async def enrol(self, enrolment: Enrolment, *, is_named: bool) -> str | None:
        if self._replica.state.level < SINCE_LEVEL:
            return None
        command = EnrolNode(enrolment=enrolment, is_named=is_named)
        outcome = await self._replica.propose(command, actor=f"node/{enrolment.node}")
        return outcome.message if isinstance(outcome, Rejected) else None
