"""Images end to end: named or given by path, mounted where the work runs, and gone without a trace."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.image_files import GREETER, MOUNT, make_greeter, make_image
from tests.image_registry import running_registry

pytestmark = [pytest.mark.e2e, pytest.mark.root]
LABEL = "greeter/1.0:v1"
LATER = "greeter/2.0:v1"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    require_program("mksquashfs")
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[LocalCluster]:
    (place / "cluster").mkdir()
    with LocalCluster(nodes=2, directory=place / "cluster") as cluster:
        for version in ("1.0", "2.0"):
            make_greeter(place / "cluster" / "images" / "greeter" / version / "v1.squashfs")
        yield cluster


@pytest.fixture(autouse=True)
def end_everything(cluster: LocalCluster) -> Iterator[None]:
    yield
    cluster.post("/allocations/cancel", {"all_mine": True})


def check_nothing_is_mounted(place: Path) -> None:
    """Neither here, nor by a loop device that outlived its run."""

    def is_gone() -> bool | None:
        backed = [file.read_text() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
        return not any(str(place) in text for text in backed) or None

    eventually(is_gone, "the loop devices to go")
    assert not os.path.ismount(MOUNT)
    assert not list((place / "cluster" / "cache" / "uenv").glob("*.part"))


def wait_for_file(path: Path) -> None:
    eventually(lambda: path.exists() or None, f"{path.name} to appear")


def test_named_image_is_mounted_and_its_view_applied(cluster: LocalCluster, place: Path) -> None:
    done = cluster.cli("submit", "--wait", "-q", "--uenv", LABEL, "--view", "default", "--", "greet")
    assert done.returncode == 0, done.stderr
    run = cluster.run(f"greet; grep {MOUNT} /proc/self/mounts", uenv=LABEL, view="other")
    said = cluster.logs(run["id"])
    assert said.startswith("hello from other\n")
    assert "squashfs ro,nosuid,nodev" in said
    shown = cluster.get(f"/allocations/{run['id']}?details=true")["details"]
    assert shown["uenv"][0]["reference"].startswith(f"{LABEL}@sha256:")
    check_nothing_is_mounted(place)


def test_a_cache_is_warmed_shown_and_emptied_and_a_run_tells_its_views(cluster: LocalCluster, place: Path) -> None:
    warmed = cluster.cli("cache", "warm", LATER)
    assert (warmed.returncode, warmed.stdout) == (0, f"2 nodes have {LATER}\n"), warmed.stderr
    assert LATER in cluster.cli("cache", "status", "--images", "--nodes=n1").stdout
    assert cluster.cli("uenv", "find", "2.0", "-q").stdout == f"{LATER}\n"
    ready = place / "mounted"
    run = cluster.submit(f"touch {ready}; sleep 60", uenv=LATER, view="default")
    wait_for_file(ready)
    told = cluster.get(f"/allocations/{run['id']}/images")
    assert [(each["image"], each["mount"], each["views"]) for each in told["images"]] == [(LATER, MOUNT, ["default"])]
    assert ("GREETING", "set", "default") in [(c["variable"], c["operation"], c["value"]) for c in told["changes"]]
    used = cluster.cli("cache", "evict", LATER, check=False)
    assert (used.returncode, "work uses it" in used.stderr) == (1, True)
    cluster.delete(f"/allocations/{run['id']}")
    check_nothing_is_mounted(place)
    assert cluster.cli("cache", "pin", LATER).returncode == 0
    assert "it is pinned" in cluster.cli("cache", "evict", LATER, check=False).stderr
    assert cluster.cli("cache", "unpin", LATER).returncode == 0
    assert cluster.cli("cache", "evict", LATER).returncode == 0
    assert LATER not in cluster.cli("cache", "status", "--images").stdout


def test_strict_vcluster_takes_the_nodes_that_enforce_every_limit(cluster: LocalCluster) -> None:
    assert all("confined" in node["features"] for node in cluster.nodes().values())
    cluster.put("/vclusters/default", {"confinement": "strict", "default_uenv": LABEL})
    try:
        run = cluster.run("greet 2>/dev/null || ls /user-environment/bin")
        assert cluster.logs(run["id"]) == "greet\n"
    finally:
        cluster.put("/vclusters/default", {"confinement": "normal", "default_uenv": ""})


def test_image_of_a_registry_is_fetched_and_mounted_with_its_view(tmp_path: Path) -> None:
    """A registry of its own, and a cluster that has its names from there; the image goes, and what runs by its digest goes on."""
    make_greeter(tmp_path / "greeter.squashfs")
    (tmp_path / "registry").mkdir()
    with running_registry(tmp_path / "registry") as registry:
        registry.push_squashfs(tmp_path / "greeter.squashfs", "site/greeter/1.0")
        with LocalCluster(
            nodes=1, settings={"images.directory": "''", "images.url": f"oci://{registry.host}/site"}
        ) as cluster:
            assert cluster.cli("uenv", "list", "-q").stdout == f"{LABEL}\n"
            assert "default, other" in cluster.cli("uenv", "inspect", LABEL).stdout
            first = cluster.run("greet", uenv=LABEL, view="default")
            assert cluster.logs(first["id"]) == "hello from default\n"
            near = cluster.cli("submit", "--uenv=greeter/1.0:v2", "--", "true", check=False)
            assert (near.returncode != 0, "did you mean greeter/1.0:v1" in near.stderr) == (True, True), near.stderr
            registry.stop()
            away = cluster.cli("submit", f"--uenv={LABEL}", "--", "true", check=False)
            assert (away.returncode != 0, "does not answer" in away.stderr) == (True, True), away.stderr


def test_image_of_a_path_has_the_bytes_that_were_there_at_submission(cluster: LocalCluster, place: Path) -> None:
    image = place / "own.squashfs"
    make_greeter(image)
    held = cluster.cli(
        "submit", "-q", "--hold", "--uenv", "./own.squashfs", "--view", "default", "--", "greet", cwd=place
    )
    again = cluster.cli("submit", "-q", "--wait", "--uenv", str(image), "--view", "default", "--", "greet")
    assert again.returncode == 0, again.stderr
    make_image(image, {"bin/greet": "#!/bin/sh\necho another\n"}, GREETER)
    number = held.stdout.strip()
    cluster.cli("release", number)
    ended = cluster.wait_end(number)
    assert (ended["state"], ended["cause"]) == ("Failed", "launch")
    assert "it was changed since the work was submitted" in ended["message"]
    check_nothing_is_mounted(place)


def test_steps_see_the_images_and_apply_a_view_once(cluster: LocalCluster, place: Path) -> None:
    ready, show = place / "ready", 'greet; echo "$PATH" | tr : "\\n" | grep -c user-environment'
    inside = f"lattice launch -n 1 sh -c '{show}' > {place}/inside; touch {ready}; exec sleep 300"
    run = cluster.submit(inside, uenv=LABEL, view="default", resources={"nodes": 2})
    wait_for_file(ready)
    assert (place / "inside").read_text() == "hello from default\n1\n"
    # From outside, on both nodes: one of them runs no script of the allocation.
    outside = cluster.cli("launch", "--alloc", run["id"], "-N", "2", "-n", "2", "sh", "-c", show)
    assert sorted(outside.stdout.splitlines()) == ["1", "1", "hello from default", "hello from default"]
    cluster.delete(f"/allocations/{run['id']}")
    cluster.wait_end(run["id"])
    check_nothing_is_mounted(place)


def test_agent_and_shim_may_die_without_leaving_a_mount(cluster: LocalCluster, place: Path) -> None:
    go = place / "go"
    waiting = f"touch {place}/up; while [ ! -e {go} ]; do sleep 0.05; done; greet"
    run = cluster.submit(waiting, uenv=LABEL, view="default")
    wait_for_file(place / "up")
    node = cluster.get(f"/allocations/{run['id']}")["nodes"][0]
    cluster.wait_replaced(cluster.kill("agent", node))
    go.touch()
    assert cluster.wait_end(run["id"])["state"] == "Completed"
    assert cluster.logs(run["id"]) == "hello from default\n"
    (place / "up").unlink()
    go.unlink()
    run = cluster.submit(waiting, uenv=LABEL, view="default", lifecycle={"requeue": "never"})
    wait_for_file(place / "up")
    node = cluster.get(f"/allocations/{run['id']}")["nodes"][0]
    cluster.wait_replaced(cluster.kill("shim", node))
    assert cluster.wait_end(run["id"])["state"] == "Failed"
    check_nothing_is_mounted(place)


def refused(cluster: LocalCluster, *words: str) -> "subprocess.CompletedProcess[str]":
    outcome = cluster.cli("submit", *words, "--", "true", check=False)
    assert outcome.returncode != 0
    assert outcome.stdout == ""
    return outcome


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--uenv", "greter/1.0:v1"], 'unknown image "greter/1.0:v1"', f"did you mean {LABEL}"),
        (["--uenv", "greeter"], '"greeter" may mean several images', f"{LABEL}, {LATER}"),
        (["--uenv", LABEL, "--view", "defalt"], 'unknown view "defalt"', "did you mean default?"),
        (["--uenv", LABEL, "--view", "x:default"], 'unknown image "x"', "images: greeter/1.0:v1"),
        (["--view", "default"], "a view needs an image", "--uenv"),
        (["--uenv", f"{LABEL}:/etc"], "nothing may be mounted on /etc", "/user-environment"),
        (["--uenv", f"{LABEL}:/"], "nothing may be mounted on /", "/user-environment"),
        (["--uenv", f"{LABEL}:/proc/self"], "nothing may be mounted on /proc/self", "/user-environment"),
        (["--uenv", f"{LABEL},{LATER}"], "mounted on each other", "REF:/other/place"),
        (["--uenv", "/no/such.squashfs"], "/no/such.squashfs: No such file or directory", "you can read"),
        (["--uenv", "/etc/passwd"], "it is not a squashfs image", "mksquashfs"),
        (["--uenv", f"{LABEL}@sha256:{'0' * 64}"], "has the digest", ""),
        (["--uenv", LABEL, "--image", "x"], "--image and --uenv exclude each other", "one of the two"),
    ],
)
def test_mistake_is_refused_with_a_hint(cluster: LocalCluster, words: list[str], message: str, hint: str) -> None:
    said = refused(cluster, *words).stderr
    assert message in said
    assert hint in said


def test_image_without_metadata_needs_a_mount_point(cluster: LocalCluster, place: Path) -> None:
    bare = place / "bare.squashfs"
    make_image(bare, {"hello": "hi\n"}, None)
    assert "does not say where to mount it" in refused(cluster, "--uenv", str(bare)).stderr
    done = cluster.cli("submit", "-q", "--wait", "--uenv", f"{bare}:{MOUNT}", "--", "cat", f"{MOUNT}/hello")
    assert done.returncode == 0, done.stderr


def ended_with(cluster: LocalCluster, **fields: Any) -> str:  # noqa: ANN401 - fields of the API
    ended = cluster.run("true", **fields)
    assert (ended["state"], ended["cause"]) == ("Failed", "launch")
    return str(ended["message"])


def test_mount_point_that_does_not_exist_is_refused_on_the_node(cluster: LocalCluster, place: Path) -> None:
    message = ended_with(cluster, uenv=f"{LABEL}:/opt/no-such-place")
    assert "/opt/no-such-place does not exist on this node" in message
    check_nothing_is_mounted(place)


def test_work_that_is_submitted_again_has_the_same_images(cluster: LocalCluster) -> None:
    first = cluster.run("greet", uenv=LABEL, view="default")
    again = cluster.cli("resubmit", first["id"], "-q").stdout.split()[-1]
    assert cluster.wait_end(again)["state"] == "Completed"
    assert cluster.logs(again) == "hello from default\n"
