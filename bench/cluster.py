"""Clusters to measure: the testing cluster with the timings that users get."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lattice.testing import LocalCluster
from lattice_sdk import Client

DEFAULT_TIMINGS: Mapping[str, str] = {
    "node_agent.heartbeat_interval_s": "10",
    "node_agent.heartbeat_timeout_s": "30",
    "node_agent.grace_period_s": "60",
    "node_agent.stop_grace_s": "30",
    "node_agent.order_retry_s": "2",
    "node_agent.reconcile_every_s": "30",
    "scheduling.cycle_interval_s": "5",
}


def start_cluster(nodes: int, **settings: str) -> LocalCluster:
    """A cluster that is not entered yet; use it in a with statement."""
    return LocalCluster(nodes=nodes, settings={**DEFAULT_TIMINGS, **settings})


def client_of(cluster: LocalCluster) -> Client:
    return Client(endpoints=[cluster.api_url], token=cluster.token)


def submission(**fields: object) -> bytes:
    """The smallest useful submission."""
    return json.dumps({"entrypoint": ["true"], "lifecycle": {"walltime": "10m"}, **fields}).encode()


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def wait_until(done: Callable[[], bool], within_s: float, what: str) -> None:
    """Polls a callable quickly; for measurements that end with an outside effect."""
    deadline = time.monotonic() + within_s
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.002)
