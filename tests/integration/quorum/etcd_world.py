"""Real etcd members for tests, on loopback and free ports, with certificates of their own; they die with the test."""

import asyncio
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lattice.quorum.etcd import launch as etcd_launch
from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.quorum.etcd.settings import MemberSettings, Origin, member_arguments
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
from lattice.wire.pb import etcd_pb2 as pb
from tests.conftest import require_program

VERSION = (3, 4, 23)


def _own_ports() -> Iterator[int]:
    """Below those that the kernel gives to connections and those of local clusters: they could take one while its member is down.

    Each worker of the suite has its own, and gives none out again before all others had their turn.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 10_000 + worker % 10 * 500
    ports = list(range(first, first + 500))
    random.SystemRandom().shuffle(ports)
    return itertools.cycle(ports)


_PORTS = _own_ports()


def free_address() -> str:
    """An address that nobody else is given until it is used."""
    for port in _PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return f"127.0.0.1:{port}"
    raise AssertionError("the ports never end")


def new_certificates(folder: Path) -> CertificateFolder:
    certificates = CertificateFolder(folder)
    create_authority(certificates)
    install(certificates, issue(certificates, ["127.0.0.1"]))
    return certificates


def settings_for(
    folder: Path, name: str, certificates: CertificateFolder, quota_bytes: int = 256 << 20
) -> MemberSettings:
    return MemberSettings(
        name=name,
        folder=folder / name,
        certificates=certificates,
        client_listen=free_address(),
        peer_listen=free_address(),
        quota_bytes=quota_bytes,
    )


async def until(done: Callable[[], Awaitable[bool]], what: str, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not await done():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.02)


def in_time(scenario: Coroutine[Any, Any, None], within_s: float = 60.0) -> None:
    asyncio.run(asyncio.wait_for(scenario, within_s))


class Etcd:
    """Members that are processes of the test itself, whatever event loop comes and goes."""

    def __init__(self, folder: Path, count: int = 1, quota_bytes: int = 256 << 20) -> None:
        require_program("etcd")
        self.certificates = new_certificates(folder / "certificates")
        names = [f"s{n}" for n in range(1, count + 1)]
        self.members = {name: settings_for(folder, name, self.certificates, quota_bytes) for name in names}
        self._inside: dict[str, list[str]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> list[str]:
        return [settings.client_listen for settings in self.members.values()]

    def move(self, settings: MemberSettings, inside: list[str]) -> None:
        """Before the start: other settings for the member, and what stands in front of its command."""
        self.members[settings.name] = settings
        self._inside[settings.name] = inside

    def start(self, name: str) -> None:
        settings = self.members[name]
        cluster = {each.name: each.peer_url for each in self.members.values()}
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        origin = Origin(name=name, token="test", cluster=cluster, is_joining=False)
        inside = self._inside.get(name, [])
        launch = [*inside, sys.executable, "-I", "-S", etcd_launch.__file__, str(os.getpid()), "etcd"]
        with settings.log.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*launch, *member_arguments(settings, origin, VERSION)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def client(self, *names: str) -> EtcdClient:
        chosen = [self.members[name].client_listen for name in names] or self.endpoints
        return EtcdClient(chosen, self.certificates)

    def log(self, *names: str, append_within_s: float = 10.0) -> EtcdLog:
        return EtcdLog(self.client(*names), append_within_s=append_within_s)

    async def wait_ready(self) -> None:
        for name in self.members:
            async with self.client(name) as client:

                async def leads(client: EtcdClient = client) -> bool:
                    try:
                        return bool((await client.status(1.0)).leader)
                    except EtcdError:
                        return False

                await until(leads, f"{name} has a leader")

    async def leader(self) -> str:
        """The name of the member that leads."""
        async with self.client() as client:
            names = {member.ID: member.name for member in await client.members()}
            return names[(await client.status()).leader]

    async def wipe(self) -> None:
        """Forgets everything, so that the next test begins with an empty log."""
        async with self.client() as client:
            everything = pb.DeleteRangeRequest(key=b"lattice/", range_end=b"lattice0")
            await client.txn(pb.TxnRequest(success=[pb.RequestOp(request_delete_range=everything)]))


@contextmanager
def running_etcd(folder: Path, count: int = 1, quota_bytes: int = 256 << 20) -> Iterator[Etcd]:
    etcd = Etcd(folder, count, quota_bytes)
    try:
        for name in etcd.members:
            etcd.start(name)
        in_time(etcd.wait_ready())
        yield etcd
    finally:
        etcd.stop()
