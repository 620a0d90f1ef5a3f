"""Servers that a test starts and stops itself, beside the agents of a cluster whose supervisor restarts nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import QUICK_TIMINGS, is_running

PROGRAM = str(Path(sys.executable).with_name("lattice-server"))


class Server:
    """One server of a cluster; the first `stop` ends the one that the supervisor started."""

    program: tuple[str, ...] = (PROGRAM,)

    def __init__(self, cluster: LocalCluster, name: str, config: Path, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._name = name
        self.config = config
        self._settings = {**QUICK_TIMINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.variables: dict[str, str] = {}

    @property
    def config_words(self) -> list[str]:
        return ["--server-config", str(self.config)]

    @property
    def log(self) -> Path:
        return self._cluster.directory / f"{self._name}-by-test.log"

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(20)
        elif self._cluster.process("server", self._name) is not None:
            gone = self._cluster.kill("server", self._name, number)
            eventually(lambda: not is_running(gone.pid), "the server has ended")

    def start(self, *words: str) -> None:
        overrides = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.program, "--config", str(self.config), *overrides, *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.variables},
            )

    def refused(self, *words: str) -> str:
        """What it says when it cannot start as asked."""
        done = subprocess.run(
            [*self.program, "--config", str(self.config), *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done
        return done.stderr

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def serving(cluster: LocalCluster, settings: Mapping[str, str]) -> Iterator[Server]:
    """The only server of a cluster."""
    server = Server(cluster, "server", cluster.directory / "server.yaml", settings)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def all_serving(cluster: LocalCluster, settings: Mapping[str, str]) -> Iterator[dict[str, Server]]:
    """Every one of several servers, by its name."""
    folder = cluster.directory / "servers"
    servers = {name: Server(cluster, name, folder / name / "server.yaml", settings) for name in cluster.urls}
    try:
        yield servers
    finally:
        for server in servers.values():
            server.close()


def process_of(cluster: LocalCluster, allocation_id: str) -> int:
    """The main process of a running allocation, as its node recorded it."""
    pattern = f"n*/runs/{allocation_id.removeprefix('a')}.*/status.json"
    (status,) = eventually(lambda: [*(cluster.directory / "agents").glob(pattern)], "the node records the process")
    return int(json.loads(status.read_text())["pid"])
