"""Among equal nodes, work goes where its image is and where the better GPUs are free; agents with caches of their own say which."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk.site.local_cluster import AGENT_TOKEN_FILE
from tests.conftest import require_program
from tests.image_files import make_greeter

pytestmark = [pytest.mark.e2e, pytest.mark.root]
LABEL = "greeter/1.0:v1"
NODES = ("k1", "k2", "k3", "k4")


class Node:
    """An agent beside those of `lattice up`, which share one cache."""

    def __init__(self, cluster: LocalCluster, name: str, folder: Path, *more: str) -> None:
        self._state = folder / name
        agent = Path(sys.executable).with_name("lattice-agent")
        endpoints = json.loads((cluster.directory / "data" / "endpoints.json").read_text())
        self._command = [
            *(str(agent), "--node-id", name, "--state-dir", str(self._state), "--servers", endpoints["grpc"]),
            *("--token-file", str(cluster.directory / AGENT_TOKEN_FILE), "--cpus", "4", "--memory-mb", "4096"),
            *("--metrics-listen", "off", "--telemetry-without", "bpf", "--allow-user", "root"),
            *("--cache-dir", str(folder / f"cache-{name}"), "--group", "apart", *more),
        ]
        self._log = (folder / f"{name}.log").open("a")

    def __enter__(self) -> "Node":
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        return self

    def __exit__(self, *_: object) -> None:
        """The agent, and the shim that would outlive it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        self._log.close()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self._state / "shim.pid").read_text()), signal.SIGTERM)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    require_program("mksquashfs")
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def topology(place: Path, name: str, gbps: float) -> str:
    gpus = [{"index": index, "vendor": "nvidia", "model": "H100"} for index in range(2)]
    links = [{"gpu_a": 0, "gpu_b": 1, "link_type": "nvlink", "bandwidth_gbps": gbps}]
    file = place / f"{name}.json"
    file.write_text(json.dumps({"gpus": {"gpus": gpus, "links": links}}))
    return str(file)


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[LocalCluster]:
    (place / "cluster").mkdir()
    with LocalCluster(nodes=1, directory=place / "cluster") as cluster, contextlib.ExitStack() as nodes:
        make_greeter(place / "cluster" / "images" / "greeter" / "1.0" / "v1.squashfs")
        for name in NODES:
            gbps = 450.0 if name == "k2" else 32.0
            nodes.enter_context(Node(cluster, name, place, "--topology-file", topology(place, name, gbps)))
        for name in NODES:
            eventually(lambda name=name: name in cluster.nodes(), f"node {name}")  # type: ignore[misc]
            cluster.wait_node(name, "Ready")
        cluster.post("/vclusters", {"name": "apart", "node_sharing": "shared", "nodes": list(NODES)})
        yield cluster


def nodes_of(cluster: LocalCluster, **fields: Any) -> list[str]:  # noqa: ANN401 - JSON
    done = cluster.run("true", vcluster="apart", **fields)
    assert done["state"] == "Completed", done
    return list(done["nodes"])


def test_work_goes_to_the_node_with_its_image_again_and_again(cluster: LocalCluster) -> None:
    assert cluster.cli("cache", "warm", LABEL, "--nodes=k3").returncode == 0
    assert [nodes_of(cluster, uenv=LABEL) for _ in range(5)] == [["k3"]] * 5
    assert nodes_of(cluster) == ["k1"]
    assert nodes_of(cluster, uenv="none") == ["k1"]


def test_nobody_waits_for_a_node_with_the_image_and_explain_says_where_it_is(cluster: LocalCluster) -> None:
    assert cluster.cli("cache", "warm", LABEL, "--nodes=k3").returncode == 0
    all_of_it = {"resources": {"nodes": 1, "exclusive": True}}
    busy = cluster.submit(
        "sleep 600", vcluster="apart", resources={"exclusive": True, "constraints": {"nodes": ["k3"]}}
    )
    cluster.wait_state(busy["id"], "Running")
    assert nodes_of(cluster, uenv=LABEL, **all_of_it) != ["k3"]
    others = [cluster.submit("sleep 600", vcluster="apart", **all_of_it) for _ in range(3)]
    for each in others:
        cluster.wait_state(each["id"], "Running")
    waiting = cluster.submit("true", vcluster="apart", uenv=LABEL, **all_of_it)
    eventually(
        lambda: "suitable nodes" in cluster.cli("explain", waiting["id"]).stdout or None, "the images to be explained"
    )
    for each in (waiting, *others, busy):
        cluster.delete(f"/allocations/{each['id']}")
        cluster.wait_end(each["id"])


def test_work_goes_to_the_node_whose_free_gpus_are_better_linked(cluster: LocalCluster) -> None:
    two = {"resources": {"gpus": 2}}
    assert [nodes_of(cluster, **two) for _ in range(3)] == [["k2"]] * 3
    assert nodes_of(cluster, uenv=LABEL, **two) == ["k2"], "links count more than the image on k3"
    holder = cluster.submit("sleep 600", vcluster="apart", resources={"gpus": 1, "constraints": {"nodes": ["k2"]}})
    cluster.wait_state(holder["id"], "Running")
    assert nodes_of(cluster, **two) == ["k1"]
    cluster.delete(f"/allocations/{holder['id']}")
    cluster.wait_end(holder["id"])


def test_a_server_that_was_lost_hears_of_the_images_again(cluster: LocalCluster) -> None:
    assert cluster.cli("cache", "warm", LABEL, "--nodes=k3").returncode == 0
    cluster.wait_replaced(cluster.kill("server"))
    cluster.wait_serving()
    for name in NODES:
        cluster.wait_node(name, "Ready")

    def goes_there() -> bool:
        (node,) = nodes_of(cluster, uenv=LABEL)
        if node != "k3":  # k3 had not been heard of yet; now this one has the image, too
            cluster.cli("cache", "evict", LABEL, f"--nodes={node}")
        return node == "k3"

    eventually(goes_there, "work on k3")
