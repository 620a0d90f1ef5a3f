"""A cluster of somebody who is not root: no cgroups, own work only, and still nothing left behind."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running
from tests.e2e.open_programs import NOBODY, open_programs

pytestmark = [pytest.mark.e2e, pytest.mark.root]


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    with open_programs() as folder:
        yield folder


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that the other user can reach; those of pytest are its owner's alone."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-scratch-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(programs: Path) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1, program=programs / "lattice", user=NOBODY) as cluster:
        yield cluster


def test_work_runs_as_the_user_and_its_output_comes_back(cluster: LocalCluster) -> None:
    done = cluster.run(["id", "-u"])
    assert (done["state"], cluster.logs(done["id"]).strip()) == ("Completed", str(NOBODY))
    assert cluster.get("/whoami")["user"] == "nobody"


def test_cancel_reaches_processes_in_other_sessions(cluster: LocalCluster, scratch: Path) -> None:
    submitted = cluster.submit(f"trap '' TERM; setsid sleep 300 & echo $! > {scratch}/pid; wait; sleep 300")
    eventually(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text(), "the work began")
    cluster.delete(f"/allocations/{submitted['id']}")
    assert cluster.wait_end(submitted["id"])["state"] == "Cancelled"
    assert not is_running(int((scratch / "pid").read_text()))


def test_down_ends_work_whose_shim_was_killed(programs: Path, scratch: Path) -> None:
    cluster = LocalCluster(nodes=1, program=programs / "lattice", user=NOBODY)
    try:
        cluster.start()
        cluster.submit(f"setsid sleep 300 & echo $! > {scratch}/pid; sleep 300")
        eventually(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text(), "the work began")
        for role in ("supervisor", "agent", "shim"):
            cluster.kill(role)
        cluster.stop()
        assert not is_running(int((scratch / "pid").read_text()))
    finally:
        cluster.remove()


def test_a_stranger_cannot_read_the_cluster(cluster: LocalCluster) -> None:
    stranger = 65533
    for name in ("secret", "token", "agent-token", "cluster.json"):
        outcome = subprocess.run(["cat", cluster.directory / name], user=stranger, capture_output=True, check=False)
        assert outcome.returncode != 0
    assert os.stat(cluster.directory / "token").st_uid == NOBODY
