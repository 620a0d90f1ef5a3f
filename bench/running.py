"""How fast work starts on an idle cluster, and how many short allocations end per second."""

import threading
import time
from pathlib import Path

from bench.cluster import client_of, percentile, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice_sdk import Client, Submission
from lattice_sdk.models.records import ResourceRequest

STARTS = 60
SHORT = 500
SUBMITTERS = 4


def start_latency() -> dict[str, float]:
    """From the moment the submission is sent to the moment the process says the time."""
    with start_cluster(nodes=2) as cluster, client_of(cluster) as client:
        times = [_one_start(cluster, client, count) for count in range(STARTS)]
    return {"start_p50_ms": percentile(times, 0.5), "start_p99_ms": percentile(times, 0.99)}


def share_start_latency() -> dict[str, float]:
    """The same for a share of a node, under every limit that the node has. It has to be root's."""
    with start_cluster(nodes=2) as cluster, client_of(cluster) as client:
        if any("confined" not in node["features"] for node in cluster.nodes().values()):
            raise AssertionError("these nodes do not enforce every limit: run this as root, with control groups")
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        share = ResourceRequest(cpus=1, memory="64M")
        times = [_one_start(cluster, client, count, share) for count in range(STARTS)]
    return {"share_start_p50_ms": percentile(times, 0.5)}


def _one_start(cluster: LocalCluster, client: Client, count: int, resources: ResourceRequest | None = None) -> float:
    stamp = Path(cluster.directory) / f"stamp{count}"
    script = f'echo "$EPOCHREALTIME" > {stamp}.new && mv {stamp}.new {stamp}'
    sent = time.time()
    allocation = client.submit(Submission(entrypoint=["bash", "-c", script], resources=resources or ResourceRequest()))
    wait_until(stamp.exists, 10, f"start {count}")
    client.wait(allocation.id, timeout=10)
    return (float(stamp.read_text()) - sent) * 1000


def short_rate() -> dict[str, float]:
    """From the first submission to the last end, four submitters at once."""
    with start_cluster(nodes=4) as cluster:
        begun = time.perf_counter()
        threads = [threading.Thread(target=_submit_share, args=(cluster,)) for _ in range(SUBMITTERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _wait_all_ended(cluster)
        took = time.perf_counter() - begun
        counts = cluster.get("/allocations/count?all=true")["states"]
        if counts.get("Completed") != SHORT:
            raise AssertionError(f"not all completed: {counts}")
    return {"short_rate": SHORT / took}


def _submit_share(cluster: LocalCluster) -> None:
    with client_of(cluster) as client:
        for _ in range(SHORT // SUBMITTERS):
            client.submit(Submission(entrypoint=["true"]))


def _wait_all_ended(cluster: LocalCluster) -> None:
    deadline = time.monotonic() + 120
    while cluster.get("/allocations/count?all=true")["states"].get("Completed", 0) < SHORT:
        if time.monotonic() > deadline:
            raise TimeoutError(str(cluster.get("/allocations/count?all=true")))
        time.sleep(0.05)
