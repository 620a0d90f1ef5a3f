"""Members on hosts of their own: a network namespace each, on one bridge, that can be cut off from each other."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lattice.quorum.etcd.settings import MemberSettings
from lattice.quorum.trust.certificates import install, issue
from tests.conftest import require_program
from tests.integration.quorum.etcd_world import Etcd, in_time


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=not check)


class Network:
    """A bridge with one namespace per member; the test itself sits on the bridge."""

    def __init__(self, names: list[str]) -> None:
        require_program("ip")
        # Up to 15 characters, and apart from those of another test run on this machine.
        tag = f"{os.getpid() % 100_000}"
        self._bridge = f"ltb{tag}"
        self._prefix = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self._spaces = {name: f"lt{tag}{name}" for name in names}
        self._addresses = {name: f"{self._prefix}.{number}" for number, name in enumerate(names, start=2)}

    def up(self) -> None:
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", f"{self._prefix}.1/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        for name, space in self._spaces.items():
            ip("netns", "add", space)
            ip("link", "add", f"{space}v", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"{space}v", "master", self._bridge, "up")
            ip("-n", space, "addr", "add", f"{self._addresses[name]}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "set", "eth0", "up")

    def down(self) -> None:
        for space in self._spaces.values():
            ip("link", "del", f"{space}v", check=False)
            ip("netns", "del", space, check=False)
        ip("link", "del", self._bridge, check=False)

    def address(self, name: str) -> str:
        return self._addresses[name]

    def space(self, name: str) -> str:
        """The name of the host's namespace."""
        return self._spaces[name]

    def inside(self, name: str) -> list[str]:
        """What to put in front of a command so that it runs on that host."""
        return ["ip", "netns", "exec", self._spaces[name]]

    def unplug(self, name: str) -> None:
        """The host's only link is dead: nothing comes in or out, and nobody is told."""
        ip("link", "set", f"{self._spaces[name]}v", "down")

    def plug_in(self, name: str) -> None:
        ip("link", "set", f"{self._spaces[name]}v", "up")

    def cut_off(self, name: str) -> None:
        """The host reaches no other one any more; the test still reaches it."""
        for other, address in self._addresses.items():
            if other != name:
                ip("-n", self._spaces[name], "route", "add", "blackhole", f"{address}/32")

    def heal(self, name: str) -> None:
        for other, address in self._addresses.items():
            if other != name:
                ip("-n", self._spaces[name], "route", "del", "blackhole", f"{address}/32")


@contextmanager
def etcd_on_hosts(folder: Path, count: int = 3) -> Iterator[tuple[Etcd, Network]]:
    etcd = Etcd(folder, count)
    network = Network(list(etcd.members))
    try:
        network.up()
        hosts = [network.address(name) for name in etcd.members]
        install(etcd.certificates, issue(etcd.certificates, hosts))
        for name, settings in list(etcd.members.items()):
            etcd.move(_on_host(settings, network.address(name)), network.inside(name))
        for name in etcd.members:
            etcd.start(name)
        in_time(etcd.wait_ready())
        yield etcd, network
    finally:
        etcd.stop()
        network.down()


def _on_host(settings: MemberSettings, host: str) -> MemberSettings:
    return MemberSettings(
        name=settings.name,
        folder=settings.folder,
        certificates=settings.certificates,
        client_listen=f"{host}:2379",
        peer_listen=f"{host}:2380",
        quota_bytes=settings.quota_bytes,
    )
