"""Rolling upgrades by `lattice admin upgrade`: what that of 20 busy agents costs the server, and what clients notice of that of three servers.

The releases are pretended: a file says for each agent and server which one it is, and the site's program changes it and restarts the process.
"""

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.cluster import DEFAULT_TIMINGS, cpu_seconds
from lattice.testing import LocalCluster
from lattice_sdk import Client, ResourceRequest, Submission
from tests.e2e.release_site import NEW, ReleaseSite, server_releases, upgrade, wait_phase
from tests.e2e.steady_submissions import Steady

NODES = 20
WORK_S = 8  # of each allocation; as many run as there are nodes
OBSERVE = "2s"
SERVERS = 3
WITHIN_S = 480


def agents_upgraded() -> dict[str, float]:
    """Every allocation takes a node, writes a line when it ends, and has to be known as Completed in its first run."""
    with _site(nodes=NODES) as cluster, tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder:
        ended = Path(folder) / "ended"
        ended.touch(mode=0o666)
        is_over = threading.Event()
        submitted: list[str] = []
        worker = threading.Thread(target=_keep_busy, args=(cluster, ended, is_over, submitted))
        worker.start()
        _wait(lambda: _running(cluster) >= NODES, "every node has work")
        server = cluster.process("server")
        assert server is not None
        before, begun = cpu_seconds(server.pid), time.monotonic()
        upgrade(cluster, "start", "--to", NEW, "--observe", OBSERVE)
        wait_phase(cluster, "done", within_s=WITHIN_S)
        used, took = cpu_seconds(server.pid) - before, time.monotonic() - begun
        is_over.set()
        worker.join()
        lost = _lost(cluster, ended, submitted)
        return {"upgrade_agents_cpu": 100 * used / took, "upgrade_agents_lost": float(lost), "upgrade_agents_s": took}


def servers_upgraded() -> dict[str, float]:
    """At 100 submissions a second by 10 clients."""
    with _site(nodes=2, servers=SERVERS) as cluster:
        upgrade(cluster, "start", "--to", NEW, "--observe", "0s")
        wait_phase(cluster, "done", within_s=WITHIN_S)
        with Steady(cluster, per_second=100, clients=10) as steady:
            time.sleep(3)
            upgrade(cluster, "start", "--to", NEW, "--servers", "--observe", "0s")
            wait_phase(cluster, "done", within_s=WITHIN_S)
            time.sleep(3)
        if server_releases(cluster) != {NEW}:
            raise AssertionError("not every server has the new release")
        return {"upgrade_servers_failed": float(len(steady.failed)), "upgrade_servers_gap_s": steady.longest_gap_s()}


@contextmanager
def _site(*, nodes: int, servers: int = 1) -> Iterator[LocalCluster]:
    directory = Path(tempfile.mkdtemp(prefix="lattice-bench-"))
    site = ReleaseSite(directory)
    kept = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(site.folder)
    try:
        settings = {**DEFAULT_TIMINGS, **site.settings}
        with LocalCluster(nodes=nodes, servers=servers, settings=settings, directory=directory) as cluster:
            yield cluster
    finally:
        if kept is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = kept
        shutil.rmtree(directory, ignore_errors=True)


def _keep_busy(cluster: LocalCluster, ended: Path, is_over: threading.Event, submitted: list[str]) -> None:
    """Submits what the nodes finish, and a few more, until it is over."""
    script = f'sleep {WORK_S}; echo "$LATTICE_ALLOC_ID" >> {ended}'
    with Client(endpoints=[cluster.api_url], token=cluster.token) as client:
        while not is_over.is_set():
            finished = len(ended.read_text().splitlines())
            for _ in range(max(0, finished + NODES + 5 - len(submitted))):
                work = Submission(entrypoint=["sh", "-c", script], resources=ResourceRequest(exclusive=True))
                submitted.append(client.submit(work).id)
            is_over.wait(0.5)


def _running(cluster: LocalCluster) -> int:
    return sum(item["state"] == "Running" for item in cluster.get("/allocations?limit=1000")["items"])


def _lost(cluster: LocalCluster, ended: Path, submitted: list[str]) -> int:
    """Allocations that ended more or less often than once, or whose end is not known as that of a first run."""
    for allocation in submitted:
        cluster.wait_end(allocation)
    lines = Counter(ended.read_text().split())
    known = {name: cluster.get(f"/allocations/{name}") for name in submitted}
    return sum((known[name]["state"], known[name]["run"], lines[name]) != ("Completed", 1, 1) for name in submitted)


def _wait(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.3)
