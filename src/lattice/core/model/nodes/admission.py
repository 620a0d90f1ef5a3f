"""Who may be a node: names that an administrator admitted, revoked, or has not judged yet, and enrolment tokens that were used.

See docs/architecture/nodes.md.
"""

from enum import StrEnum

from msgspec import Struct

MAX_WAITING = 1_000  # nodes waiting for a decision
MAX_NAMES = 200_000
MAX_ENROLMENTS = 100_000  # whose tokens have not expired


class AdmissionStatus(StrEnum):
    WAITING = "waiting"
    ADMITTED = "admitted"
    REVOKED = "revoked"


class Admission(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was decided of a name. Credentials that were issued before `valid_from` are not accepted for it any more."""

    node: str
    standing: AdmissionStatus
    since: int
    by: str = ""
    valid_from: int = 0  # ms since 1970
    reason: str = ""


class Enrolment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An enrolment token that was used, by its SHA-256: good for the node and key (SHA-256, too) that it was used for first."""

    token: str
    node: str
    key: str
    expires_at: int  # ms since 1970
