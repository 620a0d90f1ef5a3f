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
    why = cluster.get(f"/allocations/{high}/explanation")["preemption"]
    assert (why["could_take"], why["protected"]) == (0, {"class": 1, "young": 1})
    assert safe[0] not in why["text"], "others are counted, never named"
    tried = cluster.cli("submit", "--dry-run", "--preemption-class=9", "--walltime=90m", "--", "true")
    assert "Preemption: it may preempt none of 2 running on suitable nodes" in tried.stdout
    standing = [cluster.get(f"/allocations/{each}/explanation")["standing"] for each in safe]
    assert [each["safe_until"] is None for each in standing] == [True, False]
    assert [each["is_protected"] for each in standing] == [True, True]
    setting(cluster, "min_runtime_s", 0)
    assert cluster.wait_end(high)["state"] == "Completed"
    assert cluster.allocation(safe[0])["state"] == "Running"
    assert cluster.allocation(safe[1])["preempted"] == 1
    cluster.wait_state(safe[1], "Running")
    taken = cluster.get(f"/allocations/{safe[1]}/explanation")["standing"]
    assert not taken["is_protected"]
    assert taken["text"].startswith("work of a higher class may preempt it; 0.0 ")


def test_the_first_process_of_a_preemptor_comes_soon_after_its_submission(cluster: LocalCluster) -> None:
    running(cluster, "sleep 3600", 3)
    running(cluster, "sleep 3600", 3)
    began = time.monotonic()
    high = submit(cluster, "sleep 60", 9)
    cluster.wait_state(high, "Running", within_s=10.0)
    assert time.monotonic() - began < 10


@pytest.fixture(scope="module")
def homes(two_nodes: LocalCluster) -> tuple[str, str]:
    """Two vClusters with a node each: `home` lends its one, `guest` borrows. The names of both nodes."""
    own, foreign = sorted(two_nodes.nodes())
    two_nodes.cli("admin", "vcluster", "create", "home", f"--nodes={own}", "--lends=idle", "--return-grace=2s")
    two_nodes.cli("admin", "vcluster", "create", "guest", f"--nodes={foreign}", "--borrows")
    return own, foreign


def test_an_idle_node_is_lent_and_comes_back_after_a_warning(
    cluster: LocalCluster, homes: tuple[str, str], tmp_path: Path
) -> None:
    own, foreign = homes
    text = f"trap 'echo asked >> {tmp_path}/told; exit 0' TERM; echo began >> {tmp_path}/told; while :; do sleep 0.05; done"
    first = running(cluster, "sleep 3600", 6, vcluster="guest")
    assert cluster.allocation(first)["nodes"] == [foreign], "its own node comes first"
    borrower = running(cluster, text, 6, vcluster="guest")
    assert cluster.allocation(borrower)["nodes"] == [own]
    eventually(lambda: told(tmp_path, "began") == 1, "the trap is set")
    shown = cluster.cli("admin", "vcluster", "show", "home").stdout
    assert f"{own} to guest since " in shown
    assert f"{own} of home since " in cluster.cli("admin", "vcluster", "show", "guest").stdout
    line = next(each for each in cluster.cli("nodes", "-o", "wide").stdout.splitlines() if each.startswith(own))
    assert " home " in line
    standing = cluster.get(f"/allocations/{borrower}/explanation")["standing"]
    assert standing["notice_s"] == 2
    wanted = submit(cluster, "sleep 3600", 0, vcluster="home")
    assert told(tmp_path, "asked") == 0, "it is warned first"
    cluster.wait_state(wanted, "Running")
    assert cluster.allocation(wanted)["nodes"] == [own]
    back = cluster.allocation(borrower)
    assert back["state"] in ("Pending", "Completed")
    assert told(tmp_path, "asked") == 1
    assert cluster.allocation(first)["state"] == "Running", "just enough is taken back"
    assert f"{own} to guest" not in cluster.cli("admin", "vcluster", "show", "home").stdout


def test_a_lent_node_comes_back_although_the_leader_is_killed_during_the_grace(
    cluster: LocalCluster, homes: tuple[str, str]
) -> None:
    running(cluster, "sleep 3600", 6, vcluster="guest")
    borrower = running(cluster, "sleep 3600", 6, vcluster="guest")
    wanted = submit(cluster, "sleep 3600", 0, vcluster="home")
    eventually(
        lambda: (
            "gives back"
            in (cluster.get(f"/allocations/{wanted}/explanation").get("preemption") or {"text": ""})["text"]
        ),
        "the borrower is warned",
    )
    old = cluster.kill("server")
    cluster.wait_replaced(old)
    cluster.wait_serving()
    cluster.wait_state(wanted, "Running")
    assert cluster.allocation(wanted)["nodes"] == [homes[0]]
    victim = cluster.allocation(borrower)
    assert (victim["state"], victim["preempted"], victim["requeue_count"]) == ("Pending", 1, 0)
    assert victim["message"] == "preempted: the nodes were borrowed and are needed at home"
