"""Questions from one server to another, over the listener that only the servers of a cluster can use.

Errors of this boundary::

    PeerLost             no answer, or none that can be read; what became of the question is not known
      PeerRefused        the other server said no; any other one would say the same
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

from lattice.ports.quorum.backups import BackupRecord
from lattice.ports.quorum.servers import CertificateState, ReplicaAt


class PeerLost(Exception):
    """The text says why, and is never empty."""


class PeerRefused(PeerLost):
    """The text is the other server's own."""


class PeerCalls(Protocol):
    """What a server asks another one, which listens at `url`. Every question has a time limit; all raise PeerLost."""

    async def replica(self, url: str, index: int | None) -> tuple[ReplicaAt, int]:
        """How far it has come, with its digest at `index` or at its newest entry, and its clock in ms when it answered."""
        ...

    async def renew(self, url: str) -> CertificateState:
        """Lets it take new certificates, which it uses immediately."""
        ...

    async def backups(self, url: str) -> list[BackupRecord]:
        """The backups that lie there."""
        ...

    async def verify_backup(self, url: str, path: str) -> BackupRecord:
        """Lets it check one of them."""
        ...

    def backup_file(self, url: str, path: str, name: str, offset: int) -> AsyncIterator[bytes]:
        """A file of one of them, from that byte on, piece by piece."""
        ...

    async def fetch_backup(self, url: str, path: str, server: str) -> BackupRecord:
        """Lets it fetch a backup of another server."""
        ...

    async def fetch_state(self, url: str, target: Path) -> None:
        """Writes its newest snapshot and its archive, packed, to the file; what is there after a failure is of no use."""
        ...


# Shows an invitation to the server at this address, which is trusted by this context alone; its answer. Raises PeerLost.
ShowInvitation = Callable[[str, bytes, ssl.SSLContext], Awaitable[bytes]]
