"""One server's view of the others: the leader's address, each server's progress, and requests among them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import quote

import msgspec
from starlette.types import ASGIApp

from lattice.api.errors import ErrorAnswer
from lattice.api.rest.exchange import LeaderLost, Pool
from lattice.api.rest.peers import BACKUPS, RENEW, REPLICA, SNAPSHOT, VERIFY
from lattice.core.machine.levels import NEWEST
from lattice.core.model.site.protocols import OURS, Border
from lattice.ports.clock import Clock
from lattice.ports.quorum.backups import BackupError, BackupRecord
from lattice.ports.quorum.leadership import Leadership
from lattice.ports.quorum.servers import CertificateState, MembershipRefused, Renewed, ReplicaAt, ServerState
from lattice.quorum.peers.clock_skew import SkewWatch
from lattice.quorum.peers.directory import ServerDirectory
from lattice.quorum.peers.handover import NothingToHandOver, pack, unpack
from lattice.quorum.replica import LogReplica
from lattice.quorum.trust.certificates import CertificateError, CertificateFolder
from lattice.wire.admin.quorum import ReplicaView, replica_of

ASK_S = 2.0
RENEW_S = 10.0
BACKUPS_S = 5.0
VERIFY_S = 600.0
# The other server packs all data before it sends the first byte.
STALLED_S = 60.0
_PIECE = 1 << 18

_log = logging.getLogger(__name__)


class QuorumServers:
    """Implements `QuorumView`, and `Leader` of the forwarding."""

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
    ) -> None:
        self._name = name
        self._directory = directory
        self._leadership = leadership
        self._replica = replica
        self._certificates = certificates
        self._data_dir = data_dir
        self._clock = clock
        self._skew = skew
        self.pool = Pool()
        self.problem: Callable[[], str] = lambda: ""
        self.warning: Callable[[], str] = lambda: ""
        self._moved: asyncio.Future[None] | None = None
        self.app: ASGIApp | None = None
        leadership.on_change(self._on_change)
        directory.on_change(self._on_change)

    @property
    def url(self) -> str:
        leader = self._leadership.leader_name
        return "" if leader == self._name else self._url(leader)

    def _url(self, name: str) -> str:
        entry = self._directory.get(name)
        return "" if entry is None or not entry.internal else f"https://{entry.internal}"

    def moved(self) -> "asyncio.Future[None]":
        if self._moved is None or self._moved.done():
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    def lead_by(self, app: ASGIApp | None) -> None:
        """From now on `app` answers requests that wait for a leader, or they wait for another one."""
        self.app = app
        self._on_change()

    def _on_change(self) -> None:
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
            problem=self.problem(),
            warning=self.warning(),
            newest_level=NEWEST,
            newest_protocol=OURS[Border.SERVER].newest,
            oldest_protocol=OURS[Border.SERVER].oldest,
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
        if name == self._name:
            return ServerState(name=name, replica=self.replica_at(index))
        query = "" if index is None else f"?index={index}"
        sent_ms, begin = self._clock.now_ms(), time.monotonic()
        try:
            view = msgspec.json.decode(await self._asked(name, "GET", f"{REPLICA}{query}", ASK_S), type=ReplicaView)
        except (LeaderLost, TimeoutError, msgspec.MsgspecError) as error:
            return ServerState(name=name, problem=str(error) or "it does not answer")
        trip_ms = (time.monotonic() - begin) * 1000
        skew_ms, warning = self._skew.note(name, view.clock_ms, sent_ms, trip_ms)
        return ServerState(name=name, replica=replica_of(view), clock_skew_ms=skew_ms, warning=warning)

    async def measure_clocks(self) -> None:
        """Asks the other servers for their time; those that do not answer are left out."""
        names = [name for name in self._directory.entries if name != self._name]
        answers = await asyncio.gather(*(self._ask(name, None) for name in names))
        self._skew.keep_only([answer.name for answer in answers if answer.replica is not None])

    async def ask_to_renew(self, name: str) -> Renewed:
        """Asks another server to renew its certificates."""
        try:
            answer = await self._asked(name, "POST", RENEW, RENEW_S)
            return Renewed(name=name, certificate=msgspec.json.decode(answer, type=CertificateState))
        except (LeaderLost, TimeoutError, msgspec.MsgspecError) as error:
            return Renewed(name=name, problem=str(error) or "it does not answer")

    @property
    def others(self) -> list[str]:
        return [name for name in self._directory.entries if name != self._name]

    async def backups_of(self, name: str) -> list[BackupRecord]:
        """The backups of another server; empty, with a log message, if it does not answer."""
        try:
            return msgspec.json.decode(await self._asked(name, "GET", BACKUPS, BACKUPS_S), type=list[BackupRecord])
        except (LeaderLost, TimeoutError, msgspec.MsgspecError) as error:
            _log.warning("cannot list the backups of server %s: %s", name, str(error) or "it does not answer")
            return []

    async def verify_backup_of(self, name: str, path: str) -> BackupRecord:
        """Asks another server to verify one of its backups. Raises BackupError."""
        try:
            answer = await self._asked(name, "POST", f"{VERIFY}?path={quote(path, safe='')}", VERIFY_S)
            return msgspec.json.decode(answer, type=BackupRecord)
        except (LeaderLost, TimeoutError, msgspec.MsgspecError) as error:
            raise BackupError(f"server {name}: {str(error) or 'it does not answer'}") from error

    async def _asked(self, name: str, method: str, target: str, within_s: float) -> bytes:
        url = self._url(name)
        if not url:
            raise LeaderLost("its address is not known yet")
        async with asyncio.timeout(within_s):
            exchange = await self.pool.begin(url, _request(method, target))
            body = await exchange.body()
        if exchange.status != 200:
            raise LeaderLost(_why(exchange.status, body))
        return body

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

    async def fetch_state(self) -> int:
        """Installs the newest snapshot and the archive of another server; returns the snapshot's index, 0 if no server has one."""
        for name in self._directory.entries:
            url = self._url(name)
            if name == self._name or not url:
                continue
            scratch = self._data_dir / f".from-{name}.tar"
            try:
                status = await self._fetch(url, scratch)
                if status == 200:
                    return await asyncio.to_thread(unpack, scratch, self._data_dir)
                _log.warning("server %s does not provide its state: status %d", name, status)
            except (LeaderLost, NothingToHandOver, OSError) as error:
                _log.warning("server %s does not provide its state: %s", name, str(error) or "it does not respond")
            finally:
                scratch.unlink(missing_ok=True)
        return 0

    async def _fetch(self, url: str, target: Path) -> int:
        """Writes the content of the answer to the file; returns its status. Raises TimeoutError when the data stops."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(STALLED_S) as limit:
            exchange = await self.pool.begin(url, _request("GET", SNAPSHOT))
            with target.open("wb") as file:
                async for piece in exchange.pieces():
                    limit.reschedule(loop.time() + STALLED_S)
                    file.write(piece)
        return exchange.status

    def close(self) -> None:
        self.pool.close()


def certificate_state(folder: CertificateFolder) -> CertificateState:
    return CertificateState(serial=folder.serial(), expires_at_ms=int(folder.expires_at().timestamp() * 1000))


def _request(method: str, target: str) -> bytes:
    return f"{method} {target} HTTP/1.1\r\nhost: lattice\r\ncontent-length: 0\r\n\r\n".encode()


def _why(status: int, body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=ErrorAnswer).error.message
    except msgspec.MsgspecError:
        return f"it answered with status {status}"
