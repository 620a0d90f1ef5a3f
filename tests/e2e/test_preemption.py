"""Work of a high class takes work of lower classes off real nodes: it starts, and the victims wait again, each taken once."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually

Json = Any
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2) as cluster:
        setting(cluster, "min_runtime_s", 0)
        yield cluster


@pytest.fixture
def cluster(two_nodes: LocalCluster) -> Iterator[LocalCluster]:
    yield two_nodes
    two_nodes.wait_serving()
    for name, value in (("min_runtime_s", 0), ("near_completion_s", 300), ("max_per_allocation", 3)):
        setting(two_nodes, name, value)
    two_nodes.post("/allocations/cancel", {"all_mine": True})
    eventually(lambda: all(node["holding"] == "free" for node in two_nodes.nodes().values()), "all nodes free")


def setting(cluster: LocalCluster, name: str, value: float) -> None:
    cluster.put(f"/settings/preemption.{name}", {"value": str(value)})


def submit(cluster: LocalCluster, entrypoint: str, klass: int, **fields: Json) -> str:
    life = {"preemption_class": klass, "walltime": "2h", **fields.pop("lifecycle", {})}
    answer = cluster.submit(["sh", "-c", entrypoint], lifecycle=life, **fields)
    return str(answer["id"])


def running(cluster: LocalCluster, entrypoint: str, klass: int, **fields: Json) -> str:
    allocation = submit(cluster, entrypoint, klass, **fields)
    cluster.wait_state(allocation, "Running")
    return allocation


def stubborn(folder: Path, name: str) -> str:
    """Leaves a line when it begins and when it is asked to end, and ends when it is let go."""
    ask = f"echo {name} asked >> {folder}/told; while [ ! -e {folder}/{name} ]; do sleep 0.05; done; exit 1"
    return f"trap '{ask}' TERM; echo {name} began >> {folder}/told; while :; do sleep 0.05; done"


def told(folder: Path, line: str) -> int:
    path = folder / "told"
    return path.read_text().splitlines().count(line) if path.exists() else 0


def test_two_victims_that_end_apart_are_taken_once_also_when_the_leader_is_killed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    first = running(cluster, stubborn(tmp_path, "first"), 3)
    second = running(cluster, stubborn(tmp_path, "second"), 3)
    eventually(lambda: told(tmp_path, "first began") + told(tmp_path, "second began") == 2, "both have set their traps")
    high = submit(cluster, f"echo high began >> {tmp_path}/told; sleep 3600", 9, resources={"nodes": 2})
    eventually(lambda: told(tmp_path, "first asked") + told(tmp_path, "second asked") == 2, "both victims are asked")
    (tmp_path / "first").touch()
    victim = cluster.wait_state(first, "Pending")
    assert (victim["preempted"], victim["requeue_count"], victim["restart_count"]) == (1, 0, 1)
    assert victim["message"] == "preempted: work of class 9 needs its nodes"
    old = cluster.kill("server")
    cluster.wait_replaced(old)
    cluster.wait_serving()
    # One node is free and the other is not: nothing may start on it but the work that it was freed for.
    third = submit(cluster, "true", 8, lifecycle={"walltime": "5s"})
    assert cluster.allocation(high)["state"] == "Pending"
    assert told(tmp_path, "second began") == 1
    (tmp_path / "second").touch()
    cluster.wait_state(high, "Running")
    assert [cluster.allocation(each)["state"] for each in (first, second, third)] == ["Pending"] * 3
    assert [cluster.allocation(each)["preempted"] for each in (first, second)] == [1, 1]
    eventually(lambda: told(tmp_path, "high began") == 1, "it began once")
    assert told(tmp_path, "first began") == 1
    cluster.delete(f"/allocations/{high}")
    for each in (first, second):
        cluster.wait_state(each, "Running")
    eventually(lambda: told(tmp_path, "first began") + told(tmp_path, "second began") == 4, "both ran again")


def test_a_victim_that_may_not_run_again_fails_as_preempted(cluster: LocalCluster) -> None:
    lost = running(cluster, "sleep 3600", 3, lifecycle={"requeue": "never"})
    kept = running(cluster, "sleep 3600", 3)
    high = submit(cluster, "sleep 3600", 9, resources={"nodes": 2})
    cluster.wait_state(high, "Running")
    ended = cluster.allocation(lost)
    assert (ended["state"], ended["cause"]) == ("Failed", "preempted")
    waiting = cluster.allocation(kept)
    assert (waiting["state"], waiting["preempted"]) == ("Pending", 1)


def test_protected_work_is_left_alone(cluster: LocalCluster) -> None:
    safe = [
        running(cluster, "sleep 3600", 7, lifecycle={"no_preempt": True}),
        running(cluster, "sleep 3600", 3),
    ]
    setting(cluster, "min_runtime_s", 3600)
    high = submit(cluster, "true", 9, lifecycle={"walltime": "90m"})
    explained = eventually(lambda: cluster.allocation(high)["reason"], "it was considered")
    assert "occupied" in explained
    assert [cluster.allocation(each)["state"] for each in safe] == ["Running", "Running"]
    setting(cluster, "min_runtime_s", 0)
    assert cluster.wait_end(high)["state"] == "Completed"
    assert cluster.allocation(safe[0])["state"] == "Running"
    assert cluster.allocation(safe[1])["preempted"] == 1


def test_the_first_process_of_a_preemptor_comes_soon_after_its_submission(cluster: LocalCluster) -> None:
    running(cluster, "sleep 3600", 3)
    running(cluster, "sleep 3600", 3)
    began = time.monotonic()
    high = submit(cluster, "sleep 60", 9)
    cluster.wait_state(high, "Running", within_s=10.0)
    assert time.monotonic() - began < 10
