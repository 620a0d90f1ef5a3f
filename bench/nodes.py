"""Ten thousand hollow nodes against one server: how soon they are Ready, what their heartbeats cost, who is lost with a collector."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from statistics import median

from bench.cluster import cpu_seconds, percentile, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice.testing.hollow import HollowNodes

NODES = 10_000
COLLECTORS = 10
QUIET_S = 60.0
_COUNT = re.compile(r'lattice_nodes_total\{state="(\w+)"\} (\d+)')


def node_figures() -> dict[str, float]:
    """Every node with a stream of its own, which is how all beats come."""
    with start_cluster(nodes=0) as cluster:
        begun = time.perf_counter()
        with HollowNodes(cluster, NODES):
            _wait_ready(cluster, NODES)
            ready_s = time.perf_counter() - begun
            time.sleep(5)
            commands = {
                "nodes_summary_s": _command_s(cluster, "nodes", "--summary"),
                "nodes_table_s": _command_s(cluster, "nodes"),
            }
            return {"nodes_ready_s": ready_s, "nodes_direct_cpu": _cpu_percent(cluster), **commands}


def collected_figures() -> dict[str, float]:
    """The same through collectors; then one of them is cut off, for longer than it takes to be given up."""
    timings = {"node_agent.grace_period_s": "15"}
    with start_cluster(nodes=0, **timings) as cluster, _collecting(cluster) as nodes:
        _wait_ready(cluster, NODES)
        wait_until(lambda: _collected(cluster) > 2 * NODES, 60, "heartbeats through collectors")
        used = _cpu_percent(cluster)
        nodes.send(signal.SIGUSR1)
        wait_until(lambda: _states(cluster).get("Down", 0) >= 1, 90, "the lost collector is Down")
        time.sleep(20)
        others = NODES - 1 - _states(cluster).get("Ready", 0)
        return {"nodes_collected_cpu": used, "collector_loss": float(others)}


def silence_figures() -> dict[str, float]:
    """How long after its time a silent node is Degraded and Down, on a cluster that does nothing else."""
    timeout_s, grace_s, count = 10.0, 10.0, 100
    timings = {"node_agent.heartbeat_timeout_s": str(timeout_s), "node_agent.grace_period_s": str(grace_s)}
    with (
        start_cluster(nodes=0, **timings) as cluster,
        HollowNodes(cluster, count, "--fault", "silence=100%") as nodes,
        cluster.client() as client,
    ):
        wait_until(lambda: _states(cluster).get("Down", 0) == count, 90, "all nodes Down")
        last = {injection.node: injection.at for injection in nodes.injections()}
        late: dict[str, list[float]] = {"silent": [], "given_up": []}
        for name in nodes.names:
            for event in client.node_events(name):
                if event.trigger in late:
                    at = datetime.fromisoformat(event.at or "").timestamp()
                    late[event.trigger].append(at - last[name])
    return {
        "degraded_late_s": percentile(late["silent"], 0.99) - timeout_s,
        "down_late_s": percentile(late["given_up"], 0.99) - timeout_s - grace_s,
    }


def _collecting(cluster: LocalCluster) -> AbstractContextManager[HollowNodes]:
    nodes = HollowNodes(cluster, NODES, "--collectors", str(COLLECTORS))
    cluster.put("/settings/node.collectors", {"value": ",".join(nodes.names[:COLLECTORS])})
    return nodes


def _wait_ready(cluster: LocalCluster, count: int) -> None:
    deadline = time.monotonic() + 170
    while _states(cluster).get("Ready", 0) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} nodes Ready")
        time.sleep(0.5)


def _metrics(cluster: LocalCluster) -> str:
    with urllib.request.urlopen(f"{cluster.api_url}/metrics", timeout=30) as answer:  # noqa: S310 - our own
        return str(answer.read().decode())


def _states(cluster: LocalCluster) -> dict[str, int]:
    return {state: int(count) for state, count in _COUNT.findall(_metrics(cluster))}


def _collected(cluster: LocalCluster) -> float:
    found = re.search(r'lattice_collected_heartbeats_total\{outcome="taken"\} (\d+)', _metrics(cluster))
    return float(found[1]) if found else 0.0


def _cpu_percent(cluster: LocalCluster) -> float:
    """Of the server's process, as a share of one core, while nobody asks it anything."""
    server = cluster.process("server")
    if server is None:
        raise LookupError("no server")
    before, begun = cpu_seconds(server.pid), time.monotonic()
    time.sleep(QUIET_S)
    return 100 * (cpu_seconds(server.pid) - before) / (time.monotonic() - begun)


def _command_s(cluster: LocalCluster, *words: str) -> float:
    return median(_once(cluster, words) for _ in range(5))


def _once(cluster: LocalCluster, words: Sequence[str]) -> float:
    program = str(Path(sys.executable).with_name("lattice"))
    begun = time.perf_counter()
    subprocess.run([program, *words], env=cluster.environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun
