"""How fast work starts on an idle cluster, and how many short allocations end per second."""

import subprocess
import sys
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
# In a mount namespace of its own; what a pure v2 machine limits, it limits all the same.
_WITHOUT_GROUPS = """
for each in $(awk '$3 == "cgroup" {print $2}' /proc/mounts); do umount -l "$each"; done
exec "$0" -c "$1"
"""
_UNLIMITED = "from bench.running import unlimited_rate; print(unlimited_rate())"


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
        return {"short_rate": _rate(cluster, None)}


def confined_rate() -> dict[str, float]:
    """The same for shares under all limits, one at a time on each node, and how that compares with such that nothing limits."""
    with start_cluster(nodes=4) as cluster:
        if any("confined" not in node["features"] for node in cluster.nodes().values()):
            raise AssertionError("these nodes do not enforce every limit: run this as root, with control groups")
        confined = _share_rate(cluster)
    words = ["unshare", "-m", "--propagation", "private", "sh", "-c", _WITHOUT_GROUPS, sys.executable, _UNLIMITED]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    return {"confined_rate": confined, "confined_ratio": confined / float(done.stdout)}


def unlimited_rate() -> float:
    """On a machine that shows no v1 hierarchy: processes are tracked and have their devices, and nothing else is limited."""
    with start_cluster(nodes=4) as cluster:
        return _share_rate(cluster)


def _share_rate(cluster: LocalCluster) -> float:
    cluster.put("/vclusters/default", {"node_sharing": "shared"})
    memory_mb = min(node["memory_mb"] for node in cluster.nodes().values())
    return _rate(cluster, ResourceRequest(cpus=1, memory=f"{memory_mb * 3 // 5}M"))


def _rate(cluster: LocalCluster, resources: ResourceRequest | None) -> float:
    begun = time.perf_counter()
    threads = [threading.Thread(target=_submit_share, args=(cluster, resources)) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _wait_all_ended(cluster)
    took = time.perf_counter() - begun
    counts = cluster.get("/allocations/count?all=true")["states"]
    if counts.get("Completed") != SHORT:
        raise AssertionError(f"not all completed: {counts}")
    return SHORT / took


def _submit_share(cluster: LocalCluster, resources: ResourceRequest | None) -> None:
    with client_of(cluster) as client:
        for _ in range(SHORT // SUBMITTERS):
            client.submit(Submission(entrypoint=["true"], resources=resources or ResourceRequest()))


def _wait_all_ended(cluster: LocalCluster) -> None:
    deadline = time.monotonic() + 120
    while cluster.get("/allocations/count?all=true")["states"].get("Completed", 0) < SHORT:
        if time.monotonic() > deadline:
            raise TimeoutError(str(cluster.get("/allocations/count?all=true")))
        time.sleep(0.05)
