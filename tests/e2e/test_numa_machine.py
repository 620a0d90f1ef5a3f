"""Discovery on a machine whose kernel really has two NUMA nodes."""

import json
import re
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


# What a shim does with control groups, and with the memory of a node: the same tests as on this machine.
LIMITS = (
    "tests/unit/agent/test_cgroups.py",
    "tests/unit/agent/test_memory_policy.py",
    "tests/integration/agent/test_shim_usage.py",
    "tests/integration/agent/test_shim_devices.py",
    "tests/integration/agent/test_shim_steps.py",
)
ON_A_DISK = (
    "tests/integration/agent/test_shim_usage.py::test_bytes_that_a_run_wrote_to_storage_are_counted"  # there is none
)
PREPARED = """\
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /dev/pts /dev/shm
mount -t devpts none /dev/pts
for place in /tmp /dev/shm; do mount -t tmpfs none $place; done
export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
"""


@pytest.mark.soak
@pytest.mark.e2e
@pytest.mark.root
@pytest.mark.timeout(900)
def test_limits_hold_there_with_version_2_of_control_groups_alone(tmp_path: Path) -> None:
    tests = f"{sys.executable} -m pytest -q --color=no -p no:cacheprovider --basetemp=/tmp/t --deselect={ON_A_DISK} {' '.join(LIMITS)}"
    said = run_there(f"{PREPARED}cd {ROOT}; {tests} 2>&1", tmp_path)
    last = said.strip().splitlines()[-1]
    assert re.fullmatch(r"\d\d+ passed(, \d skipped)?(, \d deselected)? in .*", last), said
