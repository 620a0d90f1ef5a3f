"""Containers end to end: work of an ordinary user inside an image, confined, with steps, and gone without a trace."""

import json
import os
import pwd
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
from tests.e2e.container_user import home_of, open_folder
from tests.image_registry import RegistryProcess, SlowRegistry, running_registry
from tests.oci_files import busybox_layer, layer, make_layout

pytestmark = [pytest.mark.e2e, pytest.mark.root]
USER = f"ada{os.getpid()}"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[Path]:
    with home_of(USER, place) as home:
        yield home


@pytest.fixture(scope="module")
def layout(place: Path) -> Path:
    folder = place / "images"
    more = layer([("etc/.wh.os-release", b""), ("opt/tool", b"#!/bin/sh\necho tool of $FLAVOUR\n")])
    make_layout(folder, [busybox_layer(), more], env={"PATH": "/opt:/bin", "FLAVOUR": "image", "HOME": "/wrong"})
    return folder


@pytest.fixture(scope="module")
def registry(place: Path) -> Iterator[RegistryProcess]:
    (place / "registry").mkdir()
    with running_registry(place / "registry") as registry:
        yield registry


@pytest.fixture(scope="module")
def slow(place: Path) -> Iterator[SlowRegistry]:
    make_layout(place / "slow", [layer([("file", os.urandom(200_000))])])
    with SlowRegistry(place / "slow") as slow:
        yield slow


@pytest.fixture(scope="module")
def cluster(place: Path, home: Path, registry: RegistryProcess, slow: SlowRegistry) -> Iterator[LocalCluster]:
    (place / "cluster").mkdir()
    (place / "cluster").chmod(0o755)
    (place / "cluster" / "agents").mkdir(mode=0o711)  # as the directory of an agent is that systemd starts
    settings = {
        "images.registries": json.dumps([{"host": registry.host}, {"host": slow.host}]),
        "data.tiers.warm": json.dumps([{"url": f"file://{place}/warm"}]),
    }
    with LocalCluster(nodes=2, directory=place / "cluster", settings=settings) as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        yield cluster


@pytest.fixture(autouse=True)
def end_everything(cluster: LocalCluster) -> Iterator[None]:
    yield
    cluster.post("/allocations/cancel", {"all_mine": True})


def as_user(cluster: LocalCluster, *words: str, check: bool = True, cwd: Path) -> "subprocess.CompletedProcess[str]":
    secret = (cluster.directory / "secret").read_bytes().strip()
    now = int(time.time())
    token = sign_token(secret, user=USER, tenants=["default"], scope="", issued_at_s=now, lifetime_s=600)
    program = shutil.which("lattice", path=Path(sys.executable).parent) or "lattice"
    outcome = subprocess.run(
        [program, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**cluster.environment(), "LATTICE_TOKEN": token, "LATTICE_API_URL": cluster.api_url},
        timeout=60,
    )
    assert not check or outcome.returncode == 0, outcome.stderr
    return outcome


def inside(cluster: LocalCluster, home: Path, layout: Path, script: str, *words: str) -> str:
    """What the script says that ran in the image as the user."""
    submit = ("submit", "-q", "--wait", "--image", f"oci:{layout}:v1", *words)
    done = as_user(cluster, *submit, "--", "sh", "-c", script, cwd=home, check=False)
    assert done.stdout, done.stderr
    number = done.stdout.split()[0]
    said = as_user(cluster, "logs", number, "--stderr", cwd=home, check=False).stdout
    assert done.returncode == 0, (said, cluster.get(f"/allocations/{number}")["message"])
    return as_user(cluster, "logs", number, cwd=home).stdout


