"""The part of the state that says who may be a node. Written by `evolve` and the codec alone.

See docs/architecture/nodes.md.
"""

from lattice.core.machine.digest import Digest
from lattice.core.model.nodes.admission import Admission, AdmissionStatus, Enrolment


class AdmissionRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.names: dict[str, Admission] = {}  # by node; a node that is not here was known before names were judged
        self.enrolments: dict[str, Enrolment] = {}  # by token, in the order in which they were used

    def standing(self, node: str) -> AdmissionStatus | None:
        """What was decided of the name; None when nothing was."""
        found = self.names.get(node)
        return None if found is None else found.standing

    def put(self, admission: Admission) -> None:
        old = self.names.get(admission.node)
        if old is not None:
            self._digest.remove(b"admission", old)
        self._digest.add(b"admission", admission)
        self.names[admission.node] = admission

    def forget(self, node: str) -> None:
        """A deleted node is a stranger when it comes back, unless its credentials were revoked: that stands until it is admitted."""
        old = self.names.get(node)
        if old is not None and old.standing is not AdmissionStatus.REVOKED:
            self._digest.remove(b"admission", self.names.pop(node))

    def put_enrolment(self, enrolment: Enrolment) -> None:
        self._digest.add(b"enrolment", enrolment)
        self.enrolments[enrolment.token] = enrolment

    def forget_expired(self, at: int) -> None:
        """Tokens that have expired need not be remembered."""
        for token in [token for token, each in self.enrolments.items() if each.expires_at <= at]:
            self._digest.remove(b"enrolment", self.enrolments.pop(token))
