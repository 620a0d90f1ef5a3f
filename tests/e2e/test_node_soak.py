"""Random starts, steps and ends while agents and shims are killed, at their hooks too: nothing of it is left on the machine."""

import contextlib
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, NotInTime, eventually
from tests.image_files import make_greeter
from tests.oci_files import busybox_layer, make_layout

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.soak]

STARTS = 500  # of one round; a round ends with nothing left
NODES = ("n1", "n2")
CONCURRENCY = 6
ENDED = {"Completed", "Failed", "Cancelled"}
# A prologue or epilogue that kills, once in a while, the agent that runs it, or the shim shortly after: while it mounts, forks, or ends.
DEADLY = """#!/bin/sh
number=$(od -An -N1 -tu1 /dev/urandom)
if [ "$number" -lt {odds} ]; then
    kill -9 $PPID
elif [ "$number" -lt $((2 * {odds})) ]; then
    (
        sleep "0.0$((number % 8))"
        shim=$(cat "{agents}/$LATTICE_NODE_ID/shim.pid") && grep -qaF "{agents}" "/proc/$shim/cmdline" && kill -9 "$shim"
    ) </dev/null >/dev/null 2>&1 &
fi
exit 0
"""
WORK = (
    "true",
    "sleep 0.3",
    "setsid sleep 300 & sleep 0.2",
    "echo x > /tmp/mine; dd if=/dev/zero of=$LATTICE_SCRATCH/f bs=1M count=1; exit 3",
)


def work_of(source: random.Random, layout: str) -> dict[str, Any]:
    """What work has: the file system of the node, with a uenv, or that of a container; every other one has scratch of a size, and one in
    four both nodes.

    The second one runs no script, and is prepared and cleared all the same.
    """
    nodes = 2 if source.random() < 0.25 else 1
    more = source.choice(({}, {"uenv": "greeter/1.0:v1", "view": "default"}, {"image": layout}))
    resources = {"nodes": nodes, "cpus": 1, "memory": "64M"}
    scratch = source.choice(({}, {"scratch": "16M"}))
    return {"resources": resources, "lifecycle": {"walltime": "60s"}, **scratch, **more}


def program(folder: Path, name: str, odds: int) -> str:
    path = folder / name
    path.write_text(DEADLY.format(odds=odds, agents=folder / "cluster" / "agents"))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def left_behind(cluster: LocalCluster, scratch: Path) -> list[str]:
    """What no run may leave: mounts, loop devices, groups, processes, sockets, half files, scratch."""
    root = str(cluster.directory)
    left = [
        f"mount {line.split()[1]}"
        for line in Path("/proc/mounts").read_text().splitlines()
        if str(scratch) in line or root in line
    ]
    loops = subprocess.run(["losetup", "--noheadings", "--list"], capture_output=True, text=True, check=False).stdout
    left += [f"loop device {line}; {holders(line.split()[0])}" for line in loops.splitlines() if root in line]
    left += [f"group {path}" for path in groups(cluster)]
    left += [f"process {pid}" for pid in processes(cluster)]
    left += [f"second shim {pid}" for node in NODES for pid in shims(cluster, node)[1:]]
    sockets = sorted(str(path.relative_to(root)) for path in cluster.directory.rglob("*.sock"))
    left += [f"socket {path}" for path in sockets if path not in {f"agents/{node}/shim.sock" for node in NODES}]
    left += [f"half file {path}" for path in (cluster.directory / "agents").rglob("*.new")]
    places = [place for node in NODES for place in (scratch / node, cluster.directory / "agents" / node / "scratch")]
    return left + [f"scratch {path}" for place in places for path in place.glob("*")]


def shims(cluster: LocalCluster, node: str) -> list[int]:
    """Everything that looks like the shim of the node: one that was killed must not live on in a child."""
    wanted = str(cluster.directory / "agents" / node).encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if wanted in words and any(word.endswith(b"/shim.py") for word in words):
                found.append(int(entry.name))
    return sorted(found)


def holders(device: str) -> list[str]:
    """Processes that keep it: they see its mount, or have a descriptor of a file system."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
            if f" {device} " in (entry / "mountinfo").read_text():
                found.append(f"{entry.name} sees it: {words}")
            for fd in (entry / "fd").iterdir():
                if os.readlink(fd).startswith("mnt:["):
                    found.append(f"{entry.name} has {fd.name} {os.readlink(fd)}: {words}")
    return found


def groups(cluster: LocalCluster) -> list[Path]:
    """Those of runs, in every hierarchy, below the roots of this cluster's shims."""
    roots = [root for node in NODES for root in group_roots(cluster, node)]
    return [path for root in roots for path in root.glob("alloc-*")]


def group_roots(cluster: LocalCluster, node: str) -> list[Path]:
    shim = cluster.process("shim", node)
    if shim is None:
        return []
    name = f"{(cluster.directory / 'agents' / node).stat().st_dev:x}"
    found = Path("/sys/fs/cgroup").glob("lattice/*"), Path("/sys/fs/cgroup").glob("*/lattice/*")
    inode = f"{(cluster.directory / 'agents' / node).stat().st_ino:x}"
    return [path for paths in found for path in paths if path.is_dir() and path.name == f"{name}-{inode}"]


