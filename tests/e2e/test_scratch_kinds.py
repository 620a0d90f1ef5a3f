"""Scratch of a size on a disk and in memory, outside and inside containers: full at its size, of no one else, and gone afterwards."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client, Submission
from lattice_sdk.models.records import ResourceRequest
from tests.conftest import require_program
from tests.e2e.container_user import home_of, open_folder
from tests.oci_files import busybox_layer, make_layout

pytestmark = [pytest.mark.e2e, pytest.mark.root]

USER = f"eve{os.getpid()}"
MEMORY, DISK = "memory", "disk"
INSIDE, OUTSIDE = "inside", "outside"
SHARE = ResourceRequest(nodes=1, cpus=1, memory="256M")
# Where things lie, how large that is, and whether it is full when it is.
LOOK = (
    "cd $LATTICE_SCRATCH && echo there; echo $TMPDIR; echo shared > /tmp/mine; cat $LATTICE_SCRATCH/tmp/mine;"
    " cat /scratch/local/$LATTICE_ALLOC_ID/tmp/mine; echo size $(df -m -P /tmp | tail -n 1 | awk '{print $2}');"
    " dd if=/dev/zero of=$LATTICE_SCRATCH/much bs=1M count=100 2>&1 | grep -o 'No space left on device'; rm -f $LATTICE_SCRATCH/much"
)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not in /tmp, which the runs do not see."""
    require_program("mke2fs")
    with open_folder() as folder, home_of(USER, folder):
        (folder / "warm").mkdir(mode=0o777)
        (folder / "warm").chmod(0o777)
        yield folder


@pytest.fixture(scope="module", params=[DISK, MEMORY])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(place: Path, kind: str) -> Iterator[LocalCluster]:
    folder = place / kind
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "agents").mkdir(mode=0o711)
    arguments = ["--scratch-dir", str(folder / "scratch") if kind == DISK else "tmpfs"]
    settings = {"data.tiers.warm": f'[{{"url": "file://{place}/warm"}}]'}
    with LocalCluster(nodes=1, arguments=arguments, settings=settings, directory=folder) as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    """Of a person who is not root."""
    with Client(cluster.api_url, token=token_of(cluster), retry_for=30) as client:
        yield client
        client.cancel_many(all_mine=True)


@pytest.fixture(scope="module")
def layout(place: Path) -> str:
    digest = make_layout(place / "images", [busybox_layer()], env={"PATH": "/bin"})
    return f"oci:{place}/images:v1@sha256:{digest}"


def submission(where: str, layout: str, place: Path, script: str, **fields: Any) -> Submission:  # noqa: ANN401 - fields of several kinds
    image = {"image": layout} if where == INSIDE else {}
    entrypoint = ["sh", "-c", script]
    return Submission(**{"entrypoint": entrypoint, "resources": SHARE, "cwd": str(place / "home"), **image, **fields})


def said_by(cluster: LocalCluster, client: Client, wanted: Submission) -> list[str]:
    ended = client.wait(client.submit(wanted).id, timeout=60)
    assert ended.state == "Completed", (ended.message, cluster.logs(ended.id, "stderr"))
    return cluster.logs(ended.id).splitlines()


def token_of(cluster: LocalCluster) -> str:
    secret, now = (cluster.directory / "secret").read_bytes().strip(), int(time.time())
    return sign_token(secret, user=USER, tenants=["default"], scope="", issued_at_s=now, lifetime_s=600)


def launched(cluster: LocalCluster, allocation: str, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("lattice", path=Path(sys.executable).parent) or "lattice"
    words = [program, "launch", "--alloc", allocation, "-n", "1", *options, "sh", "-c", script]
    environment = {**cluster.environment(), "LATTICE_TOKEN": token_of(cluster), "LATTICE_API_URL": cluster.api_url}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/", env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


def wait_for(begun: Path) -> None:
    eventually(lambda: begun.exists() or None, "the work to begin")


def check_nothing_is_left(place: Path) -> None:
    def left() -> list[str]:
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(place) in line]
        files = Path("/sys/block").glob("loop*/loop/backing_file")
        loops = [text for text in map(_text_of, files) if str(place) in text]
        folders = [
            str(path)
            for pattern in ("*/scratch/*", "*/scratch/n1/*", "*/agents/*/scratch/*")
            for path in place.glob(pattern)
        ]
        return [*mounts, *loops, *(path for path in folders if path.rpartition("/")[2] not in ("n1", "kept"))]

    eventually(lambda: not left() or None, "mounts, loop devices and files to go")


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it went meanwhile
        return ""


@pytest.mark.parametrize("where", [OUTSIDE, INSIDE])
def test_scratch_and_tmp_are_full_at_the_size_that_was_asked_for(
    cluster: LocalCluster, client: Client, layout: str, place: Path, where: str
) -> None:
    neighbour = client.submit(
        submission(
            OUTSIDE, layout, place, "until [ -e stop ]; do date > $LATTICE_SCRATCH/x || exit 1; sleep 0.05; done"
        )
    )
    cluster.wait_state(neighbour.id, "Running")
    sized = submission(where, layout, place, LOOK, scratch="48M")
    there, tmp, *same, size, full = said_by(cluster, client, sized)
    assert (there, tmp, same, full) == ("there", "/tmp", ["shared", "shared"], "No space left on device")
    assert 40 <= int(size.removeprefix("size ")) <= 48
    (place / "home" / "stop").touch()
    assert client.wait(neighbour.id, timeout=60).state == "Completed", "a neighbour could not write any more"
    (place / "home" / "stop").unlink()
    check_nothing_is_left(place)


