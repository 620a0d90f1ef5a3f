"""Containers of single steps, and those that steps share by name: `srun --container-image` and `--container-name` as an ordinary user."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster, eventually
from tests.e2e.container_user import home_of, open_folder
from tests.e2e.test_containers import check_nothing_is_left, digest_of
from tests.oci_files import busybox_layer, layer, make_layout

pytestmark = [pytest.mark.e2e, pytest.mark.root]
USER = f"eve{os.getpid()}"
SLURM = Path(sys.prefix) / "libexec" / "slurm"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def home(place: Path) -> Iterator[Path]:
    with home_of(USER, place) as home:
        yield home


@pytest.fixture(scope="module")
def image(place: Path) -> str:
    """With a directory `/site` in which everybody may install."""
    site = tarfile.TarInfo("site")
    site.type, site.mode = tarfile.DIRTYPE, 0o777
    more = layer([("opt/tool", b"#!/bin/sh\necho tool of $FLAVOUR\n")], [site])
    make_layout(place / "images", [busybox_layer(), more], env={"PATH": "/opt:/bin", "FLAVOUR": "image"})
    return f"oci:{place}/images:v1@sha256:{digest_of(place / 'images')}"


@pytest.fixture(scope="module")
def cluster(place: Path, home: Path) -> Iterator[LocalCluster]:
    (place / "cluster").mkdir()
    (place / "cluster").chmod(0o755)
    (place / "cluster" / "agents").mkdir(mode=0o711)
    # A busy machine takes a while to start an agent again, and a job whose node is given up meanwhile begins again without containers.
    settings = {"node_agent.heartbeat_timeout_s": "20"}
    arguments = ["--node-cpus", "4"]
    with LocalCluster(nodes=2, directory=place / "cluster", arguments=arguments, settings=settings) as cluster:
        cluster.cli("compat-aliases")
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        yield cluster


class Person:
    """Who may do what everybody may."""

    def __init__(self, cluster: LocalCluster, home: Path) -> None:
        self.cluster, self.home = cluster, home

    def environment(self) -> dict[str, str]:
        secret = (self.cluster.directory / "secret").read_bytes().strip()
        now = int(time.time())
        token = sign_token(secret, user=USER, tenants=["default"], scope="", issued_at_s=now, lifetime_s=3600)
        return {**self.cluster.environment(), "LATTICE_TOKEN": token, "LATTICE_API_URL": self.cluster.api_url}

    def slurm(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self._run(SLURM / words[0], *words[1:])

    def lattice(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self._run(Path(shutil.which("lattice", path=Path(sys.executable).parent) or "lattice"), *words)

    def _run(self, program: Path, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env=self.environment(),
            timeout=90,
        )

    def begin(self, *words: str) -> "subprocess.Popen[bytes]":
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            [SLURM / words[0], *words[1:]],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            cwd=self.home,
            env=self.environment(),
        )

    def said(self, *words: str) -> list[str]:
        done = self.slurm(*words)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())

    def refused(self, *words: str) -> str:
        done = self.slurm(*words)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def held(self, nodes: int, *more: str) -> str:
        """The number of an allocation of that many nodes, as `salloc --no-shell` leaves it."""
        done = self.slurm("salloc", "--no-shell", "-N", str(nodes), *more)
        assert done.returncode == 0, done.stderr
        return next(word for word in done.stderr.split() if word.isdigit())


@pytest.fixture
def person(cluster: LocalCluster, home: Path) -> Iterator[Person]:
    person = Person(cluster, home)
    yield person
    person.slurm("scancel", "-u", USER)
    eventually(lambda: not person.slurm("squeue", "-h").stdout or None, "all jobs to end")


def test_step_has_an_image_of_its_own_and_the_next_one_another_or_none(
    person: Person, home: Path, image: str, place: Path
) -> None:
    job = f"--jobid={person.held(2)}"
    inside = person.said("srun", job, "-N2", f"--container-image={image}", "sh", "-c", "tool; pwd; id -un")
    assert inside == sorted(["tool of image", str(home), USER] * 2)
    assert person.said("srun", job, "-N1", "-n1", "sh", "-c", "test -d /usr/share && echo host") == ["host"]
    changed = f"--container-image={image}", "--container-writable"
    assert person.said("srun", job, "-N1", "-n1", *changed, "sh", "-c", "touch /site/new && ls /site") == ["new"]
    assert person.said("srun", job, "-N1", "-n1", *changed, "sh", "-c", "ls /site") == []
    check_nothing_is_left(place)


def test_named_container_keeps_changes_on_each_node_until_the_end_of_the_job(
    person: Person, image: str, place: Path
) -> None:
    number = person.held(2)
    job, name = f"--jobid={number}", "--container-name=tools"
    install = f"--container-image={image}", "--container-writable", "sh", "-c", "echo $SLURMD_NODENAME >/site/node"
    person.said("srun", job, "-N2", name, *install)
    nodes = sorted(person.cluster.nodes())
    look = "cat /site/node; touch /site/node 2>/dev/null || echo read-only"
    assert person.said("srun", job, "-N2", name, "sh", "-c", look) == [*nodes, "read-only", "read-only"]
    again = person.said("srun", job, "-N2", name, f"--container-image={image}", "cat", "/site/node")
    assert again == nodes
    for node in nodes:
        assert person.said("srun", job, "-N1", "-n1", "-w", node, name, "cat", "/site/node") == [node]
    person.slurm("scancel", number)
    person.cluster.wait_end(number)
    check_nothing_is_left(place)
    other = f"--jobid={person.held(1)}"
    said = person.refused("srun", other, name, "true")
    assert 'a container with name "tools" does not exist on this node, and --container-image is not set' in said


def begun(person: Person, home: Path, *words: str) -> "subprocess.Popen[bytes]":
    """A step that runs until the file `end` is there."""
    for file in ("up", "end"):
        (home / file).unlink(missing_ok=True)
    wait = "touch up; while [ ! -e end ]; do sleep 0.05; done"
    step = person.begin("srun", *words, "sh", "-c", wait)
    eventually(lambda: (home / "up").exists() or None, "the step to begin")
    return step


def ended(step: "subprocess.Popen[bytes]", home: Path) -> None:
    subprocess.run(["touch", home / "end"], check=True)
    assert step.wait(60) == 0


def test_ways_to_mean_a_name_are_those_of_pyxis(person: Person, home: Path, image: str) -> None:
    job, one = f"--jobid={person.held(1)}", ("-n1", "--overlap")
    assert ":create needs an image" in person.refused("srun", job, "--container-name=c:create", "true")
    assert 'a container with name "c" does not exist' in person.refused("srun", job, "--container-name=c:exec", "true")
    made = "--container-name=c:create", f"--container-image={image}"
    assert person.said("srun", job, *made, "--container-writable", "sh", "-c", "touch /site/a; tool") == [
        "tool of image"
    ]
    assert "exists on this node already" in person.refused("srun", job, *made, "true")
    stopped = person.refused("srun", job, "--container-name=c:exec", "true")
    assert 'a container with name "c" is there, but no step runs in it' in stopped
    running = begun(
        person, home, job, *one, "--container-name=c", "--container-writable", f"--container-mounts={home}:/mine"
    )
    seen = "sh", "-c", "test -e /mine/up && echo mounted; ls /site"
    assert person.said("srun", job, *one, "--container-name=c:exec", *seen) == ["a", "mounted"]
    assert person.said("srun", job, *one, "--container-name=c", *seen) == ["a", "mounted"]
    assert person.said("srun", job, *one, "--container-name=c:no_exec", *seen) == ["a"]
    others = "--container-name=c", "--container-mounts=/etc/hostname:/host"
    assert person.said("srun", job, *one, *others, *seen) == ["a"]
    person.said("srun", job, *one, "--container-name=c:exec", "touch", "/site/b")
    assert person.said("srun", job, *one, "--container-name=c:no_exec", "ls", "/site") == ["a", "b"]
    ended(running, home)
    assert person.said("srun", job, "--container-name=c", "ls", "/site") == ["a", "b"]


def test_what_runs_without_a_name_can_be_joined_by_its_step(person: Person, home: Path, image: str) -> None:
    number = person.held(1)
    job, one = f"--jobid={number}", ("-n1", "--overlap")
    running = begun(person, home, job, *one, f"--container-image={image}", "--container-writable")
    assert person.said("srun", job, *one, f"--container-name={number}.0:exec", "tool") == ["tool of image"]
    ended(running, home)


def test_script_of_a_job_begins_a_container_and_fills_it_for_its_steps(
    cluster: LocalCluster, image: str, place: Path, tmp_path: Path
) -> None:
    """As root, since no other user may be able to read the interpreter of a checkout."""
    (tmp_path / "job.sh").write_text(
        f"""#!/bin/sh
