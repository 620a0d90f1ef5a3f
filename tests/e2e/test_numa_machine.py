"""Discovery on a machine whose kernel really has two NUMA nodes."""

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.numa_machine import ROOT, run_there


@pytest.mark.soak
@pytest.mark.e2e
@pytest.mark.root
@pytest.mark.timeout(900)
def test_two_numa_nodes_are_found_with_their_cpus_and_their_distance(tmp_path: Path) -> None:
    paths = ":".join((str(ROOT / "src"), str(ROOT / "sdk" / "src")))
    said = run_there(f"PYTHONPATH={paths} {sys.executable} -m lattice.agent.discovery", tmp_path)
    found = json.loads(said)
    inventory = found["inventory"]
    assert [domain["attached_cpus"] for domain in inventory["memory"]["domains"]] == [[0, 1], [2, 3]]
    assert [link["latency_ns"] for link in inventory["memory"]["interconnects"]] == [168]
    assert (inventory["cpus"]["threads"], "problems" in inventory) == (4, False)
    assert inventory["board"]["vendor"] == "QEMU"
    assert found["components"]["boot_parameters"] == "console=ttyS0 panic=-1 quiet"
    assert found["components"]["memory"] == "2 dram"
