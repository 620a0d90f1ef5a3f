"""The servers that share a log, as one of them sees them.

Errors of this boundary::

    MembershipRefused    what was asked of the servers is not possible; nothing happened, or, with `unavailable`, it is not known
"""

from collections.abc import AsyncIterator, Iterable
from typing import Literal, Protocol

from msgspec import Struct

from lattice.core.machine.levels import NEWEST
from lattice.core.model.site.protocols import OURS, Border
from lattice.ports.quorum.backups import BackupRecord

Role = Literal["voter", "learner", "invited"]


class MembershipRefused(Exception):
    """`code` is that of the API; the text says why, `hint` what to do."""

    def __init__(
        self, code: Literal["conflict", "not_found", "already_exists", "unavailable"], text: str, hint: str = ""
    ) -> None:
        super().__init__(text)
        self.code = code
        self.hint = hint


class CertificateState(Struct, frozen=True, kw_only=True):
    """The certificate by which a server shows itself to the others."""

    serial: str
    expires_at_ms: int


class ReplicaAt(Struct, frozen=True, kw_only=True):
    """How far one server has come; `digest` is that at the index asked for, None when it does not know it.

    `problem` is what keeps it from being of use although it answers: its disk is full, its member does not run.
    """

    name: str
    leads: bool
    applied_index: int
    digest: str | None = None
    certificate: CertificateState | None = None
    problem: str = ""
    warning: str = ""
    newest_level: int = 1  # that it supports; a server that does not say it is of release 0.1.0
    newest_protocol: int = 1  # that it speaks with other servers
    oldest_protocol: int = 1
    release: str = ""  # that it runs; empty: it is too old to say it


class ServerState(Struct, frozen=True, kw_only=True):
    """One server: `replica` is None when it does not answer, and `problem` says why. `address` is where it listens for the others.

    `clock_skew_ms` is how far its clock is ahead of the asking server's; `warning` says what an operator should look at.
    """

    name: str
    replica: ReplicaAt | None = None
    problem: str = ""
    clock_skew_ms: int | None = None
    warning: str = ""
    address: str = ""


def alone(name: str, applied_index: int, release: str = "") -> ServerState:
    """A server that shares its log with no other: its own only member."""
    ours = OURS[Border.SERVER]
    replica = ReplicaAt(
        name=name,
        leads=True,
        applied_index=applied_index,
        newest_level=NEWEST,
        newest_protocol=ours.newest,
        oldest_protocol=ours.oldest,
        release=release,
    )
    return ServerState(name=name, replica=replica)


def level_blocked_by(servers: Iterable[ServerState], level: int) -> str:
    """Why the cluster cannot be raised to this level, with the name of the server that keeps it down; empty when it can."""
    for server in servers:
        if server.replica is None:
            problem = server.problem or "it does not answer"
            return f"what server {server.name} supports is not known ({problem}); start it, or remove it"
        if server.replica.newest_level < level:
            return f"server {server.name} supports level {server.replica.newest_level} at most; upgrade it first"
    return ""


class QuorumView(Protocol):
    @property
    def leader_name(self) -> str:
        """The leader; empty while there is none."""
        ...

    def replica_at(self, index: int | None) -> ReplicaAt:
        """This server's own replica, with its digest at `index`, or at its newest entry."""
        ...

    async def resign(self, successor: str) -> None:
        """Gives leadership up, when it is here; `successor`, where one is named, has the first chance."""
        ...

    async def ask_all(self, index: int | None) -> list[ServerState]:
        """How far every server has come, with the digests at `index`."""
        ...


class PeerService(Protocol):
    """What a server does for the other ones, and for one that shall become one of them."""

    async def is_member(self, name: str) -> bool:
        """Whether a server of this name belongs to the cluster. A certificate that names no server has an empty name."""
        ...

    async def admit(self, request: bytes) -> bytes:
        """Certificates for a new server with an invitation. Raises MembershipRefused."""
        ...

    def replica_at(self, index: int | None) -> ReplicaAt:
        """This server's own replica, with its digest at `index`, or at its newest entry."""
        ...

    def hand_over(self) -> AsyncIterator[bytes]:
        """This server's newest snapshot with its archive, piece by piece."""
        ...

    async def backups(self) -> list[BackupRecord]:
        """The backups that lie on this server."""
        ...

    async def verify_backup(self, path: str) -> BackupRecord:
        """Checks one of them. Raises MembershipRefused."""
        ...

    def backup_file(self, path: str, name: str, offset: int) -> AsyncIterator[bytes]:
        """A file of one of them, from that byte on. Raises MembershipRefused."""
        ...

    async def fetch_backup(self, path: str, server: str) -> BackupRecord:
        """Takes a copy of a backup of another server. Raises MembershipRefused."""
        ...

    async def renew(self) -> CertificateState:
        """Gives this server new certificates, which it uses immediately. Raises MembershipRefused."""
        ...


class ServerInfo(Struct, frozen=True, kw_only=True):
    """One server as a member: what it may do, where it is, and how it is."""

    name: str
    role: Role
    healthy: bool = False
    leads: bool = False
    rest: str = ""
    grpc: str = ""
    peer: str = ""
    etcd_version: str = ""
    database_bytes: int = 0
    certificate: CertificateState | None = None
    invited_until_ms: int = 0
    problem: str = ""


class Invited(Struct, frozen=True, kw_only=True):
    """`token` is what the new server is started with; its holder can become that server."""

    name: str
    token: str
    expires_at_ms: int


class Renewed(Struct, frozen=True, kw_only=True):
    name: str
    certificate: CertificateState | None = None
    problem: str = ""


class Membership(Protocol):
    """Changes of who belongs to the servers. All raise MembershipRefused."""

    async def servers(self) -> list[ServerInfo]:
        """All members by name, then those that are invited."""
        ...

    async def invite(self, name: str, lifetime_s: int) -> Invited:
        """An invitation for a server of this name. Refuses a name that is taken."""
        ...

    async def promote(self, name: str) -> None:
        """Gives a server that has caught up its vote; one that is new gets it by itself."""
        ...

    async def has_begun_removal(self, name: str, request_id: str) -> bool:
        """Whether this request has begun to remove the server already: a leader that removes itself leaves the rest to the next one."""
        ...

    async def remove(self, name: str, request_id: str) -> None:
        """Takes a server, or an invitation, out. Refuses what would leave no majority of servers that answer.

        The same request may be repeated when its answer got lost.
        """
        ...

    async def begin_transfer(self, request_id: str) -> bool:
        """Whether leadership is to be given up for this request: not when that was done, and only the answer got lost."""
        ...

    async def renew_all(self) -> list[Renewed]:
        """New certificates for every server, one after the other."""
        ...
