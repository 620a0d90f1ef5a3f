"""A service that follows a figure of its own through a real time-series store, and keeps its size when the store is killed."""

import getpass
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import Json
from tests.conftest import require_program
from tests.monitoring_stack import fetch
from tests.s3_server import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROGRAMS = Path(sys.executable).parent
# Shows the number in a file as the length of its queue.
SERVER = """
import http.server, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"queue_depth " + open(sys.argv[1], "rb").read() + b"\\n"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["LATTICE_PORT_METRICS"])), Page).serve_forever()
"""
POLICY = {
    "type": "reactive",
    "min_nodes": 1,
    "max_nodes": 2,
    "metric": "queue_depth",
    "target": 10,
    "scale_up_window": "1s",
    "scale_down_window": "1s",
    "evaluation_interval": "1s",
    "cooldown_period": "1s",
}


class Store:
    def __init__(self, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._words = [
            require_program("victoria-metrics"),
            f"-storageDataPath={folder}/store",
            f"-httpListenAddr={self.url.removeprefix('http://')}",
            "-search.latencyOffset=0s",
            "-retentionPeriod=1d",
            "-memory.allowedBytes=64MB",
        ]
        self._log = folder / "store.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Store":
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)
        eventually(self._answers, "the store answers", within_s=60)
        return self

    def _answers(self) -> bool:
        try:
            return bool(fetch(f"{self.url}/health"))
        except OSError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __exit__(self, *_: object) -> None:
        self.kill()


def started_agent(cluster: LocalCluster, folder: Path, name: str, store: Store) -> "subprocess.Popen[bytes]":
    words: list[str | Path] = ["--node-id", name, "--state-dir", folder / name, "--servers", cluster.file.grpc]
    words += ["--token-file", cluster.directory / "agent-token", "--cpus", "2", "--metrics-listen", "off"]
    words += ["--tsdb-endpoint", f"{store.url}/api/v1/write", "--allow-user", getpass.getuser()]
    words += ["--telemetry-without", "bpf"]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([PROGRAMS / "lattice-agent", *words], stdout=log, stderr=log)


class Site:
    def __init__(self, cluster: LocalCluster, store: Store) -> None:
        self.cluster, self.store = cluster, store

    def failures(self) -> float:
        """How many times a metric was not known."""
        for line in fetch(f"{self.cluster.api_url}/metrics").splitlines():
            if line.startswith("lattice_autoscaling_metric_query_failures_total"):
                return float(line.split()[-1])
        return 0.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        store = stack.enter_context(Store(tmp_path))
        settings = {"telemetry.tsdb_endpoint": store.url, "node_agent.heartbeat_timeout_s": "60"}
        cluster = stack.enter_context(LocalCluster(nodes=1, settings=settings))
        agents = [started_agent(cluster, tmp_path, name, store) for name in ("w1", "w2")]
        try:
            eventually(lambda: {"w1", "w2"} <= cluster.nodes().keys(), "both are registered", within_s=60)
            for name in ("w1", "w2"):
                cluster.wait_node(name, "Ready")
            yield Site(cluster, store)
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()
            # Shims outlive their agents, and here nobody else ends them.
            for file in tmp_path.glob("w*/shim.pid"):
                os.kill(int(file.read_text()), signal.SIGKILL)


def test_it_follows_its_own_figure_and_keeps_its_size_without_the_store(site: Site, tmp_path: Path) -> None:
    cluster = site.cluster
    depth, program = tmp_path / "depth", tmp_path / "serve.py"
    depth.write_text("5")
    program.write_text(SERVER)
    wanted: Json = {
        "lifecycle": POLICY,
        "expose": [{"name": "metrics", "port": 0}],
        "resources": {"constraints": {"nodes": ["w1", "w2"]}},
    }
    alloc = str(cluster.submit([sys.executable, str(program), str(depth)], **wanted)["id"])

    def view() -> Json:
        return cluster.allocation(alloc)["service"]

    eventually(lambda: (view()["scaling"] or {}).get("value") == 5, "the figure arrives", within_s=90)
    assert len(view()["instances"]) == 1
    depth.write_text("50")
    eventually(lambda: view()["ready"] == 2, "it grows", within_s=120)
    # Without the store nothing is known, whatever the work shows: neither up nor down.
    site.store.kill()
    depth.write_text("0")
    before = site.failures()
    until = time.monotonic() + 60
    while site.failures() < before + 5:
        assert time.monotonic() < until, "the failures are not counted"
        assert len(view()["instances"]) == 2
        time.sleep(0.5)
    assert len(view()["instances"]) == 2
    assert view()["scaling"]["decision"] == "hold"
    with site.store:
        eventually(lambda: len(view()["instances"]) == 1, "with the store it shrinks", within_s=120)
    cluster.cli("cancel", alloc)
    cluster.wait_end(alloc)
