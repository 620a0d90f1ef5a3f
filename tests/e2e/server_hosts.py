"""Whole servers on hosts of their own: each in a network namespace, on one bridge with the test, that can be cut off from the others.

Every server has a node beside it, which is cut off with it; further nodes sit with the test and reach all servers.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from lattice.daemons.local.credentials import current_user, ensure_secret, write_tokens
from lattice.daemons.local.layout import Layout
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue, with_authority
from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running
from tests.integration.quorum.etcd_networks import Network

REST, GRPC, CLIENT, PEER, INTERNAL, RELAY = 8080, 50051, 2379, 2380, 2381, 2382


class HostCluster(LocalCluster):
    """`with HostCluster() as cluster:` - three servers s1, s2, s3 with nodes n1, n2, n3, and nodes f1, f2 that stand free."""

    def __init__(self, *, free_nodes: int = 2, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(nodes=3 + free_nodes, servers=3, settings=settings)
        self.names = ["s1", "s2", "s3"]
        self.free = [f"f{number}" for number in range(1, free_nodes + 1)]
        self._layout = Layout(self.directory)
        self.network = Network(self.names)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[int] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._show_logs()
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._show_logs()
        self.remove()

    def _show_logs(self) -> None:
        for log in sorted(self.directory.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text()[-4000:]}")  # noqa: T201

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "LATTICE_INSECURE_HTTP": "1"}

    @property
    def urls(self) -> dict[str, str]:
        return {name: f"http://{self.network.address(name)}:{REST}" for name in self.names}

    @property
    def api_url(self) -> str:
        return ",".join(self.urls.values())

    def start(self) -> "subprocess.CompletedProcess[str]":
        self._layout.prepare()
        write_tokens(self._layout, ensure_secret(self._layout))
        self.network.up()
        authority = CertificateFolder(self.directory / "authority")
        create_authority(authority)
        token = secrets.token_hex(8)
        for name in self.names:
            certificates = CertificateFolder(self.directory / name / "certificates")
            certificates.path.parent.mkdir(parents=True)
            issued = issue(authority, [self.network.address(name)], name=name)
            install(certificates, with_authority(authority, issued))
            config = self.directory / name / "server.yaml"
            config.write_text(yaml.safe_dump(self._config(name, token)))
            self.start_server(name)
        self.leader(within_s=60)
        for name, place in self._places().items():
            self._start(name, self._agent(name), place)
        eventually(self._all_ready, "all nodes are ready", within_s=60)
        return subprocess.CompletedProcess([], 0)

    def _places(self) -> dict[str, str]:
        """Each node and the host on which it runs; without one it sits with the test."""
        return {**dict(zip(("n1", "n2", "n3"), self.names, strict=True)), **dict.fromkeys(self.free, "")}

    def _all_ready(self) -> bool:
        nodes = self.nodes()
        return len(nodes) == self.node_count and all(node["state"] == "Ready" for node in nodes.values())

    def _overrides(self) -> list[str]:
        return [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]

    def _config(self, name: str, token: str) -> dict[str, object]:
        peers = [
            {
                "name": other,
                "rest": url,
                "grpc": f"{self.network.address(other)}:{GRPC}",
                "client": f"{self.network.address(other)}:{CLIENT}",
                "peer": f"{self.network.address(other)}:{PEER}",
            }
            for other, url in self.urls.items()
        ]
        host = self.network.address(name)
        return {
            "name": name,
            "mode": "dev",
            "data_dir": str(self.directory / name),
            "api": {
                "rest_listen": f"{host}:{REST}",
                "grpc_listen": f"{host}:{GRPC}",
                "hmac_secret": f"file://{self._layout.secret}",
            },
            "object_store": {"directory": str(self._layout.objects)},
            "quorum": {"kind": "etcd", "token": token, "peers": peers},
        }

    def _agent(self, node: str) -> list[str]:
        servers = ",".join(f"{self.network.address(name)}:{GRPC}" for name in self.names)
        state = self._layout.state_of(node)
        words = ["--node-id", node, "--state-dir", str(state), "--servers", servers, "--allow-user", current_user()]
        words += ["--token-file", str(self._layout.agent_token), "--object-store", str(self._layout.objects)]
        return ["lattice-agent", *words, "--cpus", "4", "--memory-mb", "4096"]

    def _start(self, name: str, command: list[str], place: str) -> None:
        program = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        log = os.open(self.directory / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._logs.append(log)
        # The network alone: with a namespace of its own for mounts the node would have no cgroups.
        inside = ["nsenter", f"--net=/run/netns/{self.network.space(place)}"] if place else []
        self._processes[name] = subprocess.Popen([*inside, *program], stdout=log, stderr=log, start_new_session=True)

    def stop(self) -> "subprocess.CompletedProcess[str]":
        agents = [process for name, process in self._processes.items() if name not in self.names]
        for process in agents:
            process.send_signal(signal.SIGTERM)
        for process in (*agents, *(self._processes[name] for name in self.names if name in self._processes)):
            process.kill()
            process.wait()
        self._end_shims()
        self.network.down()
        for log in self._logs:
            os.close(log)
        self._logs.clear()
        self._processes.clear()
        return subprocess.CompletedProcess([], 0)

    def _end_shims(self) -> None:
        pids = [int(path.read_text()) for path in self._layout.agents.glob("*/shim.pid")]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        eventually(lambda: not any(is_running(pid) for pid in pids), "the shims are gone")

    def start_server(self, server: str) -> None:
        config = self.directory / server / "server.yaml"
        words = ["lattice-server", "--config", str(config), "--bootstrap-if-new", *self._overrides()]
        self._start(server, words, server)

    def _pids(self, server: str) -> list[int]:
        """Its etcd member and the server itself."""
        pid = self._processes[server].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [*map(int, children), pid]

    def kill_server(self, server: str, number: int = signal.SIGKILL) -> None:
        """Both processes at once, or the server alone with another signal; it is started again."""
        for pid in self._pids(server) if number == signal.SIGKILL else self._pids(server)[-1:]:
            os.kill(pid, number)
        self._processes[server].wait()
        self.start_server(server)

    @contextlib.contextmanager
    def standing_still(self, server: str) -> Iterator[None]:
        """Both processes stand still inside."""
        pids = self._pids(server)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def cut_off(self, server: str) -> Iterator[None]:
        """The server, and the node beside it, reach no other host inside."""
        self.network.cut_off(server)
        try:
            yield
        finally:
            self.network.heal(server)
