"""Images of a cluster that an ordinary user started: the same views, steps and answers as under root, and nothing left behind."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.e2e.open_programs import open_programs
from tests.image_files import MOUNT, make_greeter
from tests.rootless import USER, USER_NAME, keepers, parent_of, require_rootless_images, servers_of

pytestmark = [pytest.mark.e2e, pytest.mark.root]
LABEL = "greeter/1.0:v1"


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """Called with a home of the user's own: that of who runs the tests is closed."""
    require_rootless_images()
    home = tempfile.mkdtemp(prefix="lattice-home-")
    os.chown(home, USER, USER)
    try:
        with open_programs() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", home)
            yield folder
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def cluster(programs: Path) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2, program=programs / "lattice", user=USER) as cluster:
        make_greeter(cluster.directory / "images" / "greeter" / "1.0" / "v1.squashfs")
        yield cluster


@pytest.fixture
def scratch(cluster: LocalCluster) -> Iterator[Path]:
    """A folder that the user can reach, and all work of the cluster ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-scratch-"))
    os.chown(folder, USER, USER)
    yield folder
    cluster.post("/allocations/cancel", {"all_mine": True})
    shutil.rmtree(folder)


def check_nothing_is_left(cluster: LocalCluster) -> None:
    def is_gone() -> bool | None:
        return not servers_of(cluster.directory) or None

    eventually(is_gone, "squashfuse to end")
    shims = {process.pid for process in cluster.file.of_role("shim")}
    eventually(lambda: not any(parent_of(pid) in shims for pid in keepers()) or None, "its keeper to end")
    assert not os.path.ismount(MOUNT)
    assert not list((cluster.directory / "cache" / "uenv").glob("*.part"))


def wait_for_file(path: Path) -> None:
    eventually(lambda: path.exists() or None, f"{path.name} to appear")


def test_work_sees_the_image_and_its_view_as_its_user(cluster: LocalCluster) -> None:
    assert all("uenv" in node["features"] for node in cluster.nodes().values())
    done = cluster.cli("submit", "--wait", "-q", f"--uenv={LABEL}", "--view=default", "--", "greet")
    assert done.returncode == 0, done.stderr
    run = cluster.run(f"greet; id -u; id -un; grep {MOUNT} /proc/self/mounts", uenv=LABEL, view="other")
    greeting, uid, name, mounted = cluster.logs(run["id"]).splitlines()
    assert (greeting, uid, name) == ("hello from other", str(USER), USER_NAME)
    assert "fuse.squashfuse ro,nosuid,nodev" in mounted
    check_nothing_is_left(cluster)


def test_steps_see_the_image_and_apply_a_view_once(cluster: LocalCluster, scratch: Path) -> None:
    show = 'greet; echo "$PATH" | tr : "\\n" | grep -c user-environment'
    inside = f"lattice launch -n 1 sh -c '{show}' > inside; touch ready; exec sleep 300"
    run = cluster.submit(inside, uenv=LABEL, view="default", resources={"nodes": 2}, cwd=str(scratch))
    wait_for_file(scratch / "ready")
    assert (scratch / "inside").read_text() == "hello from default\n1\n"
    # From outside, on both nodes: one of them runs no script of the allocation.
    outside = cluster.cli("launch", "--alloc", run["id"], "-N", "2", "-n", "2", "sh", "-c", show)
    assert sorted(outside.stdout.splitlines()) == ["1", "1", "hello from default", "hello from default"]
    told = cluster.cli("uenv", "status", run["id"])
    assert (LABEL in told.stdout, MOUNT in told.stdout, "GREETING" in told.stdout) == (True, True, True), told
    used = cluster.cli("cache", "evict", LABEL, check=False)
    assert (used.returncode, "work uses it" in used.stderr) == (1, True)
    cluster.delete(f"/allocations/{run['id']}")
    cluster.wait_end(run["id"])
    check_nothing_is_left(cluster)


def test_slurm_commands_have_the_image_too(cluster: LocalCluster, scratch: Path) -> None:
    script = scratch / "job.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --uenv={LABEL} --view=default -o {scratch}/out\nsrun -n 2 greet\n")
    aliases = cluster.cli("compat-aliases", "--dir", str(scratch / "slurm")).stdout.strip()
    typed = ["sh", "-c", f". {aliases}; sbatch -W job.sh"]
    done = subprocess.run(
        typed, env=cluster.environment(), cwd=scratch, user=USER, group=USER, extra_groups=[],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (scratch / "out").read_text() == "hello from default\n" * 2


def test_agent_and_shim_may_die_without_leaving_anything(cluster: LocalCluster, scratch: Path) -> None:
    waiting = "touch up; while [ ! -e go ]; do sleep 0.05; done; greet"
    run = cluster.submit(waiting, uenv=LABEL, view="default", cwd=str(scratch))
    wait_for_file(scratch / "up")
    node = cluster.get(f"/allocations/{run['id']}")["nodes"][0]
    cluster.wait_replaced(cluster.kill("agent", node))
    status = ("uenv", "status", run["id"])
    eventually(
        lambda: MOUNT in cluster.cli(*status, check=False).stdout or None, "the new agent to say what is mounted"
    )
    (scratch / "go").touch()
    assert cluster.wait_end(run["id"])["state"] == "Completed"
    assert cluster.logs(run["id"]) == "hello from default\n"
    check_nothing_is_left(cluster)
    (scratch / "up").unlink()
    (scratch / "go").unlink()
    run = cluster.submit(waiting, uenv=LABEL, view="default", lifecycle={"requeue": "never"}, cwd=str(scratch))
    wait_for_file(scratch / "up")
    node = cluster.get(f"/allocations/{run['id']}")["nodes"][0]
    cluster.wait_replaced(cluster.kill("shim", node))
    assert cluster.wait_end(run["id"])["state"] == "Failed"
    check_nothing_is_left(cluster)


def test_containers_are_refused_with_the_reason(cluster: LocalCluster) -> None:
    outcome = cluster.cli("submit", f"--image={LABEL}", "--", "true", check=False)
    assert outcome.returncode != 0
    assert (
        "no node of this cluster has a container runtime: containers need an agent that runs as root" in outcome.stderr
    )


def test_images_are_refused_with_the_reason_where_a_node_mounts_none(programs: Path, tmp_path: Path) -> None:
    image = tmp_path / "greeter.squashfs"
    digest = make_greeter(image)
    cluster = LocalCluster(nodes=1, program=programs / "lattice", user=USER)
    (cluster.directory / "cache").write_text("where the cache would be\n")
    with cluster:
        outcome = cluster.cli("submit", f"--uenv={image}@sha256:{digest}", "--", "true", check=False)
        assert (outcome.returncode != 0, outcome.stdout) == (True, "")
        assert "no node of this cluster mounts images: the image cache cannot be used" in outcome.stderr
        assert "lattice nodes ID" in outcome.stderr
        assert cluster.run("true")["state"] == "Completed"
