"""Temporary files of runs that share a node: each has its own, and nothing of them is left."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client, Submission
from lattice_sdk.models.records import ResourceRequest
from tests.conftest import require_program

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


def test_scratch_of_a_size_is_full_at_that_size_and_gone_afterwards(cluster: LocalCluster, place: Path) -> None:
    require_program("mke2fs")
    assert "scratch" in cluster.nodes()["n1"]["features"]
    write = "head -c 100M /dev/zero > $LATTICE_SCRATCH/much; echo $?; rm $LATTICE_SCRATCH/much; echo ok > /tmp/little; cat /tmp/little"
    ready = place / "written"
    run = cluster.submit(f"{write}; touch {ready}; sleep 600", resources=SHARE, cwd="/", scratch="32M")
    eventually(lambda: ready.exists() or None, "the file system to be full")
    assert "No space left on device" in cluster.logs(run["id"], "stderr")
    step = cluster.cli(
        "launch", "--alloc", run["id"], "-n", "1", "sh", "-c", "cat $LATTICE_SCRATCH/tmp/little", cwd=Path("/")
    )
    assert (cluster.logs(run["id"]), step.stdout) == ("1\nok\n", "ok\n")
    cluster.delete(f"/allocations/{run['id']}")
    eventually(lambda: not list((place / "scratch" / "n1").iterdir()) or None, "the scratch directories to go")

    def is_detached() -> bool | None:
        backed = [file.read_text() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
        return not any(str(place) in text for text in backed) or None

    eventually(is_detached, "the loop device to go")
    huge = cluster.cli("submit", "--scratch=1M", "--", "true", check=False)
    assert (huge.returncode != 0, "from 16 to" in huge.stderr) == (True, True)


USERS = ("lattice-cora", "lattice-dirk")


@pytest.fixture
def tokens(cluster: LocalCluster) -> Iterator[list[str]]:
    """Of two accounts of this machine."""
    require_program("useradd")
    for user in USERS:
        subprocess.run(["useradd", "--no-create-home", "--home-dir", "/", "--shell", "/bin/sh", user], check=True)
    secret, now = (cluster.directory / "secret").read_bytes().strip(), int(time.time())
    yield [
        sign_token(secret, user=user, tenants=["default"], scope="", issued_at_s=now, lifetime_s=600) for user in USERS
    ]
    for user in USERS:
        subprocess.run(["userdel", user], check=True)


def test_another_user_reads_neither_scratch_nor_temporary_files_nor_environment(
    cluster: LocalCluster, place: Path, tokens: list[str]
) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(cluster.api_url, token=token, retry_for=30)) for token in tokens]
        check_nothing_is_read(cluster, place, clients)


def check_nothing_is_read(cluster: LocalCluster, place: Path, clients: list[Client]) -> None:
    share = ResourceRequest(nodes=1, cpus=1, memory="128M")
    write = (
        "umask 0; for d in /tmp /dev/shm $LATTICE_SCRATCH; do echo key=$SECRET > $d/own; done; echo $$; exec sleep 300"
    )
    first = clients[0].submit(
        Submission(entrypoint=["sh", "-c", write], environment={"SECRET": "4711"}, resources=share, cwd="/")
    )
    cluster.wait_state(first.id, "Running")
    pid = int(eventually(lambda: cluster.logs(first.id) or None, "the first run to write"))
    scratch = place / "scratch" / "n1" / f"{first.number}.1"
    assert (scratch / "own").read_text() == "key=4711\n"
    own = f"/proc/{pid}"
    tries = [
        f"{scratch}/own",
        f"{scratch}/tmp/own",
        f"{own}/environ",
        f"{own}/root/tmp/own",
        f"{own}/cwd/x",
        "/tmp/own",
    ]
    look = f"cat {' '.join(tries)} /dev/shm/own /scratch/local/*/own; ls {scratch} {own}/root/dev/shm; kill -0 {pid}; echo done"
    second = clients[1].submit(Submission(entrypoint=["sh", "-c", f"({look}) 2>&1"], resources=share, cwd="/"))
    assert clients[1].wait(second.id, timeout=60).state == "Completed"
    said = cluster.logs(second.id)
    assert said.endswith("done\n")
    assert "4711" not in said
    assert "own" not in [line.strip() for line in said.splitlines()], said
    assert said.count("Permission denied") >= 6, said
    clients[0].cancel(first.id)
    clients[0].wait(first.id, timeout=60)
    assert not scratch.exists()
