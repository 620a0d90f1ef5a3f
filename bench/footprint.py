"""What idle processes cost, and a server with a long past."""

import tempfile
import time
from pathlib import Path

from bench.cluster import cpu_seconds, resident_mb, start_cluster
from bench.population import write_archived
from bench.server import server_on

IDLE_S = 30


def server_memory() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder:
        write_archived(Path(folder) / "data", pending=10_000, archived=100_000)
        with server_on(Path(folder)) as (process, _, _):
            time.sleep(3)
            return {"server_mb": resident_mb(process.pid)}


def idle_node() -> dict[str, float]:
    """Agent and shim of one node that has run one allocation."""
    with start_cluster(nodes=1) as cluster:
        cluster.run(["true"])
        pids = [process.pid for role in ("agent", "shim") for process in cluster.file.of_role(role)]
        before = sum(map(cpu_seconds, pids))
        time.sleep(IDLE_S)
        used = sum(map(cpu_seconds, pids)) - before
        return {"node_mb": sum(map(resident_mb, pids)), "node_cpu_percent": 100 * used / IDLE_S}
