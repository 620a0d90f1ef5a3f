"""Deaths in the middle of a launch: of the server, an agent, a shim. That of a leader is in test_next_leader."""

import subprocess
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.e2e.launching import COUNTING, check_complete, launched, rest_of

pytestmark = pytest.mark.e2e


def begun(cluster: LocalCluster, *words: str) -> tuple[str, "subprocess.Popen[str]"]:
    submitted = cluster.submit(["sleep", "600"], resources={"nodes": 2}, lifecycle={"requeue": "never"})
    cluster.wait_state(submitted["id"], "Running")
    return str(submitted["id"]), launched(cluster, submitted["id"], *words)


def test_a_launch_goes_on_when_an_agent_dies(cluster: LocalCluster, scratch: Path) -> None:
    script = COUNTING.format(scratch=scratch) + "; exit $((PMI_RANK * 7))"
    alloc, step = begun(cluster, "-n", "2", "--label", "--no-kill", "sh", "-c", script)
    with step:
        assert step.stdout is not None
        first = step.stdout.readline()
        cluster.wait_replaced(cluster.kill("agent", cluster.allocation(alloc)["nodes"][0]))
        cluster.wait_serving()
        (scratch / "go").touch()
        output, errors = rest_of(step)
    assert step.returncode == 7, errors
    check_complete(first + output, scratch)


def test_a_launch_that_ends_while_the_server_is_dead_is_told_by_the_next(cluster: LocalCluster, scratch: Path) -> None:
    alloc, step = begun(cluster, "-n", "2", "--label", "sh", "-c", COUNTING.format(scratch=scratch))
    with step:
        assert step.stdout is not None
        first = step.stdout.readline()
        cluster.kill("server")
        (scratch / "go").touch()
        output, errors = rest_of(step)
    assert step.returncode == 0, errors
    check_complete(first + output, scratch)
    eventually(lambda: cluster.get(f"/allocations/{alloc}/steps")["items"][0]["ended_at"], "the record", within_s=30)
    assert len(cluster.get(f"/allocations/{alloc}/steps")["items"]) == 1


def test_ranks_of_a_dead_shim_are_reported_by_number(cluster: LocalCluster) -> None:
    alloc, step = begun(cluster, "-n", "4", "--label", "sh", "-c", "echo ready; exec sleep 600")
    with step:
        assert step.stdout is not None
        for _ in range(4):
            step.stdout.readline()
        node = cluster.allocation(alloc)["nodes"][1]
        cluster.wait_replaced(cluster.kill("shim", node))
        _, errors = rest_of(step)
    assert step.returncode == 125
    assert f"tasks 2-3 on {node}: lost" in errors
