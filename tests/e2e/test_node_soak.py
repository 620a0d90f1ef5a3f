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

STARTS = 500
NODES = ("n1", "n2")
CONCURRENCY = 6
ENDED = {"Completed", "Failed", "Cancelled"}
# A prologue or epilogue that kills the agent that runs it, once in a while.
DEADLY = """#!/bin/sh
if [ "$(od -An -N1 -tu1 /dev/urandom)" -lt {odds} ]; then kill -9 $PPID; fi
exit 0
"""
WORK = (
    "true",
    "sleep 0.3",
    "setsid sleep 300 & sleep 0.2",
    "echo x > /tmp/mine; dd if=/dev/zero of=$LATTICE_SCRATCH/f bs=1M count=1; exit 3",
)


def work_of(source: random.Random, layout: str) -> dict[str, Any]:
    """What work has: the file system of the node, with a uenv, or that of a container; one in four has both nodes.

    The second one runs no script, and is prepared and cleared all the same.
    """
    nodes = 2 if source.random() < 0.25 else 1
    more = source.choice(({}, {"uenv": "greeter/1.0:v1", "view": "default"}, {"image": layout}))
    resources = {"nodes": nodes, "cpus": 1, "memory": "64M"}
    return {"resources": resources, "lifecycle": {"walltime": "60s"}, **more}


def program(folder: Path, name: str, odds: int) -> str:
    path = folder / name
    path.write_text(DEADLY.format(odds=odds))
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
    sockets = sorted(str(path.relative_to(root)) for path in cluster.directory.rglob("*.sock"))
    left += [f"socket {path}" for path in sockets if path not in {f"agents/{node}/shim.sock" for node in NODES}]
    left += [f"half file {path}" for path in (cluster.directory / "agents").rglob("*.new")]
    return left + [f"scratch {path}" for node in NODES for path in (scratch / node).glob("*")]


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


def test_nothing_is_left_of_work_whose_agents_and_shims_are_killed(place: Path) -> None:
    source = random.Random(os.environ.get("LATTICE_SOAK_SEED", "7"))
    until = time.monotonic() + float(os.environ.get("LATTICE_SOAK_S", "120"))
    scratch = place / "scratch"
    arguments = ["--scratch-dir", str(scratch)]
    arguments += ["--prologue", program(place, "prologue", 12), "--epilogue", program(place, "epilogue", 12)]
    with LocalCluster(nodes=len(NODES), arguments=arguments, directory=place / "cluster") as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        make_greeter(cluster.directory / "images" / "greeter" / "1.0" / "v1.squashfs")
        layout = f"oci:{place / 'layout'}:v1@sha256:{make_layout(place / 'layout', [busybox_layer()])}"
        launches: list[subprocess.Popen[bytes]] = []
        open_ids: set[str] = set()
        starts = 0
        while starts < STARTS and time.monotonic() < until:
            while len(open_ids) < CONCURRENCY:
                open_ids.add(cluster.submit(source.choice(WORK), **work_of(source, layout))["id"])
                starts += 1
            deed = source.random()
            victim, node = source.choice(sorted(open_ids)), source.choice(NODES)
            with contextlib.suppress(AssertionError, LookupError, OSError):
                if deed < 0.15:
                    cluster.kill("agent", node)
                elif deed < 0.25:
                    cluster.kill("shim", node)
                elif deed < 0.45:
                    cluster.delete(f"/allocations/{victim}")
                elif deed < 0.6:
                    words = [
                        str(Path(sys.executable).with_name("lattice")),
                        "launch",
                        "--alloc",
                        victim,
                        "sleep",
                        "0.2",
                    ]
                    null = subprocess.DEVNULL
                    launches.append(
                        subprocess.Popen(words, env=cluster.environment(), stdin=null, stdout=null, stderr=null)
                    )
            time.sleep(source.uniform(0.05, 0.5))
            open_ids = {each for each in open_ids if cluster.get(f"/allocations/{each}")["state"] not in ENDED}
        for each in open_ids:
            cluster.delete(f"/allocations/{each}")
        eventually(
            lambda: all(cluster.get(f"/allocations/{each}")["state"] in ENDED for each in open_ids),
            "all to end",
            within_s=120,
        )
        for launch in launches:
            launch.kill()
            launch.wait(30)
        for node in NODES:
            cluster.wait_node(node, "Ready", within_s=120)
        with contextlib.suppress(NotInTime):
            eventually(lambda: not left_behind(cluster, scratch), "nothing to be left", within_s=90)
        assert left_behind(cluster, scratch) == []
        assert starts > CONCURRENCY
        Path(os.environ.get("LATTICE_SOAK_LOG", os.devnull)).write_text(f"{starts} starts\n")
