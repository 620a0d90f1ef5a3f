"""What people see of the scheduler on a real cluster with made-up topology: reasons, predictions, reservations."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

# Clock of the server, clock of the tests and the time that a start takes.
TOLERANCE_S = 3.0


@pytest.fixture(scope="module")
def grouped() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=4, arguments=["--node-groups", "2"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(grouped: LocalCluster) -> Iterator[LocalCluster]:
    yield grouped
    for reservation in grouped.get("/reservations")["items"]:
        grouped.delete(f"/reservations/{reservation['name']}")
    grouped.post("/allocations/cancel", {"all_mine": True})
    eventually(lambda: all(node["holding"] == "free" for node in grouped.nodes().values()), "all nodes free")


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def in_s(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat(timespec="milliseconds")


def asking(nodes: int, walltime: str) -> dict[str, Any]:
    return {"resources": {"nodes": nodes}, "lifecycle": {"walltime": walltime}}


def explained(cluster: LocalCluster, allocation_id: str) -> dict[str, Any]:
    """What is said of it once a cycle has looked at it."""

    def look() -> dict[str, Any] | None:
        why: dict[str, Any] = cluster.get(f"/allocations/{allocation_id}/explanation")
        return why if why["reason"] != "waiting for the next cycle" or why["state"] != "Pending" else None

    return eventually(look, f"an explanation for {allocation_id}")


def test_the_nodes_are_in_groups(cluster: LocalCluster) -> None:
    groups = {name: node["group"] for name, node in cluster.nodes().items()}
    assert groups == {"n1": "g1", "n2": "g2", "n3": "g1", "n4": "g2"}


def test_work_for_two_nodes_gets_them_in_one_group(cluster: LocalCluster) -> None:
    runs = [cluster.submit(["sleep", "30"], **asking(2, "1m"))["id"] for _ in range(2)]
    placed = [set(cluster.wait_state(run, "Running")["nodes"]) for run in runs]
    assert sorted(map(sorted, placed)) == [["n1", "n3"], ["n2", "n4"]]


def test_large_work_waits_with_a_prediction_small_work_flows_around_it_and_the_prediction_holds(
    cluster: LocalCluster,
) -> None:
    busy = [cluster.submit(["sleep", "60"], **asking(1, "12s"))["id"] for _ in range(2)]
    for run in busy:
        cluster.wait_state(run, "Running")
    large = cluster.submit(["true"], **asking(3, "1m"))["id"]
    why = explained(cluster, large)
    assert why["state"] == "Pending"
    assert why["rank"] == 1
    assert "2 of" in why["reason"]
    assert "busy" in why["reason"]
    predicted = moment(why["predicted_start"])
    assert 0 < predicted - time.time() < 12 + TOLERANCE_S
    assert len(why["predicted_nodes"]) == 3
    assert why["scores"]["total"] >= 0

    # Ends before the large one is to start: goes first. Would run into it: waits behind.
    small = cluster.submit(["true"], **asking(1, "1s"))["id"]
    assert cluster.wait_end(small)["state"] == "Completed"
    assert cluster.allocation(large)["state"] == "Pending"
    long = [cluster.submit(["true"], **asking(1, "10m"))["id"] for _ in range(2)]
    text = cluster.cli("explain", large).stdout
    assert "Predicted start:" in text
    assert "Place in queue:" in text
    ended = cluster.wait_end(large, within_s=60)
    assert ended["state"] == "Completed"
    assert moment(ended["started_at"]) <= predicted + TOLERANCE_S
    for run in long:
        assert cluster.wait_end(run)["state"] == "Completed"


def test_a_maintenance_reservation_is_respected(cluster: LocalCluster) -> None:
    cluster.cli("admin", "reservation", "create", "upkeep", "--start=+20s", "--duration=1h", "--reason=new firmware")
    listed = cluster.cli("admin", "reservation", "list").stdout
    assert "upkeep" in listed
    short = cluster.submit(["true"], **asking(1, "5s"))["id"]
    long = cluster.submit(["true"], **asking(1, "30m"))["id"]
    assert cluster.wait_end(short)["state"] == "Completed"
    why = explained(cluster, long)
    assert "upkeep" in why["reason"]
    assert cluster.allocation(long)["state"] == "Pending"
    assert "upkeep" in cluster.cli("status", long, "--verbose").stdout
    dry = cluster.cli("submit", "--dry-run", "--walltime=30m", "--", "true").stdout
    assert "It would wait" in dry
    assert "upkeep" in dry
    cluster.cli("admin", "reservation", "delete", "upkeep")
    assert cluster.wait_end(long)["state"] == "Completed"


def test_a_reservation_lets_its_own_users_in(cluster: LocalCluster) -> None:
    user = cluster.get("/whoami")["user"]
    body = {"name": "mine", "start": in_s(-1), "duration": "1h", "nodes": "n[1-4]", "users": [user]}
    cluster.post("/reservations", body)
    assert cluster.run(["true"], **asking(4, "30m"))["state"] == "Completed"


def test_a_dry_run_tells_where_it_would_start_and_leaves_nothing_behind(cluster: LocalCluster) -> None:
    before = cluster.get("/allocations/count")
    out = cluster.cli("submit", "--dry-run", "--nodes=2", "--", "true").stdout
    assert out.startswith("It would start now on n")
    refused = cluster.cli("submit", "--dry-run", "--nodes=5", "--", "true", check=False)
    assert refused.returncode == 1
    assert "not enough nodes" in refused.stderr
    assert cluster.get("/allocations/count") == before


def test_weights_take_effect_while_the_cluster_runs(cluster: LocalCluster) -> None:
    cluster.cli("admin", "vcluster", "set-weights", "--name=default", "--reset", "--priority=1")
    try:
        blocker = cluster.submit(["sleep", "60"], **asking(4, "10m"))["id"]
        cluster.wait_state(blocker, "Running")
        low = cluster.submit(["true"], **asking(4, "1m"), priority="low")["id"]
        high = cluster.submit(["true"], **asking(4, "1m"), priority="high")["id"]
        eventually(lambda: explained(cluster, low)["rank"] == 2, "the low one behind the high one")
        assert explained(cluster, high)["rank"] == 1
        scores = explained(cluster, high)["scores"]
        assert scores["priority"] == pytest.approx(scores["total"], abs=0.01)
        cluster.delete(f"/allocations/{blocker}")
        assert cluster.wait_end(high)["started_at"] < cluster.wait_end(low)["started_at"]
    finally:
        cluster.cli("admin", "vcluster", "set-weights", "--name=default", "--reset")


def test_a_trace_is_recorded_while_it_is_asked_for(cluster: LocalCluster) -> None:
    cluster.cli("admin", "config", "set", "scheduler.trace_capture=true")
    try:
        done = cluster.run(["true"], **asking(1, "1m"))
    finally:
        cluster.cli("admin", "config", "set", "scheduler.trace_capture=false")
    folder = cluster.directory / "data" / "traces"

    def recorded() -> list[dict[str, Any]] | None:
        lines = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
        return lines if any(line["type"] == "complete" for line in lines) else None

    lines = eventually(recorded, f"the end in {folder}")
    kinds = [line["type"] for line in lines]
    assert kinds == ["node"] * 4 + ["submit", "start", "complete"]
    assert [lines[4]["alloc"]["id"], lines[5]["alloc_id"], lines[6]["alloc_id"]] == [done["id"]] * 3
