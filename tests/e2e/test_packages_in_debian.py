"""The packages in a Debian of their own: three servers and two agents in network namespaces by the command lines of the units."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from lattice.testing import eventually
from lattice_sdk import Client
from tests.conftest import require_program, require_root
from tests.e2e.debian_root import ROOT, inside, install, make_root
from tests.e2e.test_units import unit
from tests.integration.quorum.etcd_networks import Network

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.root, pytest.mark.timeout(1800)]

SERVERS, NODES = ("s1", "s2", "s3"), ("n1", "n2")
WORK = ("sleep", "4327.5")  # like no other on this machine
ENTER = """\
mount --bind "$1/etc" "$2/etc/lattice"; mount --bind "$1/var" "$2/var/lib/lattice"; mount --bind "$1/run" "$2/run/lattice"
mount --rbind /proc "$2/proc"; mount --rbind /sys "$2/sys"; mount --rbind /dev "$2/dev"
root=$2 user=$3; shift 3
exec chroot --userspec="$user" "$root" "$@"
"""


class Site:
    """A root that all hosts share, with configuration and data of their own."""

    def __init__(self, folder: Path) -> None:
        require_root()
        require_program("ip")
        self.folder, self.root = folder, folder / "root"
        make_root(self.root)
        self.install_s = install(self.root)
        self.network = Network([*SERVERS, *NODES])
        self._owner = int(inside(self.root, "id -u lattice"))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        inside(self.root, "useradd --create-home ada")
        for name in (*SERVERS, *NODES):
            self._configure(name)

    def _configure(self, name: str) -> None:
        host = self.folder / name
        for part in ("etc", "var", "run"):
            (host / part).mkdir(parents=True)
            if name in SERVERS:
                os.chown(host / part, self._owner, -1)
        (host / "etc" / "secret").write_text("0123456789abcdef" * 2)
        (host / "etc" / "secret").chmod(0o600)
        os.chown(host / "etc" / "secret", self._owner, -1)
        written = self._server(name) if name in SERVERS else self._agent(name)
        (host / "etc" / ("server.yaml" if name in SERVERS else "agent.yaml")).write_text(yaml.safe_dump(written))

    def _server(self, name: str) -> dict[str, object]:
        address = self.network.address(name)
        peer = {"name": name, "rest": f"http://{address}:8080", "grpc": f"{address}:50051"}
        return {
            "name": name,
            "mode": "dev",
            "data_dir": "/var/lib/lattice/server",
            "api": {
                "rest_listen": f"{address}:8080",
                "grpc_listen": f"{address}:50051",
                "hmac_secret": "file:///etc/lattice/secret",
            },
            "quorum": {"kind": "etcd", "peers": [{**peer, "client": f"{address}:2379", "peer": f"{address}:2380"}]},
        }

    def _agent(self, name: str) -> dict[str, object]:
        servers = [f"{self.network.address(server)}:50051" for server in SERVERS]
        return {
            "node_id": name,
            "state_dir": "/var/lib/lattice/agent",
            "servers": servers,
            "token_file": "/etc/lattice/agent.token",
            "cpus": 2,
            "memory_mb": 2048,
        }

    def words(self, name: str, *command: str) -> list[str]:
        """A command on that host, as the user of its unit."""
        user = "lattice:lattice" if name in SERVERS else "root:root"
        enter = ["nsenter", f"--net=/run/netns/{self.network.space(name)}", "unshare", "-m", "--propagation", "private"]
        return [*enter, "sh", "-ec", ENTER, "sh", str(self.folder / name), str(self.root), user, *command]

    def said(self, name: str, *command: str) -> str:
        plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        done = subprocess.run(self.words(name, *command), capture_output=True, text=True, env=plain, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self, name: str, *more: str) -> None:
        """The unit's own command line; `more` is what the first start of a server adds."""
        program = "lattice-server" if name in SERVERS else "lattice-agent"
        line = unit(program)["Service"]["ExecStart"].split()
        log = os.open(self.folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self._processes[name] = subprocess.Popen(self.words(name, *line, *more), stdout=log, stderr=log, env=plain)
        os.close(log)

    def stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        process.wait(30)

    def stop_all(self) -> None:
        for name in list(self._processes):
            self.stop(name)
        for path in self.folder.glob("n*/var/agent/shim.pid"):
            subprocess.run(["kill", "-TERM", path.read_text().strip()], check=False)
        self.network.down()

    def url(self, name: str) -> str:
        return f"http://{self.network.address(name)}:8080"


@contextmanager
def running(folder: Path) -> Iterator[tuple[Site, str]]:
    """Three servers that have joined and were restarted by their units' lines, two agents; the administrator's token."""
    site = Site(folder)
    site.network.up()
    try:
        config = ("--config", "/etc/lattice/server.yaml")
        for name in SERVERS:
            assert "is valid" in site.said(name, "/usr/bin/lattice-server", *config, "--check-config")
        token = site.said("s1", "/usr/bin/lattice-server", *config, "--user-token", "ada", "--admin").strip()
        site.start("s1", "--bootstrap")
        with Client(site.url("s1"), token=token, insecure_http=True, retry_for=60) as client:
            eventually(lambda: client.list_nodes() == [], "the first server serves", within_s=60)
        for name in SERVERS[1:]:
            _invite(site, name, token)
            site.start(name, "--join", "--join-token-file", "/etc/lattice/join")
            _wait_healthy(site, name, token)
        for name in SERVERS:
            site.stop(name)
            site.start(name)
            _wait_healthy(site, name, token)
        yield site, token
    finally:
        site.stop_all()


def _admin(site: Site, token: str, *words: str) -> str:
    """An administrator on the host of the first server."""
    told = (f"LATTICE_TOKEN={token}", f"LATTICE_ENDPOINT={site.url('s1')}", "LATTICE_INSECURE_HTTP=1", "HOME=/tmp")
    return site.said("s1", "env", *told, "/usr/bin/lattice", *words)


def _invite(site: Site, name: str, token: str) -> None:
    _admin(site, token, "admin", "raft", "members", "add", name, "--out", "/etc/lattice/invitation")
    invitation = site.folder / "s1" / "etc" / "invitation"
    target = site.folder / name / "etc" / "join"
    invitation.rename(target)


def _wait_healthy(site: Site, name: str, token: str) -> None:
    def look() -> bool:
        try:
            told = _admin(site, token, "admin", "raft", "status")
        except AssertionError:
            return False
        return any(
            line.startswith(f"{name}:") and "healthy" in line and "unhealthy" not in line for line in told.splitlines()
        )

    eventually(look, f"{name} is healthy", within_s=120, every_s=1.0)


def test_a_site_from_packages_passes_validation_and_its_work_outlives_the_package(tmp_path: Path) -> None:
    with running(tmp_path) as (site, token):
        begun = time.monotonic()
        for name in NODES:
            say = ("/usr/bin/lattice-server", "--config", "/etc/lattice/server.yaml", "--agent-token", name)
            (site.folder / name / "etc" / "agent.token").write_text(site.said("s1", *say))
            assert site.said(name, "/usr/bin/lattice-agent", "--config", "/etc/lattice/agent.yaml", "--check-config")
            site.start(name)
        urls = [site.url(name) for name in SERVERS]
        with Client(urls, token=token, insecure_http=True, retry_for=60) as client:
            eventually(
                lambda: [node.state for node in client.list_nodes()] == ["Ready"] * 2,
                "both nodes are Ready",
                within_s=60,
            )
            ready_s = time.monotonic() - begun
            # The figure of docs/performance.md, where nothing else has the machine.
            sys.stdout.write(f"packages of a node installed in {site.install_s:.1f} s, Ready {ready_s:.1f} s later\n")
            _validate(site, token)
            _work_outlives_the_package(site, token)


def _validate(site: Site, token: str) -> None:
    words = [sys.executable, "-I", "-S", str(ROOT / "deploy" / "validate"), site.url("s2"), ",".join(NODES)]
    done = subprocess.run(
        words, capture_output=True, text=True, env={"PATH": os.environ["PATH"], "LATTICE_TOKEN": token}, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "15 of 15 passed"), done.stdout + done.stderr


def _work_outlives_the_package(site: Site, token: str) -> None:
    _admin(site, token, "submit", "--walltime=1h", "--stdout=/dev/null", "--", *WORK)
    eventually(_work, "the work runs")
    before = _work()
    try:
        for name in NODES:
            site.stop(name)
        inside(site.root, "dpkg -i /packages/lattice-agent_*.deb")
        for name in NODES:
            site.start(name)
        assert _work() == before
        inside(site.root, "dpkg -r lattice-agent")
        assert _work() == before
    finally:
        for pid in _work():
            os.kill(pid, signal.SIGKILL)


def _work() -> list[int]:
    found = subprocess.run(["pgrep", "-x", "-f", " ".join(WORK)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]
