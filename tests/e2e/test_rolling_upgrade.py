"""A rolling upgrade of real agents: the site's program replaces their release, the server is killed meanwhile, work goes on."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

OLD, NEW = "0.2.0", "0.2.1"
# Agents say the release that a file of the site names for their node; all else of them is this release.
SITE = """\
import sys
from pathlib import Path

if sys.argv and "--node-id" in sys.argv or Path(sys.argv[0]).name == "lattice-agent":
    import importlib.metadata as metadata

    was = metadata.version

    def version(name):
        words = sys.argv
        node = words[words.index("--node-id") + 1] if "--node-id" in words else ""
        path = Path(__file__).with_name(node + ".release")
        return path.read_text() if name == "lattice-hpc" and node and path.exists() else was(name)

    metadata.version = version
"""
PROGRAM = """\
import json, os, signal, sys
from pathlib import Path

order = json.load(sys.stdin)
here = Path(__file__).parent
with open(here / "told", "a") as told:
    told.write(json.dumps(order) + "\\n")
for each in order["nodes"]:
    if (here / "refuses").exists() and each["release"] != "0.2.0":
        sys.exit("no package " + each["release"])
    (here / (each["node"] + ".release")).write_text(each["release"])
    for process in json.loads(next(here.parent.glob("cluster.json")).read_text())["processes"]:
        if process["role"] == "agent" and process["name"] == each["node"]:
            os.kill(process["pid"], signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[LocalCluster, Path]]:
    directory = Path(tempfile.mkdtemp(prefix="lattice-"))
    here = directory / "site"
    here.mkdir()
    (here / "sitecustomize.py").write_text(SITE)
    (here / "replace.py").write_text(PROGRAM)
    settings = {"upgrade.program": json.dumps([sys.executable, "-I", str(here / "replace.py")])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(here))
        with LocalCluster(nodes=3, settings=settings, directory=directory) as cluster:
            yield cluster, here
    shutil.rmtree(directory, ignore_errors=True)


def upgrade(cluster: LocalCluster, *words: str) -> dict[str, Any]:
    return dict(json.loads(cluster.cli("admin", "upgrade", *words, "-o", "json").stdout))


def wait_phase(cluster: LocalCluster, phase: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = upgrade(cluster, "status")["rollout"]
        return found if found["phase"] == phase else None

    return eventually(look, f"the upgrade is {phase}", within_s=120)


def all_run(cluster: LocalCluster, release: str) -> bool:
    refused = cluster.cli("admin", "upgrade", "plan", "--to", release, check=False)
    return f"no node can be upgraded to {release}" in refused.stderr


def test_a_canary_whose_program_fails_is_rolled_back(site: tuple[LocalCluster, Path]) -> None:
    cluster, here = site
    (here / "refuses").touch()
    upgrade(cluster, "start", "--to", NEW, "--observe", "0s")
    wait_phase(cluster, "rolled_back")
    (here / "refuses").unlink()
    for node in cluster.nodes():
        cluster.wait_node(node, "Ready")
    assert all_run(cluster, OLD)


def test_agents_are_upgraded_while_the_server_is_killed_and_work_goes_on(site: tuple[LocalCluster, Path]) -> None:
    cluster, here = site
    allocation = cluster.submit(["sh", "-c", f"while [ ! -e {here}/go ]; do sleep 0.2; done"])["id"]
    running = cluster.wait_state(allocation, "Running")
    upgrade(cluster, "start", "--to", NEW, "--canary", "1", "--batch", "2", "--observe", "0s")
    eventually(lambda: any(node["state"] == "Draining" for node in cluster.nodes().values()), "a node drains")
    cluster.wait_replaced(cluster.kill("server"))
    cluster.wait_serving()
    (here / "go").touch()
    assert wait_phase(cluster, "done")["done"] == 3
    assert all_run(cluster, NEW)
    assert cluster.wait_end(allocation)["state"] == "Completed", running
    for node in cluster.nodes():
        cluster.wait_node(node, "Ready")
    upgrade(cluster, "rollback", "--reason", "as a test")
    wait_phase(cluster, "rolled_back")
    assert all_run(cluster, OLD)
