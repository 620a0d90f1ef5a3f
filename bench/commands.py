"""How long a person waits for `lattice status`."""

import time
from statistics import median

from bench.cluster import client_of, start_cluster
from lattice_sdk import Submission


def status_command() -> dict[str, float]:
    with start_cluster(nodes=0) as cluster:
        with client_of(cluster) as client:
            for count in range(1000):
                client.submit(Submission(entrypoint=["true"], name=f"work-{count}"))
        times = []
        for _ in range(11):
            begun = time.perf_counter()
            shown = cluster.cli("status")
            times.append(time.perf_counter() - begun)
            if len(shown.stdout.splitlines()) < 1000:
                raise AssertionError(f"{len(shown.stdout.splitlines())} lines shown")
    return {"status_s": median(times)}