def processes(cluster: LocalCluster) -> list[int]:
    """Those that have the address of this cluster in their environment, and belong to a run."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            mine = any(
                each.startswith(b"LATTICE_API_URL=") and cluster.api_url.encode() in each for each in environment
            )
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if any(each.startswith(bytes(cluster.directory)) and each.endswith(b"/container") for each in arguments):
                found.append(int(entry.name))  # makes a container, or holds it until the shim has it
            if mine and any(each.startswith(b"LATTICE_ALLOC_ID=") for each in environment):
                found.append(int(entry.name))
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """Not below /tmp: runs have one of their own."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "cluster").mkdir(0o700)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Soak:
    """A cluster under random work and random deaths."""

    def __init__(self, cluster: LocalCluster, place: Path, source: random.Random) -> None:
        self.cluster, self.source, self.scratch = cluster, source, place / "scratch"
        self.layout = f"oci:{place / 'layout'}:v1@sha256:{make_layout(place / 'layout', [busybox_layer()])}"
        image = ("--image", self.layout)
        named = (*image, "--container-name", "kept", "--container-writable")
        self.containers: tuple[tuple[str, ...], ...] = (
            (),
            image,
            named,
            named,
        )  # of steps; work inside one refuses them
        self.launches: list[subprocess.Popen[bytes]] = []
        self.open: set[str] = set()
        self.starts = self.deaths = 0

    def state_of(self, allocation: str) -> str:
        return str(self.cluster.get(f"/allocations/{allocation}")["state"])

    def strain(self, starts: int, until: float) -> None:
        """Starts, steps, ends and kills, until there were so many starts."""
        enough = self.starts + starts
        while self.starts < enough and time.monotonic() < until:
            while len(self.open) < CONCURRENCY:
                work = work_of(self.source, self.layout)
                self.open.add(self.cluster.submit(self.source.choice(WORK), **work)["id"])
                self.starts += 1
            with contextlib.suppress(AssertionError, LookupError, OSError):
                self.deed()
            time.sleep(self.source.uniform(0.05, 0.5))
            self.open = {each for each in self.open if self.state_of(each) not in ENDED}

    def deed(self) -> None:
        which = self.source.random()
        victim, node = self.source.choice(sorted(self.open)), self.source.choice(NODES)
        if which < 0.25:
            self.cluster.kill("agent" if which < 0.15 else "shim", node)
            self.deaths += 1
        elif which < 0.45:
            self.cluster.delete(f"/allocations/{victim}")
        elif which < 0.6:
            program, null = str(Path(sys.executable).with_name("lattice")), subprocess.DEVNULL
            words = [program, "launch", "--alloc", victim, *self.source.choice(self.containers), "sleep", "0.2"]
            environment = self.cluster.environment()
            self.launches.append(subprocess.Popen(words, env=environment, stdin=null, stdout=null, stderr=null))

    def end(self) -> None:
        """Ends everything; what does not end in time is told with what there is to know of it."""
        for each in self.open:
            with contextlib.suppress(AssertionError):  # it has ended by itself
                self.cluster.delete(f"/allocations/{each}")
        try:
            eventually(lambda: all(self.state_of(each) in ENDED for each in self.open), "all to end", within_s=120)
        except NotInTime:
            stuck = [self.cluster.get(f"/allocations/{each}") for each in self.open if self.state_of(each) not in ENDED]
            pytest.fail(f"not ended: {stuck}; nodes {self.cluster.nodes()}; left {self.left()}")
        self.open.clear()
        for launch in self.launches:
            launch.kill()
            launch.wait(30)
        self.launches.clear()
        for node in NODES:
            self.cluster.wait_node(node, "Ready", within_s=120)

    def left(self) -> list[str]:
        return left_behind(self.cluster, self.scratch)


@pytest.mark.parametrize("scratch", ["disk", "tmpfs"])
def test_nothing_is_left_of_work_whose_agents_and_shims_are_killed(place: Path, scratch: str) -> None:
    source = random.Random(os.environ.get("LATTICE_SOAK_SEED", "7"))
    until = time.monotonic() + float(os.environ.get("LATTICE_SOAK_S", "120"))
    arguments = ["--scratch-dir", str(place / "scratch") if scratch == "disk" else scratch]
    arguments += ["--prologue", program(place, "prologue", 12), "--epilogue", program(place, "epilogue", 12)]
    with (
        LocalCluster(nodes=len(NODES), arguments=arguments, directory=place / "cluster") as cluster,
        open(os.environ.get("LATTICE_SOAK_LOG", os.devnull), "a", buffering=1) as log,
    ):
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        make_greeter(cluster.directory / "images" / "greeter" / "1.0" / "v1.squashfs")
        soak = Soak(cluster, place, source)
        while time.monotonic() < until:
            soak.strain(STARTS, until)
            soak.end()
            with contextlib.suppress(NotInTime):
                eventually(lambda: not soak.left(), "nothing to be left", within_s=90)
            log.write(f"{soak.starts} starts, {soak.deaths} kills from outside, left: {soak.left()}\n")
            assert soak.left() == []
        assert soak.starts > CONCURRENCY
