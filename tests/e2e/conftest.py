"""One cluster for all tests that leave it as they found it: everybody's work ended, every node Ready."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster

NODES = 3


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_cluster
    shared_cluster.wait_serving()
    shared_cluster.post("/allocations/cancel", {"all_mine": True})
    for node in shared_cluster.nodes():
        shared_cluster.wait_node(node, "Ready")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where workloads may leave their traces, whoever they run as."""
    tmp_path.chmod(0o777)
    return tmp_path
