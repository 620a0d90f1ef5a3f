"""What becomes of a command: accepted with its events, or refused with the sentence a person reads.

See docs/architecture/core.md.
"""

from msgspec import Struct

from lattice.core.machine.events import AnyEvent


class Rejected(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rejected"):
    """A refusal: nothing changed. `code` is for programs, the rest for people, the same over every wire.

    Codes: not_found, already_exists, invalid, conflict (state does not allow it), quota, infeasible, forbidden, stale (a proposal
    that no longer holds).
    """

    code: str
    message: str
    current: str = ""
    requested: str = ""
    limit: str = ""
    hint: str = ""


class Accepted(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="accepted"):
    """What happened; `number` answers a submission, `repeated` says that this command had been carried out before."""

    events: tuple[AnyEvent, ...] = ()
    number: int = 0
    repeated: bool = False


Outcome = Accepted | Rejected
