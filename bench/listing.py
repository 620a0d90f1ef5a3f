"""How long `squeue` takes: all of a long queue, and a single job of it."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench.cluster import client_of, start_cluster
from lattice.testing import LocalCluster
from lattice_sdk import Submission

QUEUED = 10_000


def squeue_command() -> dict[str, float]:
    with start_cluster(nodes=1) as cluster:
        cluster.cli("compat-aliases")
        with client_of(cluster) as client:
            requests = [Submission(entrypoint=["sleep", "600"], name=f"work-{count}") for count in range(QUEUED)]
            for start in range(0, QUEUED, 500):
                client.submit_batch(requests[start : start + 500])
        return {
            "squeue_10k_ms": _taken_ms(cluster, QUEUED, "-h"),
            "squeue_one_ms": _taken_ms(cluster, 1, "-h", "-j", str(QUEUED // 2)),
        }


def _taken_ms(cluster: LocalCluster, lines: int, *words: str) -> float:
    program = str(Path(sys.prefix) / "libexec" / "slurm" / "squeue")
    times = []
    for _ in range(11):
        begun = time.perf_counter()
        shown = subprocess.run(
            [program, *words], env=cluster.environment(), capture_output=True, text=True, check=True
        ).stdout
        times.append(time.perf_counter() - begun)
        if len(shown.splitlines()) != lines:
            raise AssertionError(f"{len(shown.splitlines())} lines shown, {lines} expected")
    return median(times) * 1000
