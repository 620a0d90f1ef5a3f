"""One cluster for all tests that leave it as they found it: everybody's work ended, every node Ready."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster

NODES = 3
HERE = Path(__file__).parent

_started: list[LocalCluster] = []


def _stop() -> None:
    while _started:
        _started.pop().remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """The cluster ends with the last test of this folder: its heartbeats would go on beside all that follow."""
    try:
        yield
    finally:
        if nextitem is None or HERE not in nextitem.path.parents:
            _stop()


@pytest.fixture(scope="session")
def last_resort() -> Iterator[None]:
    """Where the last test was not the one that was expected to be."""
    yield
    _stop()


@pytest.fixture
def shared_cluster(last_resort: None) -> LocalCluster:
    if not _started:
        cluster = LocalCluster(nodes=NODES)
        cluster.__enter__()
        _started.append(cluster)
    return _started[0]


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> Iterator[LocalCluster]:
    yield shared_cluster
    try:
        shared_cluster.wait_serving()
        shared_cluster.post("/allocations/cancel", {"all_mine": True})
        for node in shared_cluster.nodes():
            shared_cluster.wait_node(node, "Ready")
    except BaseException:
        _stop()  # the next test begins with a new one
        raise


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where workloads may leave their traces, whoever they run as."""
    tmp_path.chmod(0o777)
    return tmp_path
