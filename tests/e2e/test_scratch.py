"""Temporary files of runs that share a node: each has its own, and nothing of them is left."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.root]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not in /tmp, which the runs do not see."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[LocalCluster]:
    (place / "cluster").mkdir()
    arguments = ["--scratch-dir", str(place / "scratch")]
    with LocalCluster(nodes=1, arguments=arguments, directory=place / "cluster") as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        yield cluster


SHARE = {"nodes": 1, "cpus": 1, "memory": "256M"}


def test_runs_on_one_node_do_not_see_the_temporary_files_of_each_other(cluster: LocalCluster, place: Path) -> None:
    go = place / "go"
    write = f"echo secret > /tmp/mine; echo secret > /dev/shm/mine; touch {place}/wrote; while [ ! -e {go} ]; do sleep 0.05; done"
    first = cluster.submit(write, resources=SHARE, cwd="/")
    eventually(lambda: (place / "wrote").exists() or None, "the first run to write")
    second = cluster.run(
        "ls -A /tmp /dev/shm; echo $TMPDIR; test -w $LATTICE_SCRATCH && echo scratch", resources=SHARE, cwd="/"
    )
    go.touch()
    assert cluster.wait_end(first["id"])["state"] == "Completed"
    assert cluster.logs(second["id"]) == "/dev/shm:\n\n/tmp:\n/tmp\nscratch\n"
    assert not Path("/tmp/mine").exists()
    assert not Path("/dev/shm/mine").exists()


def test_steps_of_a_run_see_its_temporary_files(cluster: LocalCluster, place: Path) -> None:
    write = f"echo shared > /tmp/mine; touch {place}/ready; exec sleep 300"
    run = cluster.submit(write, resources=SHARE, cwd="/")
    eventually(lambda: (place / "ready").exists() or None, "the run to write")
    step = cluster.cli("launch", "--alloc", run["id"], "-n", "1", "cat", "/tmp/mine")
    assert step.stdout == "shared\n"
    cluster.delete(f"/allocations/{run['id']}")
    cluster.wait_end(run["id"])


def test_nothing_is_left_when_a_run_has_ended(cluster: LocalCluster, place: Path) -> None:
    done = cluster.run(
        "touch /tmp/a $LATTICE_SCRATCH/b; mkdir -p /tmp/deep/er; chmod 0 /tmp/deep", resources=SHARE, cwd="/"
    )
    assert done["state"] == "Completed"
    eventually(lambda: not list((place / "scratch" / "n1").iterdir()) or None, "the scratch directories to go")
