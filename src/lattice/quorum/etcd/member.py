"""Our own etcd member: bootstrapped, restarted or joined, and kept running until we stop.

The member is a child that the kernel kills with its server. Its parameters are recorded before it starts, so that an interrupted
start continues with the same ones: a member that should restart but finds no data refuses, because an empty directory would create
an empty cluster.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lattice.quorum.durable import create_private
from lattice.quorum.etcd import launch as etcd_launch
from lattice.quorum.etcd.client import EtcdClient, EtcdDenied, EtcdError, EtcdRefused, EtcdUnavailable
from lattice.quorum.etcd.damage import compare, is_served, remedy, strangers
from lattice.quorum.etcd.keys import EPOCH
from lattice.quorum.etcd.settings import (
    MemberFailed,
    MemberRemoved,
    MemberSettings,
    Origin,
    check_free,
    has_data,
    member_arguments,
    private_folder,
    write_origin,
)
from lattice.quorum.etcd.version import Version, installed_version
from lattice.wire.pb import etcd_pb2 as pb

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 5.0
_ADD_WITHIN_S = 30.0
_ASK_WITHIN_S = 10.0
_FREE_WITHIN_S = 2.0
_POLL_S = 0.05
_RESTART_S = (0.1, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 60.0
# How long a member counts as unhealthy after two consecutive deaths.
_FAILING_S = 20.0
# A member that has run for this long has recovered.
_RECOVERED_S = 4.0
_LOG_TAIL_BYTES = 16_384
LOG_LIMIT_BYTES = 16 << 20
_LOG_CHECK_S = 60.0
# etcd's answer to a membership change while not all members have been connected for some seconds.
_UNHEALTHY = "unhealthy cluster"
_ENVIRONMENT = ("PATH", "HOME", "LANG", "TZ")

_log = logging.getLogger(__name__)


class _Record(msgspec.Struct, frozen=True):
    """A log line of a member."""

    level: str
    msg: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.msg}: {self.error}" if self.error else self.msg


class EtcdMember:
    """One member: `bootstrap`, `restart` or `join` it once, `stop` it at the end; in between it is restarted when it dies."""

    def __init__(self, settings: MemberSettings) -> None:
        self.settings = settings
        self.restarts = 0
        self._deaths: deque[float] = deque(maxlen=2)
        self._spawned_at = 0.0
        self.version: Version | None = None
        # Client addresses of other members, which are asked whether this one still belongs to the cluster.
        self.others: Sequence[str] = ()
        self.removed = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._comparison: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The process, if one is running."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    @property
    def trouble(self) -> str:
        """Why the member does not serve, if it died repeatedly just now; empty otherwise."""
        now = time.monotonic()
        is_failing = len(self._deaths) == 2 and now - self._deaths[0] < _FAILING_S
        if self.pid is not None and now - self._spawned_at > _RECOVERED_S:
            return ""
        return f"its etcd member dies repeatedly: {self._told()}" if is_failing else ""

    def client(self, others: Sequence[str] = ()) -> EtcdClient:
        """A client that tries this member first and then `others`."""
        return EtcdClient([self.settings.client_listen, *others], self.settings.certificates)

    async def bootstrap(self, token: str = "", cluster: Mapping[str, str] | None = None) -> None:
        """Starts the first member of a new cluster. Refuses a directory that already contains a member.

        Several may bootstrap together: all get the same token and the same names with their peer URLs.
        """
        settings = self.settings
        if settings.started.exists() or (has_data(settings) and not settings.origin.exists()):
            raise MemberFailed(f"data_dir: {settings.folder} already contains a member; start without --bootstrap")
        if settings.origin.exists():
            # The first start was interrupted before the member had answered.
            await self._start_and_wait(self._known_origin())
            return
        token = token or f"lattice-{secrets.token_hex(8)}"
        members = dict(cluster or {settings.name: settings.peer_url})
        if members.get(settings.name) != settings.peer_url:
            raise MemberFailed(
                f"member {settings.name} at {settings.peer_url} is not among the initial members: {members}"
            )
        origin = Origin(name=settings.name, token=token, cluster=members, is_joining=False)
        await self._first_start(origin)

    async def restart(self) -> None:
        """Starts a member that was started before. Refuses if its data is gone.

        It would create an empty cluster, or return as a voter that has forgotten its votes.
        """
        origin = self._known_origin()
        if self.settings.removed.exists():
            raise MemberRemoved(self.settings)
        if self.settings.started.exists() and not has_data(self.settings):
            raise MemberFailed(
                f"the data of member {origin.name} is missing from {self.settings.data}; "
                "remove the member from the cluster and join it again, or restore a backup"
            )
        await self._start_and_wait(origin)

    async def join(self, endpoints: Sequence[str], *, promote_within_s: float = 300.0) -> None:
        """Adds this server to a running cluster as a learner, starts it, and promotes it once it has caught up.

        May be called again after it was interrupted.
        """
        async with EtcdClient(endpoints, self.settings.certificates) as seed:
            origin = await self._joined_origin(seed)
            if not self.settings.origin.exists():
                write_origin(self.settings, origin)
            await self._start_and_wait(origin)
            await self._promote(seed, promote_within_s)

    async def wait_ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Returns when the member answers and has a leader. Raises MemberFailed with its last log line."""
        deadline = time.monotonic() + within_s
        deaths = self.restarts
        why = "it did not answer"
        async with self.client() as client:
            while time.monotonic() < deadline:
                if self.pid is None or self.restarts > deaths:
                    raise MemberFailed(f"etcd member {self.settings.name} failed to start: {self._told()}")
                try:
                    if (await client.status(1.0)).leader:
                        return
                    why = "it has no leader; are the other members up?"
                except EtcdError as error:
                    why = str(error)
                await asyncio.sleep(_POLL_S)
        why = strangers(self.settings, self._log_tail()) or why
        raise MemberFailed(f"etcd member {self.settings.name} is not ready after {within_s:.0f} s: {why}")

    async def serves(self) -> bool:
        """Whether the member answers now and has a leader."""
        async with self.client() as client:
            try:
                return bool((await client.status(1.0)).leader)
            except EtcdError:
                return False

    async def stop(self) -> None:
        """Stops the member, which transfers its leadership first if possible. Idempotent."""
        self._stopping = True
        self._leave_comparison()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _told(self) -> str:
        """Its last log line, and advice for an operator."""
        words = self.last_words()
        return words + remedy(self.settings, words)

    def last_words(self) -> str:
        """The last error that the member logged, or else its last line."""
        lines = self._log_tail()
        records = [record for line in lines if (record := _read_record(line)) is not None]
        bad = [record for record in records if record.level in ("error", "fatal", "panic")]
        if bad:
            return str(bad[-1])
        return lines[-1].decode("utf-8", "replace") if lines else "it wrote nothing"

    def _log_tail(self) -> list[bytes]:
        try:
            with self.settings.log.open("rb") as file:
                file.seek(max(0, self.settings.log.stat().st_size - _LOG_TAIL_BYTES))
                return file.read().splitlines()
        except OSError:
            return []

    async def _first_start(self, origin: Origin) -> None:
        self.version = await installed_version(self.settings.program)
        write_origin(self.settings, origin)
        try:
            await self._start_and_wait(origin)
        except MemberFailed:
            # Nothing was stored yet: the next attempt may start from scratch.
            if not has_data(self.settings):
                self.settings.origin.unlink(missing_ok=True)
            raise

    async def _start_and_wait(self, origin: Origin) -> None:
        await self._start(origin)
        try:
            await self._ready_or_removed()
        except BaseException:
            await self.stop()
            raise
        if not self.settings.started.exists():
            create_private(self.settings.started)

    async def _ready_or_removed(self) -> None:
        ready = asyncio.create_task(self.wait_ready())
        removed = asyncio.create_task(self.removed.wait())
        try:
            await asyncio.wait((ready, removed), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done() or (ready.exception() is not None and await self._was_removed()):
                raise MemberRemoved(self.settings)
            ready.result()
        finally:
            ready.cancel()
            removed.cancel()
            await asyncio.gather(ready, removed, return_exceptions=True)

    async def _was_removed(self) -> bool:
        """Whether the others no longer list this member; False if none answers.

        A member that exits with 0 was stopped, but not by us: then the others are asked until one answers.
        """
        if self.removed.is_set():
            return True
        if not self.others or not self.settings.started.exists():
            return False
        has_left = self._process is not None and self._process.returncode == 0
        deadline = time.monotonic() + (_ASK_WITHIN_S if has_left else 0.0)
        async with EtcdClient(self.others, self.settings.certificates) as client:
            while True:
                for _ in self.others:
                    with contextlib.suppress(EtcdError):
                        # Each member lists the members it knows: this one has to catch up first. Then it denies a removed server.
                        with contextlib.suppress(EtcdDenied):
                            await client.range(pb.RangeRequest(key=EPOCH))
                        return self._note_removal(await client.members())
                if time.monotonic() > deadline:
                    return False
                await asyncio.sleep(_POLL_S * 4)

    def _note_removal(self, members: Sequence[pb.Member]) -> bool:
        if any(self.settings.peer_url in member.peerURLs for member in members):
            return False
        create_private(self.settings.removed)
        self.removed.set()
        return True

    def _known_origin(self) -> Origin:
        try:
            origin = msgspec.json.decode(self.settings.origin.read_bytes(), type=Origin)
        except FileNotFoundError:
            raise MemberFailed(
                f"data_dir: {self.settings.folder} has never been a member; start with --bootstrap (the first server) or --join"
            ) from None
        except msgspec.DecodeError as error:
            raise MemberFailed(f"cannot read {self.settings.origin}: {error}") from error
        if origin.name != self.settings.name:
            raise MemberFailed(
                f"data_dir: {self.settings.folder} has the data of server {origin.name}, and this is {self.settings.name}; "
                "correct `name` or `data_dir` in the configuration"
            )
        return origin

    async def _joined_origin(self, seed: EtcdClient) -> Origin:
        settings = self.settings
        try:
            members = await _listed(seed)
            is_member = any(settings.peer_url in member.peerURLs for member in members)
            if settings.origin.exists():
                if not is_member:
                    raise MemberRemoved(settings)
                return self._known_origin()
            _check_joinable(settings, members)
            if not is_member:
                members = await self._add_learner(seed)
                _check_joinable(settings, members)
        except EtcdDenied as error:
            raise MemberFailed(
                f"server {settings.name} has no valid invitation: run `lattice admin raft members add {settings.name}`, "
                "and start it with --join --join-token-file FILE"
            ) from error
        except EtcdRefused as error:
            raise MemberFailed(f"the cluster did not accept member {settings.name}: {error}") from error
        except EtcdUnavailable as error:
            raise MemberFailed(f"no member of the cluster answers: {error}") from error
        cluster = {member.name: member.peerURLs[0] for member in members if settings.peer_url not in member.peerURLs}
        cluster[settings.name] = settings.peer_url
        return Origin(name=settings.name, token="", cluster=cluster, is_joining=True)

    async def _add_learner(self, seed: EtcdClient) -> Sequence[pb.Member]:
        """The members including ours. A cluster accepts a new one only if all have been connected for some seconds."""
        deadline = time.monotonic() + _ADD_WITHIN_S
        while True:
            try:
                # A member that lags may not know this server's user yet: a read waits until it has caught up.
                await seed.range(pb.RangeRequest(key=EPOCH))
                return list((await seed.add_learner(self.settings.peer_url)).members)
            except EtcdDenied:
                raise
            except EtcdUnavailable as error:
                if time.monotonic() > deadline:
                    if _UNHEALTHY in str(error):
                        raise MemberFailed(
                            "the cluster accepts no new member while one of its members does not answer; "
                            "repair that one or remove it: lattice admin raft members list"
                        ) from error
                    raise
            await asyncio.sleep(_POLL_S * 4)
            # An attempt without an answer may have added it.
            with contextlib.suppress(EtcdUnavailable):
                members = await seed.members()
                if any(self.settings.peer_url in member.peerURLs for member in members):
                    return members

    async def _promote(self, seed: EtcdClient, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        why = ""
        while time.monotonic() < deadline:
            try:
                members = await seed.members()
                mine = next((m for m in members if self.settings.peer_url in m.peerURLs), None)
                if mine is None:
                    raise MemberFailed(f"member {self.settings.name} was removed while it joined")
                if mine.isLearner:
                    await seed.promote(mine.ID)
                elif await self._votes():
                    return
            except EtcdError as error:
                why = str(error)
            await asyncio.sleep(_POLL_S)
        raise MemberFailed(f"member {self.settings.name} has not caught up after {within_s:.0f} s: {why}")

    async def _votes(self) -> bool:
        """Whether the member itself has heard of its promotion; until then it refuses to read and to write."""
        async with self.client() as client:
            return not (await client.status(1.0)).isLearner

    async def _start(self, origin: Origin) -> None:
        if self.pid is not None:
            raise MemberFailed(f"member {origin.name} is already running as process {self.pid}")
        if self.version is None:
            self.version = await installed_version(self.settings.program)
        for address in (self.settings.client_listen, self.settings.peer_listen):
            await _wait_free(address)
        private_folder(self.settings.folder)
        private_folder(self.settings.data)
        self._stopping = False
        self._process = await self._spawn(origin, self.version)
        self._keeper = asyncio.create_task(self._keep(origin, self.version))

    async def _spawn(self, origin: Origin, version: Version) -> asyncio.subprocess.Process:
        compares_first = await self._others_serve()
        self._leave_comparison()
        if not compares_first and self.others:
            self._comparison = asyncio.create_task(self._compare())
        arguments = member_arguments(self.settings, origin, version, compares_first=compares_first)
        self._spawned_at = time.monotonic()
        fd = os.open(self.settings.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                etcd_launch.__file__,
                str(os.getpid()),
                self.settings.program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                # etcd also reads options from ETCD_*: it must not inherit them from the server's environment.
                env={name: value for name in _ENVIRONMENT if (value := os.environ.get(name)) is not None},
                # A signal for the server's process group, such as Ctrl-C, ends the server, which then stops its member.
                start_new_session=True,
            )
        finally:
            os.close(fd)

    async def _others_serve(self) -> bool:
        """Members that start together would wait for each other's data before they serve."""
        clients = [EtcdClient([other], self.settings.certificates) for other in self.others]
        try:
            return await is_served(clients)
        finally:
            for client in clients:
                await client.close()

    async def _compare(self) -> None:
        """Catches up on the comparison that the start left out; restarts a member that differs, which then compares itself."""
        clients = [EtcdClient([other], self.settings.certificates) for other in self.others]
        own = self.client()
        try:
            if await compare(own, clients):
                return
        finally:
            for client in (own, *clients):
                await client.close()
        _log.error("the data of etcd member %s differs from that of the others: restarting it", self.settings.name)
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _leave_comparison(self) -> None:
        comparison, self._comparison = self._comparison, None
        if comparison is not None:
            comparison.cancel()

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOG_CHECK_S):
                    return await process.wait()
            await asyncio.to_thread(_cut_log, self.settings.log)

    async def _keep(self, origin: Origin, version: Version) -> None:
        failures = 0
        while not self._stopping and self._process is not None:
            begin = time.monotonic()
            code = await self._ended(self._process)
            if await self._was_removed():
                _log.warning("server %s was removed from the cluster", self.settings.name)
                return
            self._deaths.append(time.monotonic())
            failures = 0 if time.monotonic() - begin > _STEADY_S else failures + 1
            pause = _RESTART_S[min(failures, len(_RESTART_S)) - 1] if failures else 0.0
            _log.error(
                "etcd member %s exited with %s, restarting in %.1f s: %s",
                self.settings.name,
                code,
                pause,
                self._told(),
            )
            await asyncio.sleep(pause)
            self.restarts += 1
            try:
                self._process = await self._spawn(origin, version)
            except OSError as error:
                _log.error("cannot start etcd member %s: %s", self.settings.name, error)


async def _listed(seed: EtcdClient) -> Sequence[pb.Member]:
    """The members as one that answers lists them; all are asked again while none does."""
    deadline = time.monotonic() + _ADD_WITHIN_S
    while True:
        try:
            return await seed.members()
        except EtcdDenied:
            raise
        except EtcdUnavailable:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_POLL_S * 4)


async def _wait_free(address: str) -> None:
    """Returns when the address is free: a connection of another process may hold the port briefly."""
    deadline = time.monotonic() + _FREE_WITHIN_S
    while True:
        try:
            check_free(address)
        except MemberFailed:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_POLL_S)
        else:
            return


def _read_record(line: bytes) -> _Record | None:
    try:
        return msgspec.json.decode(line, type=_Record)
    except msgspec.DecodeError:
        return None


def _cut_log(path: Path, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
    """Rotates a large log of a member; the member keeps appending to the file."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > limit_bytes:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            os.truncate(path, 0)


def _check_joinable(settings: MemberSettings, members: Sequence[pb.Member]) -> None:
    for member in members:
        if settings.peer_url in member.peerURLs:
            continue
        # A member that has not started yet has no name.
        if not member.name:
            raise MemberFailed(f"another server is joining at {member.peerURLs[0]}; let it finish, or remove it first")
        if member.name == settings.name:
            raise MemberFailed(f"member {member.name} already exists at {member.peerURLs[0]}")
