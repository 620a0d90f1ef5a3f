"""What a death of the server costs: time until it answers again, and what was lost."""

import json
import tempfile
import threading
import time
from pathlib import Path

from bench.cluster import client_of, start_cluster, submission
from bench.population import finished_and_pending, write_population
from bench.server import server_on
from lattice.testing import LocalCluster
from lattice_sdk import Submission

QUEUED = 10_000
CONNECTIONS = 8


def recovery() -> dict[str, float]:
    """kill -9 with a full queue and submissions under way; every acknowledged one must be there afterwards."""
    with start_cluster(nodes=0) as cluster:
        acknowledged = _submit(cluster, QUEUED)
        stop = threading.Event()
        late: set[str] = set()
        thread = threading.Thread(target=_submit_until_refused, args=(cluster, stop, late))
        thread.start()
        time.sleep(0.5)
        begun = time.perf_counter()
        cluster.kill("server")
        stop.set()
        listed = _listing(cluster)
        took = time.perf_counter() - begun
        thread.join()
        lost = (acknowledged | late) - listed
    return {"recovery_s": took, "recovery_lost": float(len(lost))}


def _submit(cluster: LocalCluster, count: int) -> set[str]:
    acknowledged: set[str] = set()

    def share() -> None:
        with client_of(cluster) as client:
            for _ in range(count // CONNECTIONS):
                acknowledged.add(client.submit(Submission(entrypoint=["true"])).id)

    threads = [threading.Thread(target=share) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return acknowledged


def _submit_until_refused(cluster: LocalCluster, stop: threading.Event, ids: set[str]) -> None:
    while not stop.is_set():
        try:
            status, answer = cluster.request("POST", "/allocations", submission(), timeout_s=2)
        except OSError:
            return
        if status == 201:
            ids.add(answer["id"])


def _listing(cluster: LocalCluster) -> set[str]:
    """All ids, page by page, from the moment the API answers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return _pages(cluster)
        except (OSError, AssertionError, json.JSONDecodeError):
            time.sleep(0.01)
    raise TimeoutError("no listing")


def _pages(cluster: LocalCluster) -> set[str]:
    ids: set[str] = set()
    cursor = ""
    while True:
        page = cluster.get(f"/allocations?limit=10000&cursor={cursor}")
        ids.update(item["id"] for item in page["items"])
        cursor = page["next_cursor"] or ""
        if not cursor:
            return ids


def restart() -> dict[str, float]:
    """Start of a server on a prepared data folder until it is healthy."""
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder:
        write_population(Path(folder) / "data", finished_and_pending(100_000), commands_after=50_000)
        with server_on(Path(folder)) as (_, _, took):
            return {"restart_s": took}