@pytest.mark.parametrize("where", [OUTSIDE, INSIDE])
def test_steps_see_scratch_of_a_size(
    cluster: LocalCluster, client: Client, layout: str, place: Path, where: str
) -> None:
    script = "echo kept > /tmp/mine; touch up; exec sleep 300"
    run = client.submit(submission(where, layout, place, script, scratch="32M"))
    eventually(lambda: (place / "home" / "up").exists() or None, "the work to begin")
    (place / "home" / "up").unlink()
    look = "cd $LATTICE_SCRATCH && cat tmp/mine; df -m -P ${TMPDIR:?} | tail -n 1 | awk '{print $2}'"
    step = launched(cluster, run.id, look)
    kept, size = step.stdout.split()
    assert (kept, 24 <= int(size) <= 32) == ("kept", True)
    client.cancel(run.id)
    client.wait(run.id, timeout=60)
    check_nothing_is_left(place)


def test_steps_with_containers_of_their_own_see_it_too(
    cluster: LocalCluster, client: Client, layout: str, place: Path
) -> None:
    script = "echo kept > /tmp/mine; touch up; until [ -e /tmp/back ]; do sleep 0.05; done; cat /tmp/back"
    run = client.submit(submission(OUTSIDE, layout, place, script, scratch="32M"))
    wait_for(place / "home" / "up")
    (place / "home" / "up").unlink()
    look = "cd $LATTICE_SCRATCH && cat tmp/mine; df -m -P $TMPDIR | tail -n 1 | awk '{print $2}'"
    for options in ((), ("--container-name", "tools"), ("--container-name", "tools")):
        kept, size = launched(cluster, run.id, look, "--image", layout, *options).stdout.split()
        assert (kept, 24 <= int(size) <= 32) == ("kept", True), options
    launched(cluster, run.id, "echo written inside > /tmp/new; mv /tmp/new /tmp/back", "--image", layout)
    assert client.wait(run.id, timeout=60).state == "Completed"
    assert cluster.logs(run.id) == "written inside\n"
    check_nothing_is_left(place)


def test_scratch_without_a_size_is_there_inside_a_container(
    cluster: LocalCluster, client: Client, layout: str, place: Path
) -> None:
    script = "echo 1 > $LATTICE_SCRATCH/a && cat /scratch/local/$LATTICE_ALLOC_ID/a; echo 2 > $TMPDIR/b; cat $LATTICE_SCRATCH/tmp/b"
    assert said_by(cluster, client, submission(INSIDE, layout, place, script)) == ["1", "2"]
    whole = submission(INSIDE, layout, place, script, resources=ResourceRequest(nodes=1, exclusive=True))
    assert said_by(cluster, client, whole) == ["1", "2"]
    check_nothing_is_left(place)


@pytest.mark.parametrize("where", [OUTSIDE, INSIDE])
def test_results_are_copied_out_of_scratch_of_a_size(
    cluster: LocalCluster, client: Client, layout: str, place: Path, kind: str, where: str
) -> None:
    target = place / "warm" / f"{kind}-{where}"
    data = {"stage_out": [{"source": "results", "target": f"file://{target}"}]}
    script = "mkdir $LATTICE_SCRATCH/results; head -c 3000000 /dev/zero > $LATTICE_SCRATCH/results/large"
    assert said_by(cluster, client, submission(where, layout, place, script, scratch="32M", data=data)) == []
    assert (target / "large").read_bytes() == bytes(3_000_000)
    check_nothing_is_left(place)


def test_nothing_is_left_by_a_node_whose_programs_were_killed(
    cluster: LocalCluster, client: Client, layout: str, place: Path
) -> None:
    for where in (OUTSIDE, INSIDE):
        script = f"echo 1 > $LATTICE_SCRATCH/a; touch {where}; exec sleep 300"
        run = client.submit(submission(where, layout, place, script, scratch="32M", lifecycle={"requeue": "never"}))
        begun = place / "home" / where
        wait_for(begun)
        begun.unlink()
        old = [cluster.kill(role, "n1") for role in ("agent", "shim")]
        cluster.wait_replaced(old[0])
        assert client.wait(run.id, timeout=60).state == "Failed"
        check_nothing_is_left(place)
        cluster.wait_node("n1", "Ready")


def test_scratch_in_memory_counts_as_memory_of_the_run(
    cluster: LocalCluster, client: Client, layout: str, place: Path, kind: str
) -> None:
    features = cluster.nodes()["n1"]["features"]
    if kind == DISK:
        assert {"scratch", "disk_scratch"} <= set(features)
        return
    assert {"scratch", "memory_scratch"} <= set(features)
    more = submission(OUTSIDE, layout, place, "true", scratch="512M")
    with pytest.raises(Exception, match="is more than the memory of the work"):
        client.submit(more)
    # Without a size it may have all of the run's memory, and no more: the run ends, and nobody else.
    hog = submission(OUTSIDE, layout, place, "head -c 1000000000 /dev/zero > $LATTICE_SCRATCH/much")
    ended = client.wait(client.submit(hog).id, timeout=60)
    assert ended.state == "Failed"
    assert (ended.peak_memory_mb or 0) >= 200
    assert said_by(cluster, client, submission(OUTSIDE, layout, place, "echo fine > /tmp/x; cat /tmp/x")) == ["fine"]
    check_nothing_is_left(place)
