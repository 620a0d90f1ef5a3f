"""The audit chain as the API sees it: what it tells, and what needs the key.

Errors of this boundary::

    AuditError           the chain cannot be sealed or read now
"""

from typing import Protocol

from lattice.core.model.site.audit import AuditKey, AuditNote


class AuditError(Exception):
    """The text says what is wrong; what was recorded stays recorded."""


class AuditService(Protocol):
    """On the leader."""

    def tell(self, note: AuditNote) -> None:
        """Takes a refusal; the same one again within a minute is counted, and many different ones become one, so that
        refused requests cannot fill the log."""
        ...

    async def seal(self) -> None:
        """Returns when every entry that there was before the call is sealed; raises AuditError."""
        ...

    def sign(self, message: bytes) -> tuple[str, str]:
        """The id of this server's key, and the signature in hex."""
        ...

    async def rotate(self, actor: str) -> AuditKey:
        """Makes a new key for this server and retires the old one; raises AuditError."""
        ...
