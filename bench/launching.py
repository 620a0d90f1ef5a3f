"""How long a person waits for `lattice launch` of many short tasks."""

import time
from statistics import median

from bench.cluster import DEFAULT_TIMINGS
from lattice.testing import LocalCluster

TASKS = 64
NODES = 4


def launch_command() -> dict[str, float]:
    """The whole command: 64 tasks of `true` over 4 nodes, from its start to its exit."""
    cpus = ["--node-cpus", str(TASKS // NODES)]
    with LocalCluster(nodes=NODES, settings=DEFAULT_TIMINGS, arguments=cpus) as cluster:
        allocation = cluster.submit(["sleep", "600"], resources={"nodes": NODES})["id"]
        cluster.wait_state(allocation, "Running")
        times = []
        for _ in range(11):
            begun = time.perf_counter()
            cluster.cli("launch", "--alloc", allocation, "-n", str(TASKS), "true")
            times.append(time.perf_counter() - begun)
    return {"launch_s": median(times)}
