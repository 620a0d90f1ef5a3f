"""DAGs: how long a large one takes to submit, and how soon a successor is free to start once its predecessor has ended."""

import time
from datetime import datetime
from itertools import pairwise
from statistics import median

from bench.cluster import client_of, start_cluster

SIZE = 1000
WIDTH = 10
CHAIN = 20


def dag_submit() -> dict[str, float]:
    """One request over REST, answered when it is durable: layers of ten, each member needing three of the layer before."""
    with start_cluster(nodes=1) as cluster, client_of(cluster) as client:
        client.submit_dag({"allocations": [{"id": "warm", "entrypoint": "true", "hold": True}]})
        begun = time.perf_counter()
        dag = client.submit_dag({"name": "large", "allocations": _layers()})
        took_s = time.perf_counter() - begun
        if dag.counts.size != SIZE:
            raise AssertionError(f"the DAG has {dag.counts.size} allocations")
    return {"dag_submit_s": took_s}


def _layers() -> list[dict[str, object]]:
    members: list[dict[str, object]] = []
    for place in range(SIZE):
        layer, column = divmod(place, WIDTH)
        needs = [f"m{(layer - 1) * WIDTH + (column + shift) % WIDTH}:success" for shift in range(3)] if layer else []
        members.append({"id": f"m{place}", "entrypoint": "true", "hold": not layer, "depends_on": ",".join(needs)})
    return members


def dag_release() -> dict[str, float]:
    """From the end of a predecessor, as its node measured it, to the moment from which its successor may be planned."""
    with start_cluster(nodes=1) as cluster, client_of(cluster) as client:
        members = [
            {"id": f"m{place}", "entrypoint": "true", "depends_on": f"m{place - 1}" if place else ""}
            for place in range(CHAIN)
        ]
        dag = client.submit_dag({"allocations": members})
        while not client.get_dag(dag.id).is_ended:
            time.sleep(0.05)
        runs = [client.get_allocation(member.id) for member in client.get_dag(dag.id).allocations]
    waits = [_moment(after.eligible_at) - _moment(before.completed_at) for before, after in pairwise(runs)]
    return {"dag_release_ms": 1000 * median(waits), "dag_release_worst_ms": 1000 * max(waits)}


def _moment(text: str | None) -> float:
    return datetime.fromisoformat(text or "").timestamp()