#SBATCH -N2 -o out
srun -N2 --container-image={image} --container-name=mine --container-writable sh -c 'echo $SLURM_PROCID >/site/rank'
srun -N2 --container-name=mine cat /site/rank
"""
    )
    words = [str(SLURM / "sbatch"), "job.sh"]
    sent = subprocess.run(
        words, capture_output=True, text=True, check=True, cwd=tmp_path, env=cluster.environment(), timeout=60
    )
    cluster.wait_end(sent.stdout.split()[-1])
    assert sorted((tmp_path / "out").read_text().splitlines()) == ["0", "1"]
    check_nothing_is_left(place)


def test_container_of_a_whole_job_has_a_name_too(person: Person, image: str) -> None:
    options = f"--container-image={image}", "--container-name=whole"
    done = person.slurm("salloc", "--no-shell", "-N1", *options)
    job = f"--jobid={next(word for word in done.stderr.split() if word.isdigit())}"
    assert person.said("srun", job, "--container-name=whole", "tool") == ["tool of image"]
    assert person.said("srun", job, "tool") == ["tool of image"]
    assert 'which has the name "whole"' in person.refused("srun", job, "--container-name=other", "tool")
    assert person.said("srun", *options, "tool") == ["tool of image"]
    alone = person.refused("srun", "--container-name=whole", "tool")
    assert 'a container with name "whole" does not exist, and --container-image is not set' in alone
    assert "--container-name" in person.refused("srun", job, "--container-name=no/name", "tool")


def test_containers_are_bounded_and_count_as_memory_of_the_job_on_every_node(
    person: Person, home: Path, image: str, place: Path
) -> None:
    """Also on the second node, where nothing of the job runs between its steps."""
    number = person.held(2, "--mem=128")
    job, begin = f"--jobid={number}", (f"--container-image={image}", "--container-writable", "sh", "-c")
    (home / "part").write_bytes(bytes(50 << 20))
    for name in ("one", "two"):
        person.said("srun", job, "-N2", f"--container-name={name}", *begin, "cat part >/site/part")
    full = person.refused("srun", job, "-N2", "--container-name=one", *begin, "cat part >/site/more")
    assert "No space left on device" in full
    assert person.said("srun", job, "-N2", "--container-name=one", "ls", "/site/part") == ["/site/part"] * 2
    for node in sorted(person.cluster.nodes()):
        one = "-N1", "-n1", "-w", node, "--container-name=three"
        assert "out of memory" in person.refused("srun", job, *one, *begin, "cat part >/site/part")
    person.slurm("scancel", number)
    person.cluster.wait_end(number)
    check_nothing_is_left(place)


def test_files_of_a_writable_container_belong_to_the_user(person: Person, home: Path, image: str) -> None:
    """As far as kernel and file systems can map owners, which those of this machine can."""
    job, own = (
        f"--jobid={person.held(1)}",
        ("sh", "-c", "echo '#!/bin/sh' >/opt/tool; echo 'echo mine' >>/opt/tool; tool"),
    )
    writable = f"--container-image={image}", "--container-writable"
    assert person.said("srun", job, *writable, *own) == ["mine"]
    assert person.said("srun", job, *writable, "--container-name=own", *own) == ["mine"]
    assert person.said("srun", job, "--container-name=own", "tool") == ["mine"]
    assert person.said("srun", *writable, *own) == ["mine"]
    assert person.said("srun", job, f"--container-image={image}", *own) == ["tool of image"]
    assert person.said("srun", job, *writable, "tool") == ["tool of image"]


def test_lattice_launch_means_the_same(person: Person, image: str) -> None:
    alloc = "--alloc", person.held(2)
    own = image.partition("@")[0]
    first = person.lattice(
        "launch", *alloc, "-N2", "--image", own, "--container-name", "n", "--container-writable", "touch", "/site/x"
    )
    assert first.returncode == 0, first.stderr
    then = person.lattice("launch", *alloc, "-N2", "--container-name", "n", "ls", "/site")
    assert (then.returncode, then.stdout) == (0, "x\nx\n")
    wrong = person.lattice("launch", *alloc, "--container-name", "n:sometimes", "ls")
    assert "auto, create, exec, no_exec" in wrong.stderr


def test_named_container_outlives_the_agent_and_nothing_outlives_the_shim(
    person: Person, home: Path, image: str, place: Path
) -> None:
    cluster, number = person.cluster, person.held(2)
    job, name = f"--jobid={number}", "--container-name=lasting"
    fill = f"--container-image={image}", "--container-writable", "sh", "-c", "echo filled >/site/file"
    person.said("srun", job, "-N2", name, *fill)
    first, second = cluster.get(f"/allocations/a{number}")["nodes"]
    for node in (first, second):
        cluster.wait_replaced(cluster.kill("agent", node))
    assert person.said("srun", job, "-N2", name, "cat", "/site/file") == ["filled", "filled"]
    cluster.wait_replaced(cluster.kill("shim", second))  # nothing of the job runs there
    gone = 'a container with name "lasting" does not exist'
    there = "srun", job, "-N1", "-n1", "-w", second, name, "true"
    eventually(lambda: gone in person.refused(*there) or None, "the node to know that its shim died")
    assert person.said("srun", job, "-N1", "-n1", "-w", first, name, "cat", "/site/file") == ["filled"]
    running = begun(person, home, job, "-N1", "-n1", "-w", first, name)
    cluster.wait_replaced(cluster.kill("agent", first))
    cluster.wait_replaced(cluster.kill("shim", first))
    running.wait(60)
    eventually(lambda: cluster.allocation(number)["run"] == 2 or None, "the job to begin again")
    cluster.wait_state(number, "Running")
    assert gone in person.refused("srun", job, "-N2", name, "true")
    check_nothing_is_left(place)
