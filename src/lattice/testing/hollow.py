"""Hollow nodes against a local cluster: the program as a user starts it, gone when the block ends."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from lattice.agent.hollow.injections import Injection, read_injections
from lattice.agent.hollow.names import node_names
from lattice.testing.local_cluster import LocalCluster


class HollowNodes:
    """`with HollowNodes(cluster, 500, "--fault", "silence=1%") as nodes:`"""

    def __init__(self, cluster: LocalCluster, count: int, *words: str, prefix: str = "hollow") -> None:
        self.names = node_names(prefix, count)
        self._cluster = cluster
        self._injections = cluster.directory / f"{prefix}.injections"
        self.log = cluster.directory / f"{prefix}.log"
        program = str(Path(sys.executable).with_name("lattice-agent"))
        self._command = [program, "--hollow", str(count), "--hollow-prefix", prefix]
        self._command += ["--injections", str(self._injections), *words]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "HollowNodes":
        # As `eval "$(lattice env)"` would do.
        lines = self._cluster.cli("env", "--dir", str(self._cluster.directory)).stdout.splitlines()
        told = dict(shlex.split(line.removeprefix("export "))[0].split("=", 1) for line in lines)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env={**os.environ, **told}, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise AssertionError("the hollow nodes were not started")
        return self._process.pid

    def send(self, number: int) -> None:
        """Signals the program."""
        if self._process is not None:
            self._process.send_signal(number)

    def injections(self) -> list[Injection]:
        """What was done to which node so far."""
        return read_injections(self._injections) if self._injections.exists() else []
