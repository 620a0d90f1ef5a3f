"""How long a change of state takes to reach somebody who watches, on a machine that does nothing else."""

import threading
import time
from datetime import datetime

from bench.cluster import client_of, percentile, start_cluster, wait_until
from lattice_sdk import Client, Submission

ALLOCATIONS = 150
PAUSE_S = 0.05
KINDS_EACH = 4  # submitted, placed, started, ended


def watch_latency() -> dict[str, float]:
    """From the moment that the log entry carries to the moment at which the client library hands the change on."""
    with start_cluster(nodes=2) as cluster, client_of(cluster) as watching, client_of(cluster) as submitting:
        delays_ms: list[float] = []
        stream = watching.watch(what=["allocation"])

        def collect() -> None:
            for event in stream:
                if event.at is not None:
                    delays_ms.append((time.time() - datetime.fromisoformat(event.at).timestamp()) * 1000)

        threading.Thread(target=collect, daemon=True).start()
        _work(submitting)
        wait_until(lambda: len(delays_ms) >= ALLOCATIONS * KINDS_EACH, 60, "every change was seen")
        return {"watch_p50_ms": percentile(delays_ms, 0.5), "watch_p99_ms": percentile(delays_ms, 0.99)}


def _work(client: Client) -> None:
    for _ in range(ALLOCATIONS):
        client.submit(Submission(entrypoint=["true"]))
        time.sleep(PAUSE_S)
