"""Task groups: what 100,000 tasks cost to submit, to look at and to keep, and how many short tasks end per second."""

import time

from bench.cluster import client_of, resident_mb, start_cluster
from lattice.testing import LocalCluster
from lattice_sdk import Client, ResourceRequest, Submission

LARGE = 100_000
SHORT = 2_000
NODES = 4


def group_size() -> dict[str, float]:
    """Whole commands, as a user types them; memory is what the server's resident set grew by."""
    with start_cluster(nodes=1) as cluster:
        _command(cluster, "submit", "-q", "--hold", "--", "true")
        found = cluster.process("server")
        if found is None:
            raise AssertionError("no server in cluster.json")
        server = found.pid
        before_mb = resident_mb(server)
        submit_s = _command(cluster, "submit", "-q", "--hold", f"--task-group=0-{LARGE - 1}", "--", "true")
        status_s = min(_command(cluster, "status") for _ in range(3))
        return {
            "group_submit_s": submit_s,
            "group_status_s": status_s,
            "group_mb": resident_mb(server) - before_mb,
        }


def _command(cluster: LocalCluster, *words: str) -> float:
    begun = time.perf_counter()
    cluster.cli(*words)
    return time.perf_counter() - begun


def group_rate() -> dict[str, float]:
    """From the submission of one group of `true` to its end, on nodes that its tasks share."""
    with start_cluster(nodes=NODES) as cluster, client_of(cluster) as client:
        cluster.cli("admin", "vcluster", "update", "default", "--node-sharing=shared")
        _run_group(client, 20)
        begun = time.perf_counter()
        _run_group(client, SHORT)
        took = time.perf_counter() - begun
    return {"group_rate": SHORT / took}


def _run_group(client: Client, size: int) -> None:
    group = client.submit(
        Submission(entrypoint=["true"], tasks=f"0-{size - 1}", resources=ResourceRequest(nodes=1, cpus=1))
    )
    ended = client.wait(group.id, timeout=300)
    if ended.state != "Completed":
        raise AssertionError(f"the group is {ended.state}: {ended.task_counts}")
