"""Nodes of a running cluster: wiped after sensitive work by the site's own program, drained urgently, down by their hardware."""

import json
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

WIPER = """#!/bin/sh
cat >> {folder}/orders
echo >> {folder}/orders
if test -e {folder}/broken; then echo "the disk does not answer" >&2; exit 4; fi
echo "2 disks erased"
"""


class Site:
    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder

    def orders(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "orders").read_text().splitlines()]

    def history(self, node: str) -> list[str]:
        """How the node went from state to state."""
        entries = self.cluster.get(f"/nodes/{node}/events")["items"]
        return [entry["trigger"] for entry in entries if entry["previous"] != entry["state"]]

    def count(self, name: str) -> float:
        """A figure of the server, as a monitoring system reads it."""
        with urllib.request.urlopen(f"{self.cluster.api_url}/metrics", timeout=30) as answer:  # noqa: S310 - ours
            lines = answer.read().decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    wiper = folder / "wiper"
    wiper.write_text(WIPER.format(folder=folder))
    wiper.chmod(wiper.stat().st_mode | stat.S_IXUSR)
    patient = {"node_agent.heartbeat_timeout_s": "60"}  # a busy machine must not add to the histories
    with LocalCluster(nodes=2, settings={**patient, "sensitive.wiper": json.dumps([str(wiper)])}) as cluster:
        cluster.post("/vclusters", {"name": "secret", "scheduler": "sensitive-reservation", "default_walltime_s": 600})
        required = "/settings/sensitive.require_wipe"
        eventually(lambda: cluster.get(required)["value"] == "true", "the leader asks for wipes", within_s=60)
        yield Site(cluster, folder)


def test_a_node_is_wiped_after_sensitive_work_and_registers_anew(site: Site) -> None:
    done = site.cluster.run("true", vcluster="secret", within_s=60)
    node = done["nodes"][0]
    eventually(lambda: site.history(node)[-1] == "confirmed" and "wiped" in site.history(node), "wiped", within_s=60)
    site.cluster.wait_node(node, "Ready", within_s=60)
    order = site.orders()[-1]
    assert (order["node"], order["why"]) == (node, f"sensitive work {done['id']} has left it")
    assert site.history(node)[-4:] == ["wipe", "emptied", "wiped", "confirmed"]
    told = [entry for entry in site.cluster.get(f"/nodes/{node}/events")["items"] if entry["trigger"] == "wiped"]
    assert (told[-1]["by"], told[-1]["reason"]) == ("wiping", "2 disks erased")


def test_a_wipe_that_fails_is_a_quarantine_which_an_operator_ends(site: Site) -> None:
    (site.folder / "broken").touch()
    node = site.cluster.run("true", vcluster="secret", within_s=60)["nodes"][0]
    held = site.cluster.wait_node(node, "Quarantine", within_s=60)
    assert "the disk does not answer" in held["reason"]
    assert site.count("lattice_sensitive_wipe_failure_total") == 1
    entries = site.cluster.get("/audit?type=node.wipe_failed")["items"]
    assert [(entry["subject"], "the disk does not answer" in entry["detail"]) for entry in entries] == [(node, True)]
    (site.folder / "broken").unlink()
    site.cluster.cli("admin", "node", "wipe", node, "--force", "--yes", "--reason", "new disk")
    site.cluster.wait_node(node, "Ready", within_s=60)
    assert site.orders()[-1]["tries"] == 2


def test_an_urgent_drain_moves_work_to_another_node_and_tells_its_user_why(site: Site) -> None:
    work = site.cluster.submit("sleep 600")
    node = site.cluster.wait_state(work["id"], "Running", within_s=60)["nodes"][0]
    other = next(name for name in site.cluster.nodes() if name != node)
    site.cluster.post(f"/nodes/{other}/drain", {"reason": "for a moment"})
    site.cluster.post(f"/nodes/{node}/drain", {"reason": "smoke", "urgent": True})
    waiting = site.cluster.wait_state(work["id"], "Pending", within_s=60)
    assert waiting["message"] == f"requeued: node {node} was drained urgently: smoke"
    site.cluster.wait_node(node, "Drained", within_s=60)
    site.cluster.post(f"/nodes/{other}/undrain", {})
    again = site.cluster.wait_state(work["id"], "Running", within_s=60)
    assert (again["nodes"], again["restart_count"], again["requeue_count"]) == ([other], 1, 0)
    site.cluster.post("/allocations/cancel", {"all_mine": True})
    site.cluster.wait_end(work["id"], within_s=60)
    site.cluster.post(f"/nodes/{node}/undrain", {})
    site.cluster.wait_node(node, "Ready", within_s=60)


def test_a_node_whose_hardware_failed_is_down_at_once_and_returns_by_enable(site: Site) -> None:
    site.cluster.post("/nodes/n1/fault", {"reason": "power supply 2"})
    down = site.cluster.nodes()["n1"]
    assert (down["state"], down["down_cause"], down["reason"]) == ("Down", "hardware", "power supply 2")
    site.cluster.post("/nodes/n1/enable", {})
    site.cluster.wait_node("n1", "Ready", within_s=60)
    assert site.history("n1")[-3:] == ["hardware_failed", "enable", "confirmed"]
