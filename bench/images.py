"""What images cost: the start of work inside one, its processor time there, and the way of a large one from a registry to its mount."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.cluster import client_of, percentile, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice_sdk import Client, Submission
from lattice_sdk.models.records import ResourceRequest
from tests.image_files import MOUNT, make_greeter
from tests.image_registry import running_registry
from tests.oci_files import layer, make_layout

STARTS = 40
BURNS = 7
GIGABYTE = 10**9
SHARE = ResourceRequest(cpus=1, memory="64M")
UENV = "greeter/1.0:v1"
# A loop of a few seconds, so that making the mounts does not count, and that no cache, file or other processor helps.
BURN = "i=0; while [ $i -lt 1200000 ]; do i=$((i+1)); done"


def image_start_latency() -> dict[str, float]:
    """From the moment the submission is sent to the moment the process inside says the time; the image is in the node's cache."""
    with _shared_cluster() as cluster, client_of(cluster) as client:
        layout = _layout_with_bash(cluster.directory / "layout")
        found = {}
        for key, work in (("uenv_start_p50_ms", _in_uenv()), ("container_start_p50_ms", _in_container(layout))):
            _one_start(cluster, client, work, 0)
            times = [_one_start(cluster, client, work, count) for count in range(1, STARTS + 1)]
            found[key] = percentile(times, 0.5)
    return found


def image_speed() -> dict[str, float]:
    """Processor time of the same loop in a uenv and in a container against the bare node, the least of several taken in turn."""
    with _shared_cluster() as cluster, client_of(cluster) as client:
        layout = _layout_with_bash(cluster.directory / "layout")
        ways: dict[str, Mapping[str, str]] = {"bare": {}, "uenv": _in_uenv(), "container": _in_container(layout)}
        used: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(BURNS):
            for way, more in ways.items():
                used[way].append(_burnt(client, more))
    bare = min(used["bare"])
    return {"uenv_cpu_ratio": min(used["uenv"]) / bare, "container_cpu_ratio": min(used["container"]) / bare}


def image_arrival() -> dict[str, float]:
    """A uenv image of 1 GB from docker-registry on this machine, by a node that has not seen it: submission to a process that sees it."""
    with _room() as place:
        image, files = place / "large.squashfs", place / "files"
        files.mkdir()
        _write_noise(files / "noise", GIGABYTE)
        words = ["mksquashfs", files, image, "-noappend", "-quiet", "-no-progress", "-noI", "-noD", "-noF", "-noX"]
        subprocess.run(words, check=True, capture_output=True)
        (place / "registry").mkdir()
        with running_registry(place / "registry") as registry:
            registry.push_squashfs(image, "site/large/1.0")
            image.unlink()
            settings = {"images.directory": "''", "images.url": f"oci://{registry.host}/site"}
            with start_cluster(nodes=1, **settings) as cluster, client_of(cluster) as client:
                sent = time.time()
                allocation = client.submit(Submission(entrypoint=["date", "+%s.%N"], uenv=f"large/1.0:v1:{MOUNT}"))
                ended = client.wait(allocation.id, timeout=120)
                if ended.state != "Completed":
                    raise AssertionError(ended.message)
                return {"image_arrival_s": float(cluster.logs(allocation.id)) - sent}


@contextmanager
def _shared_cluster() -> Iterator[LocalCluster]:
    with start_cluster(nodes=2) as cluster:
        make_greeter(cluster.directory / "images" / "greeter" / "1.0" / "v1.squashfs")
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        yield cluster


def _in_uenv() -> Mapping[str, str]:
    return {"uenv": UENV, "view": "default"}


def _in_container(layout: str) -> Mapping[str, str]:
    return {"image": layout}


def _layout_with_bash(folder: Path) -> str:
    """An image with the node's own bash and what it is linked with."""
    bash = shutil.which("bash") or "/bin/bash"
    linked = subprocess.run(["ldd", bash], check=True, capture_output=True, text=True).stdout.split()
    files = [bash, *(word for word in linked if word.startswith("/"))]
    digest = make_layout(folder, [layer([(each.lstrip("/"), Path(each).read_bytes()) for each in files])])
    return f"oci:{folder}:v1@sha256:{digest}"


def _one_start(cluster: LocalCluster, client: Client, work: Mapping[str, str], count: int) -> float:
    stamp = Path(cluster.directory) / f"stamp-{'image' if 'image' in work else 'uenv'}-{count}"
    script = f'echo "$EPOCHREALTIME end" > {stamp}'
    sent = time.time()
    allocation = client.submit(Submission(entrypoint=["bash", "-c", script], resources=SHARE, **work))
    wait_until(lambda: stamp.exists() and stamp.read_text().endswith("end\n"), 60, f"start {count}")
    client.wait(allocation.id, timeout=30)
    return (float(stamp.read_text().split()[0]) - sent) * 1000


def _burnt(client: Client, work: Mapping[str, str]) -> float:
    allocation = client.submit(
        Submission(entrypoint=["bash", "-c", f"exec -c bash -c '{BURN}'"], resources=SHARE, **work)
    )
    ended = client.wait(allocation.id, timeout=120)
    if ended.state != "Completed":
        raise AssertionError(ended.message)
    return float(ended.cpu_s or 0)


@contextmanager
def _room() -> Iterator[Path]:
    """A folder on a disk: /tmp may be in memory."""
    place = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write_noise(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        while size > 0:
            size -= file.write(os.urandom(min(size, 1 << 20)))
