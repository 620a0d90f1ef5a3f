"""Deaths in the middle of a launch: of the server, an agent, a shim."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

# Counts aloud until it is let go, then ends with a code of its own.
COUNTING = "n=0; while [ ! -e {scratch}/go ]; do n=$((n+1)); echo line $n; sleep 0.02; done; echo $n > {scratch}/last.$PMI_RANK"


@pytest.fixture(scope="module")
def fault_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2, arguments=["--node-cpus", "4"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(fault_cluster: LocalCluster) -> Iterator[LocalCluster]:
    yield fault_cluster
    fault_cluster.wait_serving()
    fault_cluster.post("/allocations/cancel", {"all_mine": True})
    for node in fault_cluster.nodes():
        fault_cluster.wait_node(node, "Ready")


def begun(cluster: LocalCluster, *words: str) -> tuple[str, "subprocess.Popen[str]"]:
    submitted = cluster.submit(["sleep", "600"], resources={"nodes": 2}, lifecycle={"requeue": "never"})
    cluster.wait_state(submitted["id"], "Running")
    program = Path(sys.executable).with_name("lattice")
    step = subprocess.Popen(
        [str(program), "launch", "--alloc", submitted["id"], *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
    )
    return str(submitted["id"]), step


def rest_of(step: "subprocess.Popen[str]") -> tuple[str, str]:
    """What is left of its output, beginning with what was read ahead, when it has ended."""
    assert step.stdout is not None
    assert step.stderr is not None
    output, errors = step.stdout.read(), step.stderr.read()
    step.wait(60)
    return output, errors


def check_complete(output: str, scratch: Path) -> None:
    """Every line of each rank once, in order, up to the last one that it wrote."""
    for rank in (0, 1):
        last = int((scratch / f"last.{rank}").read_text())
        lines = [line.partition(": ")[2] for line in output.splitlines() if line.startswith(f"{rank}: ")]
        assert lines == [f"line {number}" for number in range(1, last + 1)]


@pytest.mark.parametrize("role", ["server", "agent"])
def test_a_launch_goes_on_when_server_or_agent_die(cluster: LocalCluster, scratch: Path, role: str) -> None:
    script = COUNTING.format(scratch=scratch) + "; exit $((PMI_RANK * 7))"
    _, step = begun(cluster, "-n", "2", "--label", "--no-kill", "sh", "-c", script)
    with step:
        assert step.stdout is not None
        first = step.stdout.readline()
        cluster.wait_replaced(cluster.kill(role))
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


def test_a_launch_goes_on_under_the_next_leader(scratch: Path) -> None:
    script = COUNTING.format(scratch=scratch) + "; exit $((PMI_RANK * 7))"
    with LocalCluster(nodes=2, servers=3) as cluster:
        alloc, step = begun(cluster, "-n", "2", "--label", "--no-kill", "sh", "-c", script)
        with step:
            assert step.stdout is not None
            first = step.stdout.readline()
            leader = cluster.leader()
            for role in ("server", "etcd"):
                cluster.kill(role, leader)
            eventually(lambda: cluster.leader() != leader, "another leader", within_s=30)
            (scratch / "go").touch()
            output, errors = rest_of(step)
        assert step.returncode == 7, errors
        check_complete(first + output, scratch)
        assert len(cluster.get(f"/allocations/{alloc}/steps")["items"]) == 1
