"""Inventories from real agents: what is shown, what follows a change, and that they come again after the server was lost."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing.local_cluster import LocalCluster
from lattice.testing.waiting import eventually

pytestmark = pytest.mark.e2e
PRETENDED = {
    "board": {"bios_vendor": "ACME", "bios_version": "1.2"},
    "gpus": [
        {"index": 0, "vendor": "nvidia", "model": "H100", "memory_bytes": 80 << 30, "firmware": "96.00"},
        {"index": 1, "vendor": "nvidia", "model": "H100", "memory_bytes": 80 << 30, "firmware": "96.00"},
    ],
    "gpu_links": [{"gpu_a": 0, "gpu_b": 1, "link_type": "nvlink", "bandwidth_gbps": 450.0}],
    "drivers": {"nvidia": "550.54.14"},
}


@pytest.fixture(scope="module")
def hardware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hardware")
    (folder / "n3.json").write_text(json.dumps(PRETENDED))
    return folder


@pytest.fixture(scope="module")
def cluster(hardware: Path) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=3, arguments=["--hardware-dir", str(hardware)]) as running:
        yield running


def components(cluster: LocalCluster, node: str) -> dict[str, str]:
    status, answer = cluster.request("GET", f"/nodes/{node}/inventory")
    return dict(answer["components"]) if status == 200 else {}


def test_nodes_on_one_machine_are_alike_and_have_said_so_when_they_are_ready(cluster: LocalCluster) -> None:
    first, second = (cluster.get(f"/nodes/{node}/inventory") for node in ("n1", "n2"))
    assert first["fingerprint"] == second["fingerprint"] != ""
    assert first["components"]["kernel"].startswith(first["inventory"]["software"]["kernel"])
    assert not first["is_stale"]
    assert cluster.nodes()["n1"]["gpus"] == 0


def test_a_node_declares_what_its_hardware_file_says(cluster: LocalCluster) -> None:
    assert (cluster.nodes()["n3"]["gpus"], cluster.nodes()["n3"]["gpu_type"]) == (2, "H100")
    sheet = cluster.cli("nodes", "n3").stdout
    assert "0-1: H100 80G, firmware 96.00" in sheet
    assert "1x nvlink 450 GB/s" in sheet
    assert "nvidia 550.54.14" in sheet
    whole = json.loads(cluster.cli("nodes", "n3", "-o", "json").stdout)
    assert whole["inventory"]["components"]["gpu_driver.nvidia"] == "550.54.14"
    alone = json.loads(cluster.cli("node", "inventory", "n3", "-o", "json").stdout)
    assert alone["inventory"]["board"]["bios_version"] == "1.2"


def test_work_gets_the_gpus_that_were_found(cluster: LocalCluster) -> None:
    done = cluster.run(
        "echo gpus $LATTICE_GPUS", resources={"gpus": 2, "constraints": {"gpu_type": "H100"}}, within_s=60
    )
    assert (done["state"], done["nodes"]) == ("Completed", ["n3"])
    assert cluster.logs(done["id"]).strip() == "gpus 0,1"


def test_a_change_in_the_file_makes_another_fingerprint(cluster: LocalCluster, hardware: Path) -> None:
    before = cluster.get("/nodes/n3/inventory")["fingerprint"]
    changed = {**PRETENDED, "drivers": {"nvidia": "550.90.07"}}
    (hardware / "n3.json").write_text(json.dumps(changed))
    eventually(lambda: components(cluster, "n3").get("gpu_driver.nvidia") == "550.90.07", "the new driver", within_s=60)
    assert cluster.get("/nodes/n3/inventory")["fingerprint"] != before


def test_a_file_that_cannot_be_used_changes_nothing(cluster: LocalCluster, hardware: Path) -> None:
    before = components(cluster, "n3")
    (hardware / "n3.json").write_text('{"drivers": 3')
    log = cluster.directory / "agents" / "n3.log"
    eventually(lambda: "the inventory stays as it was" in log.read_text(), "a word about it", within_s=60)
    assert components(cluster, "n3") == before
    (hardware / "n3.json").write_text(json.dumps(PRETENDED))
    eventually(lambda: components(cluster, "n3").get("gpu_driver.nvidia") == "550.54.14", "the old one", within_s=60)


def test_a_server_that_was_lost_hears_them_again(cluster: LocalCluster) -> None:
    before = {node: components(cluster, node) for node in ("n1", "n2", "n3")}
    cluster.wait_replaced(cluster.kill("server"), within_s=60)
    cluster.wait_serving(within_s=60)
    eventually(lambda: {node: components(cluster, node) for node in before} == before, "all of them again", within_s=60)


def test_who_asks_for_a_node_that_does_not_exist_is_told(cluster: LocalCluster) -> None:
    status, answer = cluster.request("GET", "/nodes/n9/inventory")
    assert (status, answer["error"]["code"]) == (404, "not_found")
    outcome = cluster.cli("node", "inventory", "n9", check=False)
    assert outcome.returncode == 4


def test_the_agent_prints_what_it_finds_and_leaves(hardware: Path) -> None:
    agent = Path(sys.executable).with_name("lattice-agent")
    told = subprocess.run([agent, "--discover"], capture_output=True, check=True, timeout=60)
    found = json.loads(told.stdout)
    assert found["components"]["kernel"].startswith(found["inventory"]["software"]["kernel"])
    assert found["inventory"]["cpus"]["threads"] > 0
    wrong = subprocess.run(
        [agent, "--discover", "--hardware", hardware / "none"], capture_output=True, check=False, timeout=60
    )
    assert (wrong.returncode, b"cannot read" in wrong.stderr) == (2, True)
