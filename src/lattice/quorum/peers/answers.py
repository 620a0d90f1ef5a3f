"""What a server answers the other ones, and one that shall become one of them."""

import contextlib
from collections.abc import AsyncIterator

from lattice.ports.quorum.backups import BackupError, BackupMissing, BackupRecord
from lattice.ports.quorum.servers import CertificateState, MembershipRefused, ReplicaAt
from lattice.quorum.backup.service import BackupService
from lattice.quorum.etcd.client import EtcdError
from lattice.quorum.peers.backups import AllBackups
from lattice.quorum.peers.directory import ServerDirectory
from lattice.quorum.peers.membership import QuorumMembership
from lattice.quorum.peers.servers import QuorumServers
from lattice.quorum.trust.tls import server_of_pem


class KnownServers:
    """Who a caller is by its certificate, and whether it is a member, as the directory shows it."""

    def __init__(self, directory: ServerDirectory) -> None:
        self._directory = directory

    def named_by(self, certificate: bytes) -> str:
        return server_of_pem(certificate)

    async def is_member(self, name: str) -> bool:
        if name in self._directory.entries:
            return True
        with contextlib.suppress(EtcdError):
            await self._directory.look()
        return name in self._directory.entries


class PeerAnswers:
    """Implements `PeerService`. `backups` are those on this server, None where it makes none."""

    def __init__(
        self, known: KnownServers, servers: QuorumServers, membership: QuorumMembership, backups: BackupService | None
    ) -> None:
        self._known = known
        self._servers = servers
        self._membership = membership
        self._backups = backups

    async def is_member(self, name: str) -> bool:
        return await self._known.is_member(name)

    async def admit(self, request: bytes) -> bytes:
        return await self._membership.admit(request)

    def replica_at(self, index: int | None) -> ReplicaAt:
        return self._servers.replica_at(index)

    def hand_over(self) -> AsyncIterator[bytes]:
        return self._servers.hand_over()

    async def backups(self) -> list[BackupRecord]:
        return [] if self._backups is None else await self._backups.list()

    async def verify_backup(self, path: str) -> BackupRecord:
        try:
            return await self._own().verify(path)
        except BackupError as error:
            raise _refused(error) from error

    async def backup_file(self, path: str, name: str, offset: int) -> AsyncIterator[bytes]:
        try:
            async for piece in self._own().pieces(path, name, offset):
                yield piece
        except BackupError as error:
            raise _refused(error) from error

    async def fetch_backup(self, path: str, server: str) -> BackupRecord:
        try:
            return await AllBackups(self._own(), self._servers).fetch(path, server)
        except BackupError as error:
            raise _refused(error) from error

    def _own(self) -> BackupService:
        if self._backups is None:
            raise MembershipRefused("not_found", "this server has no backups")
        return self._backups

    async def renew(self) -> CertificateState:
        return await self._membership.renew()


def _refused(error: BackupError) -> MembershipRefused:
    return MembershipRefused("not_found" if isinstance(error, BackupMissing) else "conflict", str(error))
