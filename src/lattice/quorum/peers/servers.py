"""One server's view of the others: the leader's address, each server's progress, and requests among them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from lattice.config.release import installed_release
from lattice.core.machine.levels import NEWEST
from lattice.core.model.site.protocols import OURS, Border
from lattice.ports.clock import Clock
from lattice.ports.quorum.backups import BackupError, BackupRecord
from lattice.ports.quorum.leadership import Leadership
from lattice.ports.quorum.peers import PeerCalls, PeerLost
from lattice.ports.quorum.servers import CertificateState, MembershipRefused, Renewed, ReplicaAt, ServerState
from lattice.quorum.peers.clock_skew import SkewWatch
from lattice.quorum.peers.directory import ServerDirectory
from lattice.quorum.peers.handover import NothingToHandOver, pack, unpack
from lattice.quorum.replica import LogReplica
from lattice.quorum.trust.certificates import CertificateError, CertificateFolder

_PIECE = 1 << 18

_log = logging.getLogger(__name__)


class QuorumServers:
    """Implements `QuorumView`, and says where the leader is to those who forward to it.

    `problem` says what keeps this server from being of use though it answers, `warning` what an operator should know of it.
    """

    def __init__(
        self,
        name: str,
        directory: ServerDirectory,
        leadership: Leadership,
        replica: LogReplica,
        certificates: CertificateFolder,
        data_dir: Path,
        clock: Clock,
        skew: SkewWatch,
        calls: PeerCalls,
        problem: Callable[[], str],
        warning: Callable[[], str],
    ) -> None:
        self._name = name
        self._directory = directory
        self._leadership = leadership
        self._replica = replica
        self._certificates = certificates
        self._data_dir = data_dir
        self._clock = clock
        self._skew = skew
        self._calls = calls
        self._problem = problem
        self._warning = warning
        self._moved: asyncio.Future[None] | None = None
        leadership.on_change(self.wake)
        directory.on_change(self.wake)

    @property
    def url(self) -> str:
        """Where the leader listens for other servers; empty while there is none, or when it is this server."""
        leader = self._leadership.leader_name
        return "" if leader == self._name else self._url(leader)

    def _url(self, name: str) -> str:
        entry = self._directory.get(name)
        return "" if entry is None or not entry.internal else f"https://{entry.internal}"

    def moved(self) -> "asyncio.Future[None]":
        """Done when the leader changed after this call."""
        if self._moved is None or self._moved.done():
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    def wake(self) -> None:
        """Everyone who waits for the leader to move looks again."""
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)

    @property
    def leader_name(self) -> str:
        return self._leadership.leader_name

    def replica_at(self, index: int | None) -> ReplicaAt:
        applied = self._replica.applied_index
        return ReplicaAt(
            name=self._name,
            leads=self._replica.is_leader and self._leadership.is_leader,
            applied_index=applied,
            digest=self._replica.digest_at(applied if index is None else index),
            certificate=self._certificate(),
            problem=self._problem(),
            warning=self._warning(),
            newest_level=NEWEST,
            newest_protocol=OURS[Border.SERVER].newest,
            oldest_protocol=OURS[Border.SERVER].oldest,
            release=installed_release(),
        )

    def _certificate(self) -> CertificateState | None:
        try:
            return certificate_state(self._certificates)
        except CertificateError:
            return None

    async def ask_all(self, index: int | None) -> list[ServerState]:
        names = list(self._directory.entries) or [self._name]
        return list(await asyncio.gather(*(self._ask(name, index) for name in names)))

    async def _ask(self, name: str, index: int | None) -> ServerState:
        entry = self._directory.get(name)
        address = "" if entry is None else entry.internal or entry.peer
        if name == self._name:
            return ServerState(name=name, replica=self.replica_at(index), address=address)
        sent_ms, begin = self._clock.now_ms(), time.monotonic()
        try:
            replica, clock_ms = await self._calls.replica(self._reached(name), index)
        except PeerLost as error:
            return ServerState(name=name, problem=str(error), address=address)
        trip_ms = (time.monotonic() - begin) * 1000
        skew_ms, warning = self._skew.note(name, clock_ms, sent_ms, trip_ms)
        return ServerState(name=name, replica=replica, clock_skew_ms=skew_ms, warning=warning, address=address)

    async def measure_clocks(self) -> None:
        """Asks the other servers for their time; those that do not answer are left out."""
        names = [name for name in self._directory.entries if name != self._name]
        answers = await asyncio.gather(*(self._ask(name, None) for name in names))
        self._skew.keep_only([answer.name for answer in answers if answer.replica is not None])

    async def ask_to_renew(self, name: str) -> Renewed:
        """Asks another server to renew its certificates."""
        try:
            return Renewed(name=name, certificate=await self._calls.renew(self._reached(name)))
        except PeerLost as error:
            return Renewed(name=name, problem=str(error))

    @property
    def name(self) -> str:
        return self._name

    @property
    def others(self) -> list[str]:
        return [name for name in self._directory.entries if name != self._name]

    async def backups_of(self, name: str) -> list[BackupRecord]:
        """The backups of another server; empty, with a log message, if it does not answer."""
        try:
            return await self._calls.backups(self._reached(name))
        except PeerLost as error:
            _log.warning("cannot list the backups of server %s: %s", name, error)
            return []

    async def verify_backup_of(self, name: str, path: str) -> BackupRecord:
        """Asks another server to verify one of its backups. Raises BackupError."""
        try:
            return await self._calls.verify_backup(self._reached(name), path)
        except PeerLost as error:
            raise BackupError(f"server {name}: {error}") from error

    async def backup_file_of(self, name: str, path: str, file: str, offset: int) -> AsyncIterator[bytes]:
        """A file of a backup of another server, from that byte on. Raises PeerLost."""
        async for piece in self._calls.backup_file(self._reached(name), path, file, offset):
            yield piece

    async def let_fetch(self, name: str, path: str, server: str) -> BackupRecord:
        """Lets another server fetch a backup. Raises BackupError."""
        try:
            return await self._calls.fetch_backup(self._reached(name), path, server)
        except PeerLost as error:
            raise BackupError(f"server {name}: {error}") from error

    def _reached(self, name: str) -> str:
        """Where that server listens for others. Raises PeerLost."""
        url = self._url(name)
        if not url:
            raise PeerLost("its address is not known yet")
        return url

    async def resign(self, successor: str) -> None:
        await self._leadership.resign(successor)

    async def hand_over(self) -> AsyncIterator[bytes]:
        try:
            packed = await asyncio.to_thread(pack, self._data_dir)
        except NothingToHandOver as error:
            raise MembershipRefused("not_found", str(error)) from error
        try:
            with packed.open("rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    yield piece
        finally:
            packed.unlink(missing_ok=True)

    async def fetch_state(self, at_least: int) -> int:
        """Installs a snapshot that is not older than `at_least`, and the archive, of another server; its index, 0 if no server has one.

        Servers make snapshots at different moments, and the log is cut by that of its leader.
        """
        for name in self._directory.entries:
            url = self._url(name)
            if name == self._name or not url:
                continue
            scratch = self._data_dir / f".from-{name}.tar"
            try:
                await self._calls.fetch_state(url, scratch)
                return await asyncio.to_thread(unpack, scratch, self._data_dir, at_least)
            except (PeerLost, NothingToHandOver, OSError) as error:
                _log.warning("server %s does not provide its state: %s", name, error)
            finally:
                scratch.unlink(missing_ok=True)
        return 0


def certificate_state(folder: CertificateFolder) -> CertificateState:
    return CertificateState(serial=folder.serial(), expires_at_ms=int(folder.expires_at().timestamp() * 1000))
