"""Deaths in the middle of work: of the agent, the shim, the server, and a node that stands still."""

from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running

pytestmark = pytest.mark.e2e

# Says which run it is, waits until it is let go, and ends with an exit code of its own.
WAITING = "echo $LATTICE_RUN $$ >> {scratch}/began; while [ ! -e {scratch}/go ]; do sleep 0.05; done; echo over; exit 5"


def submit_waiting(cluster: LocalCluster, scratch: Path, requeue: str = "never") -> dict[str, str]:
    """An allocation whose process has begun."""
    submitted = cluster.submit(
        WAITING.format(scratch=scratch), lifecycle={"type": "bounded", "walltime": "5m", "requeue": requeue}
    )
    begun(scratch, 1)
    return dict(cluster.wait_state(submitted["id"], "Running"))


def begun(scratch: Path, count: int, *, within_s: float = 30) -> list[tuple[int, int]]:
    """Run and pid of each execution so far, once there are so many."""

    def look() -> list[tuple[int, int]] | None:
        path = scratch / "began"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(run), int(pid)) for run, pid in map(str.split, lines)] if len(lines) >= count else None

    return eventually(look, f"{count} executions", within_s=within_s)


def test_kill_of_the_agent_disturbs_neither_process_nor_output_nor_exit_code(
    cluster: LocalCluster, scratch: Path
) -> None:
    running = submit_waiting(cluster, scratch)
    killed = cluster.kill("agent", running["nodes"][0])
    cluster.wait_replaced(killed)
    assert is_running(begun(scratch, 1)[0][1])
    (scratch / "go").touch()
    done = cluster.wait_end(running["id"])
    assert (done["state"], done["exit_code"], done["run"]) == ("Failed", 5, 1)
    assert cluster.logs(running["id"]) == "over\n"
    assert len(begun(scratch, 1)) == 1


def test_work_that_ends_while_the_agent_is_dead_is_reported_by_the_next(cluster: LocalCluster, scratch: Path) -> None:
    running = submit_waiting(cluster, scratch)
    pid = begun(scratch, 1)[0][1]
    (scratch / "go").touch()
    cluster.kill("agent", running["nodes"][0])
    eventually(lambda: not is_running(pid), "the work has ended")
    done = cluster.wait_end(running["id"])
    assert (done["state"], done["exit_code"]) == ("Failed", 5)
    assert cluster.logs(running["id"]) == "over\n"


def test_kill_of_the_shim_fails_its_work_with_cause_node(cluster: LocalCluster, scratch: Path) -> None:
    running = submit_waiting(cluster, scratch, requeue="never")
    cluster.wait_replaced(cluster.kill("shim", running["nodes"][0]))
    done = cluster.wait_end(running["id"])
    assert (done["state"], done["cause"]) == ("Failed", "node")
    assert not is_running(begun(scratch, 1)[0][1])


def test_kill_of_the_shim_runs_its_work_again_where_that_was_asked_for(cluster: LocalCluster, scratch: Path) -> None:
    running = submit_waiting(cluster, scratch, requeue="on_node_failure")
    cluster.kill("shim", running["nodes"][0])
    first, second = begun(scratch, 2)
    assert (first[0], second[0]) == (1, 2)
    assert not is_running(first[1])
    (scratch / "go").touch()
    done = cluster.wait_end(running["id"])
    assert (done["exit_code"], done["run"], done["requeue_count"]) == (5, 2, 1)


def test_kill_of_the_server_loses_nothing_and_disturbs_no_work(cluster: LocalCluster, scratch: Path) -> None:
    running = submit_waiting(cluster, scratch)
    queued = [cluster.submit(["true"], hold=True)["id"] for _ in range(50)]
    killed = cluster.kill("server")
    started = cluster.wait_replaced(killed)
    assert started.addresses == killed.addresses
    cluster.wait_serving()
    assert {cluster.allocation(allocation_id)["state"] for allocation_id in queued} == {"Pending"}
    assert cluster.allocation(running["id"])["state"] == "Running"
    (scratch / "go").touch()
    done = cluster.wait_end(running["id"])
    assert (done["exit_code"], done["run"]) == (5, 1)
    assert len(begun(scratch, 1)) == 1


def test_work_that_ends_while_the_server_is_dead_keeps_its_exit_code(cluster: LocalCluster, scratch: Path) -> None:
    running = submit_waiting(cluster, scratch)
    pid = begun(scratch, 1)[0][1]
    killed = cluster.kill("server")
    (scratch / "go").touch()
    eventually(lambda: not is_running(pid), "the work has ended")
    cluster.wait_replaced(killed)
    cluster.wait_serving()
    done = cluster.wait_end(running["id"])
    assert (done["state"], done["exit_code"]) == ("Failed", 5)


def test_submissions_repeated_through_a_server_kill_happen_once(cluster: LocalCluster, scratch: Path) -> None:
    body = {"request_id": f"once-{scratch.name}", "entrypoint": f"echo x >> {scratch}/runs"}
    first = cluster.post("/allocations", body)
    killed = cluster.kill("server")
    cluster.wait_replaced(killed)
    cluster.wait_serving()
    again = cluster.post("/allocations", body)
    assert again["id"] == first["id"]
    cluster.wait_end(first["id"])
    assert (scratch / "runs").read_text() == "x\n"


def test_the_command_line_waits_for_a_server_that_comes_back(cluster: LocalCluster) -> None:
    killed = cluster.kill("server")
    outcome = cluster.cli("submit", "-q", "--", "true")
    assert cluster.wait_end(outcome.stdout.strip())["state"] == "Completed"
    cluster.wait_replaced(killed)


def test_a_node_that_stands_still_is_given_up_and_its_stale_run_dies_before_it_is_ready_again(
    cluster: LocalCluster, scratch: Path
) -> None:
    running = submit_waiting(cluster, scratch, requeue="on_node_failure")
    node = running["nodes"][0]
    with cluster.stopped("agent", node):
        cluster.wait_node(node, "Degraded")
        cluster.wait_node(node, "Down")
        first, second = begun(scratch, 2)
        assert second[0] == 2
        again = cluster.wait_state(running["id"], "Running")
        assert (again["run"], again["requeue_count"]) == (2, 1)
        assert node not in again["nodes"]
        assert is_running(first[1]), "nobody could have told the node to end it"
    cluster.wait_node(node, "Ready")
    assert not is_running(first[1])
    assert is_running(second[1])
    (scratch / "go").touch()
    done = cluster.wait_end(running["id"])
    assert (done["exit_code"], done["run"]) == (5, 2)
    assert len(begun(scratch, 2)) == 2


def test_a_drain_waits_for_work_and_survives_restarts(cluster: LocalCluster, scratch: Path) -> None:
    running = submit_waiting(cluster, scratch)
    node = running["nodes"][0]
    try:
        cluster.post(f"/nodes/{node}/drain", {"reason": "disk swap"})
        cluster.wait_node(node, "Draining")
        status, answer = cluster.request("POST", f"/nodes/{node}/undrain", {})
        assert status == 409
        assert running["id"] in answer["error"]["message"] + answer["error"].get("current", "")
        (scratch / "go").touch()
        cluster.wait_node(node, "Drained")
        for role, name in (("agent", node), ("server", None)):
            cluster.wait_replaced(cluster.kill(role, name))
        cluster.wait_serving()
        assert cluster.nodes()[node]["state"] == "Drained"
        assert cluster.nodes()[node]["reason"] == "disk swap"
    finally:
        cluster.wait_serving()
        cluster.wait_node(node, "Drained")
        cluster.post(f"/nodes/{node}/undrain", {})
