"""A rolling upgrade of real agents: the site's program replaces their release, the server is killed meanwhile, work goes on."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.e2e.release_site import NEW, OLD, ReleaseSite, all_run, upgrade, wait_phase

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[LocalCluster, ReleaseSite]]:
    directory = Path(tempfile.mkdtemp(prefix="lattice-"))
    site = ReleaseSite(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site.folder))
        with LocalCluster(nodes=3, settings=site.settings, directory=directory) as cluster:
            yield cluster, site
    shutil.rmtree(directory, ignore_errors=True)


def test_a_canary_whose_program_fails_is_rolled_back(site: tuple[LocalCluster, ReleaseSite]) -> None:
    cluster, releases = site
    releases.refuse(is_refusing=True)
    upgrade(cluster, "start", "--to", NEW, "--observe", "0s")
    wait_phase(cluster, "rolled_back")
    releases.refuse(is_refusing=False)
    for node in cluster.nodes():
        cluster.wait_node(node, "Ready")
    assert all_run(cluster, OLD)


def test_agents_are_upgraded_while_the_server_is_killed_and_work_goes_on(
    site: tuple[LocalCluster, ReleaseSite],
) -> None:
    cluster, here = site[0], site[1].folder
    allocation = cluster.submit(["sh", "-c", f"while [ ! -e {here}/go ]; do sleep 0.2; done"])["id"]
    running = cluster.wait_state(allocation, "Running")
    upgrade(cluster, "start", "--to", NEW, "--canary", "1", "--batch", "2", "--observe", "0s")
    eventually(lambda: any(node["state"] == "Draining" for node in cluster.nodes().values()), "a node drains")
    cluster.wait_replaced(cluster.kill("server"))
    cluster.wait_serving()
    (here / "go").touch()
    assert wait_phase(cluster, "done")["done"] == 3
    assert all_run(cluster, NEW)
    assert cluster.wait_end(allocation)["state"] == "Completed", running
    for node in cluster.nodes():
        cluster.wait_node(node, "Ready")
    upgrade(cluster, "rollback", "--reason", "as a test")
    wait_phase(cluster, "rolled_back")
    assert all_run(cluster, OLD)
