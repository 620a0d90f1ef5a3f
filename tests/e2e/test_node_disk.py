"""A node whose own disk takes no more: its work runs elsewhere, and it gets no new work until there is room."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from lattice.testing import LocalCluster
from tests.conftest import missing
from tests.e2e.full_disks import fill_up

pytestmark = [pytest.mark.e2e, pytest.mark.root]

MEGABYTES = 200
Json = Any


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes; the state directory of the first lies on a small disk."""
    cluster = LocalCluster(nodes=3)
    state = cluster.directory / "agents" / "n1"
    state.mkdir(mode=0o700, parents=True)
    state.parent.chmod(0o700)
    options = f"size={MEGABYTES}m,mode=0700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", state], check=False).returncode != 0:
        cluster.remove()
        missing("permission to mount a tmpfs")
    try:
        with cluster:
            yield cluster
    finally:
        subprocess.run(["umount", "-l", state], check=True)
        cluster.remove()


def run_everywhere(cluster: LocalCluster) -> list[Json]:
    asked = [cluster.submit(["true"], lifecycle={"requeue": "never"})["id"] for _ in range(40)]
    return [cluster.wait_end(each) for each in asked]


def check_all_ran_elsewhere(cluster: LocalCluster, ended: list[Json]) -> None:
    assert {(each["state"], each["requeue_count"]) for each in ended} == {("Completed", 0)}
    assert all("n1" not in each["nodes"] for each in ended)
    assert 0 < sum("n1" in each.get("avoided", []) for each in ended) < 10
    n1 = cluster.wait_node("n1", "Degraded")
    assert "disk_space" in n1["reason"]


def test_a_node_with_a_full_disk_fails_no_work_and_takes_none(cluster: LocalCluster) -> None:
    cluster.wait_node("n1", "Ready")
    ballast = cluster.directory / "agents" / "n1" / "ballast"
    fill_up(ballast)
    check_all_ran_elsewhere(cluster, run_everywhere(cluster))
    ballast.unlink()
    cluster.cli("node", "check", "n1")
    cluster.wait_node("n1", "Ready")


def test_a_disk_that_became_read_only_is_the_nodes_failure_too(cluster: LocalCluster) -> None:
    cluster.wait_node("n1", "Ready")
    runs = cluster.directory / "agents" / "n1" / "runs"
    subprocess.run(["mount", "--bind", runs, runs], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", runs], check=True)
        check_all_ran_elsewhere(cluster, run_everywhere(cluster))
    finally:
        subprocess.run(["umount", "-l", runs], check=True)
    cluster.cli("node", "check", "n1")
    cluster.wait_node("n1", "Ready")
