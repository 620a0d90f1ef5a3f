from collections.abc import Iterator

import pytest

from lattice.testing import LocalCluster


@pytest.fixture(scope="session")
def cli_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2) as started:
        yield started


@pytest.fixture
def cluster(cli_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """A cluster on which nothing runs and every node is Ready, before and after."""
    yield cli_cluster
    cli_cluster.cli("cancel", "--all-mine", "-q")
    for node in cli_cluster.nodes():
        cli_cluster.wait_node(node, "Ready")