def check_nothing_is_left(place: Path) -> None:
    def is_gone() -> bool | None:
        try:
            backed = [file.read_text() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
        except OSError:
            return None  # one went meanwhile
        return not any(str(place) in text for text in backed) or None

    eventually(is_gone, "the loop devices to go")
    assert str(place) not in Path("/proc/self/mounts").read_text()
    cache = place / "cluster" / "cache" / "uenv"
    assert not [*cache.glob("*.part"), *cache.glob("*.unpack")]
    holders = subprocess.run(["pgrep", "-f", f"{place}.*/container"], capture_output=True, text=True, check=False)
    assert holders.stdout == ""


def test_work_runs_inside_the_image_as_the_user(cluster: LocalCluster, home: Path, layout: Path, place: Path) -> None:
    script = (
        "tool; id -u; id -un; ls /etc/os-release; pwd; echo $HOME; test -d /usr/share && echo host; touch made; true"
    )
    said = inside(cluster, home, layout, script)
    uid = pwd.getpwnam(USER).pw_uid
    assert said.splitlines() == ["tool of image", str(uid), USER, str(home), str(home)]
    assert (home / "made").stat().st_uid == uid
    check_nothing_is_left(place)


def test_our_commands_work_in_an_image_without_python(
    cluster: LocalCluster, home: Path, layout: Path, place: Path
) -> None:
    cluster.cli("compat-aliases")
    cluster.kill("agent", "n1")  # which looks for them when it starts
    cluster.kill("agent", "n2")
    for node in ("n1", "n2"):
        cluster.wait_node(node, "Ready")
    script = (
        "ls /usr/bin/python3 /lib 2>&1; lattice launch -n 1 echo launched; srun -n 1 id -un;"
        " squeue -h -o %T; sbatch --parsable --wrap true; lattice status $LATTICE_ALLOC_ID -q"
    )
    said = inside(cluster, home, layout, script).splitlines()
    assert [line.rpartition(": ")[2] for line in said[:2]] == ["No such file or directory"] * 2
    assert said[2:5] == ["launched", USER, "RUNNING"]
    assert cluster.wait_end(said[5])["state"] == "Completed"
    assert len(said) == 7
    check_nothing_is_left(place)


def test_nothing_can_be_gained_or_changed_inside(cluster: LocalCluster, home: Path, layout: Path, place: Path) -> None:
    script = (
        "grep -E 'NoNewPrivs|CapEff|CapBnd|Seccomp:' /proc/self/status; touch /x /bin/x;"
        " mount -t tmpfs x /opt; unshare -U true; true"
    )
    said = inside(cluster, home, layout, f"({script}) 2>&1")
    for wanted in ("CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert wanted in said
    assert said.count("Read-only file system") == 2
    assert "mount: permission denied" in said
    assert "unshare(0x10000000): Operation not permitted" in said
    check_nothing_is_left(place)


def test_mounts_show_what_the_user_may_read(cluster: LocalCluster, home: Path, layout: Path, place: Path) -> None:
    data = place / "data"
    data.mkdir()
    (data / "file").write_text("content\n")
    said = inside(
        cluster, home, layout, "cat /data/file; touch /data/x 2>&1 || true", "--mount", f"{data}:/data:ro", "--no-home"
    )
    assert said.startswith("content\n")
    assert "Read-only" in said
    secret = place / "secret"
    secret.mkdir(mode=0o700)
    (secret / "open").mkdir()
    for source in (secret, secret / "open"):
        submit = ("submit", "-q", "--image", f"oci:{layout}:v1", "--mount", f"{source}:/s", "--", "ls", "/s")
        number = as_user(cluster, *submit, cwd=home).stdout.strip()
        ended = cluster.wait_end(number)
        assert (ended["state"], ended["cause"]) == ("Failed", "launch")
        assert f"cannot read {source} as {USER} on this node: Permission denied" in ended["message"]
    # Who opens a pipe waits for its other end: for an hour, if it were tried.
    pipe = home / "pipe"
    subprocess.run(["mkfifo", "-m", "666", pipe], check=True)
    piped = ("submit", "-q", "--image", f"oci:{layout}:v1", "--mount", f"{pipe}:/s", "--", "true")
    ended = cluster.wait_end(as_user(cluster, *piped, cwd=home).stdout.strip())
    assert f"cannot read {pipe} as {USER} on this node: it is a named pipe" in ended["message"]
    check_nothing_is_left(place)


def test_data_is_mounted_inside_with_the_rights_of_the_user(
    cluster: LocalCluster, home: Path, layout: Path, place: Path
) -> None:
    warm, closed = place / "warm", place / "closed"
    for folder in (warm / "set", warm / "own", closed / "open"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("content\n")
    closed.chmod(0o700)  # what is in it could be read by all who got past this
    user = pwd.getpwnam(USER)
    os.chown(warm / "own", user.pw_uid, user.pw_gid)
    mounts = ("--data-mount", f"{warm}/set:/data/set", "--data-mount", f"{warm}/own:/data/own:rw")
    script = "cat /data/set/file; touch /data/set/x 2>&1; echo made >/data/own/made; cat /data/own/made"
    said = inside(cluster, home, layout, script, *mounts).splitlines()
    assert said == ["content", "touch: /data/set/x: Read-only file system", "made"]
    assert (warm / "own" / "made").stat().st_uid == user.pw_uid
    (warm / "way").symlink_to(closed / "open")
    submit = ("submit", "-q", "--wait", "--image", f"oci:{layout}:v1", "--data-mount", f"{warm}/way:/data/set")
    done = as_user(cluster, *submit, "--", "cat", "/data/set/file", cwd=home, check=False)
    number = done.stdout.split()[0]
    assert done.returncode != 0
    assert f"cannot read {warm}/way as {USER}" in cluster.get(f"/allocations/{number}")["message"]
    assert as_user(cluster, "logs", number, cwd=home, check=False).stdout == ""
    check_nothing_is_left(place)


def test_writable_container_forgets_its_changes(cluster: LocalCluster, layout: Path, place: Path) -> None:
    fields: dict[str, Any] = {"image": f"oci:{layout}:v1@sha256:{digest_of(layout)}"}
    done = cluster.run("touch /bin/new && ls /bin/new", container={"writable": True, "workdir": "/"}, **fields)
    assert (done["state"], cluster.logs(done["id"])) == ("Completed", "/bin/new\n")
    again = cluster.run("ls /bin/new", container={"writable": True, "workdir": "/"}, **fields)
    assert again["state"] == "Failed"
    check_nothing_is_left(place)


def digest_of(layout: Path) -> str:
    import json

    return str(json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]).removeprefix("sha256:")


def test_steps_run_inside_too(cluster: LocalCluster, home: Path, layout: Path, place: Path) -> None:
    submit = (
        "submit",
        "-q",
        "--nodes",
        "2",
        "--image",
        f"oci:{layout}:v1",
        "--",
        "sh",
        "-c",
        "touch up; exec sleep 300",
    )
    number = as_user(cluster, *submit, cwd=home).stdout.strip()
    eventually(lambda: (home / "up").exists() or None, "the work to begin")
    (home / "up").unlink()
    step = as_user(cluster, "launch", "--alloc", number, "-N", "2", "-n", "2", "sh", "-c", "tool; pwd", cwd=home)
    assert sorted(step.stdout.splitlines()) == [str(home)] * 2 + ["tool of image"] * 2
    as_user(cluster, "cancel", number, cwd=home)
    cluster.wait_end(number)
    check_nothing_is_left(place)


def test_limits_hold_inside(cluster: LocalCluster, home: Path, layout: Path) -> None:
    hog = 'x=xxxxxxxxxxxxxxxx; while :; do x="$x$x"; done'
    submit = ("submit", "-q", "--cpus", "1", "--memory", "64M", "--image", f"oci:{layout}:v1", "--", "sh", "-c", hog)
    number = as_user(cluster, *submit, cwd=home).stdout.strip()
    assert cluster.wait_end(number)["cause"] == "oom"


def test_agent_and_shim_may_die_without_leaving_anything(
    cluster: LocalCluster, home: Path, layout: Path, place: Path
) -> None:
    for role in ("agent", "shim"):
        wait = "touch up; while [ ! -e go ]; do sleep 0.05; done; tool"
        submit = ("submit", "-q", "--requeue", "never", "--image", f"oci:{layout}:v1", "--", "sh", "-c", wait)
        number = as_user(cluster, *submit, cwd=home).stdout.strip()
        eventually(lambda: (home / "up").exists() or None, "the work to begin")
        (home / "up").unlink()
        node = cluster.get(f"/allocations/{number}")["nodes"][0]
        cluster.wait_replaced(cluster.kill(role, node))
        (home / "go").touch()
        ended = cluster.wait_end(number)
        assert ended["state"] == ("Completed" if role == "agent" else "Failed")
        (home / "go").unlink()
        check_nothing_is_left(place)


def test_squashfs_file_and_named_image_are_containers_as_well(
    cluster: LocalCluster, home: Path, layout: Path, place: Path
) -> None:
    inside(cluster, home, layout, "true")
    cached = next((place / "cluster" / "cache" / "uenv").glob("*.squashfs"))
    own = home / "own.squashfs"
    shutil.copy(cached, own)
    own.chmod(0o644)
    named = cluster.directory / "images" / "tiny" / "1.0" / "v1.squashfs"
    named.parent.mkdir(parents=True)
    shutil.copy(cached, named)
    for reference in ("./own.squashfs", "tiny/1.0:v1"):
        submit = ("submit", "-q", "--wait", "--image", reference, "--", "/opt/tool")
        number = as_user(cluster, *submit, cwd=home).stdout.split()[0]
        assert as_user(cluster, "logs", number, cwd=home).stdout == "tool of\n"
    cluster.cli("compat-aliases")
    sbatch = str(Path(sys.prefix) / "libexec" / "slurm" / "sbatch")
    batch = [sbatch, "--wait", "--container-image=tiny/1.0:v1", f"--output={home}/out", "--wrap=/opt/tool; pwd"]
    subprocess.run([*batch, "--container-workdir=/usr"], env=cluster.environment(), cwd=home, check=True, timeout=60)
    assert (home / "out").read_text() == "tool of\n/usr\n"
    assert 'unknown image "tny/1.0:v1"' in refused(cluster, home, "--image", "tny/1.0:v1")
    check_nothing_is_left(place)


def test_image_of_a_registry_runs_everywhere_and_keeps_its_bytes(
    cluster: LocalCluster, home: Path, layout: Path, place: Path, registry: RegistryProcess
) -> None:
    registry.push_layout(layout, "tools/tiny")
    reference = f"{registry.host}/tools/tiny:v1"
    held = ("submit", "-q", "--hold", "--image", f"docker://{reference}", "--", "tool")
    waiting = as_user(cluster, *held, cwd=home).stdout.strip()
    submit = ("submit", "-q", "--nodes", "2", "--image", reference, "--", "sh", "-c", "touch up; exec sleep 300")
    number = as_user(cluster, *submit, cwd=home).stdout.strip()
    eventually(lambda: (home / "up").exists() or None, "the work to begin")
    (home / "up").unlink()
    step = as_user(cluster, "launch", "--alloc", number, "-N", "2", "-n", "2", "tool", cwd=home)
    assert step.stdout == "tool of image\n" * 2
    as_user(cluster, "cancel", number, cwd=home)
    # The tag means something else from now on; what was submitted before keeps its image.
    make_layout(place / "other", [busybox_layer(), layer([("opt/tool", b"#!/bin/sh\necho another tool\n")])])
    registry.push_layout(place / "other", "tools/tiny")
    cluster.cli("compat-aliases")
    programs = Path(sys.prefix) / "libexec" / "slurm"
    pyxis = f"--container-image={reference.replace('/', '#', 1)}"
    batch = [str(programs / "sbatch"), "--wait", pyxis, f"--output={home}/batch", "--wrap=/opt/tool"]
    subprocess.run(batch, env=cluster.environment(), cwd=home, check=True, timeout=60)
    assert (home / "batch").read_text() == "another tool\n"
    run = [str(programs / "srun"), "-N1", "-n1", pyxis, "/opt/tool"]
    done = subprocess.run(
        run, env=cluster.environment(), cwd=home, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "another tool\n"
    registry.stop()
    try:
        # It is in the cache; nothing new can be named.
        as_user(cluster, "release", waiting, cwd=home)
        assert cluster.wait_end(waiting)["state"] == "Completed"
        assert as_user(cluster, "logs", waiting, cwd=home).stdout == "tool of image\n"
        assert f"the registry {registry.host} does not answer" in refused(cluster, home, "--image", reference)
    finally:
        registry.start()
    assert "unknown image" in refused(cluster, home, "--image", f"{registry.host}/tools/tny:v1")
    assert "takes no images from example.org" in refused(cluster, home, "--image", "example.org/tools/tiny:v1")
    check_nothing_is_left(place)


def test_image_that_vanished_or_was_damaged_is_named(
    cluster: LocalCluster, home: Path, place: Path, registry: RegistryProcess
) -> None:
    for number, (name, why) in enumerate(
        [("gone", "does not have it any more"), ("damaged", "other bytes than its name")]
    ):
        folder = place / name
        digest = make_layout(folder, [layer([("file", os.urandom(5000))])])
        registry.push_layout(folder, f"tools/{name}")
        submit = ("submit", "-q", "--hold", "--image", f"{registry.host}/tools/{name}:v1", "--", "true")
        work = as_user(cluster, *submit, cwd=home).stdout.strip()
        largest = max((folder / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size).name
        stored = registry.folder / "data/docker/registry/v2/blobs/sha256" / largest[:2] / largest / "data"
        if number:
            stored.write_bytes(bytes(stored.stat().st_size))
        else:
            stored.unlink()
        as_user(cluster, "release", work, cwd=home)
        ended = cluster.wait_end(work)
        assert (ended["state"], ended["cause"]) == ("Failed", "launch")
        assert why in ended["message"]
        assert digest not in os.listdir(place / "cluster" / "cache" / "uenv")
    check_nothing_is_left(place)


def test_slow_pull_tells_how_far_it_is_and_ends_with_its_work(
    cluster: LocalCluster, home: Path, place: Path, slow: SlowRegistry
) -> None:
    submit = ("submit", "-q", "--image", f"{slow.host}/x:v1", "--", "true")
    numbers = [as_user(cluster, *submit, cwd=home).stdout.strip() for _ in range(2)]

    def reason() -> str | None:
        seen = as_user(cluster, "status", numbers[0], cwd=home).stdout
        return seen if " of 200.3 kB" in seen else None

    assert f"pulling {slow.host}/x:v1" in eventually(reason, "the progress in status")
    as_user(cluster, "cancel", *numbers, cwd=home)
    for number in numbers:
        ended = cluster.wait_end(number)
        assert (ended["state"], ended["restart_count"]) == ("Cancelled", 0)
    assert slow.is_quiet(), "a pull outlived its work"


def refused(cluster: LocalCluster, home: Path, *words: str) -> str:
    outcome = as_user(cluster, "submit", *words, "--", "true", check=False, cwd=home)
    assert outcome.returncode != 0
    assert outcome.stdout == ""
    return outcome.stderr


def test_mistakes_are_refused_with_a_hint(cluster: LocalCluster, home: Path, layout: Path) -> None:
    image = ("--image", f"oci:{layout}:v1")
    for words, message, hint in [
        (("--image", f"oci:{layout}:v2"), 'no image with the tag "v2"', "v1"),
        (("--image", "oci:/no/such:v1"), "No such file or directory", "you can read"),
        (("--image", "/etc/passwd"), "not a squashfs image", "mksquashfs"),
        (("--image", f"oci:{layout}:v1@sha256:{'0' * 64}"), "has the digest", "leave the digest out"),
        ((*image, "--uenv", "x/1:v1"), "--image and --uenv exclude each other", "one of the two"),
        ((*image, "--mount", "/tmp:/"), "nothing may be mounted on /", "/data"),
        ((*image, "--mount", "/tmp:/proc"), "nothing may be mounted on /proc", "/data"),
        ((*image, "--mount", "/tmp:/a", "--mount", "/var:/a"), "would both be mounted on /a", "another place"),
        ((*image, "--mount", "/tmp:/a:xx"), '"xx" is not a way to mount', "ro or rw"),
        (("--mount", "/tmp:/a"), "need an image", "--image"),
        (("--image", "dockerd://x"), "cannot be taken from dockerd", "oci:DIRECTORY"),
    ]:
        said = refused(cluster, home, *words)
        assert message in said, words
        assert hint in said, words
