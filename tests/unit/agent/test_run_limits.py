"""What a run may take: its share, and on a whole node all but what the system needs."""

import glob
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.runs import device_files
from lattice.agent.runs.device_files import STANDARD, DeviceFiles, rule_of
from lattice.agent.runs.devices import Devices
from lattice.agent.runs.limits import LimitSettings, NodeSize, confinement_features, run_limits, what_lacks
from lattice.core.model.nodes.gpus import GpuDevice, GpuTopology, GpuVendor

NODE = NodeSize(cpus=8, memory_mb=16_000)
MACHINE = LimitSettings(machine_memory_mb=16_000)


def limits(request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = request["limits"]
    return found


def test_share_is_limited_in_cpu_time_memory_and_processes() -> None:
    request = run_limits(MACHINE, NODE, 2, 3000)
    assert request == {"memory_mb": 3000, "limits": {"cpus": 2.0, "pids": 1024}}


def test_share_with_cpus_of_its_own_cannot_leave_them() -> None:
    assert limits(run_limits(MACHINE, NODE, 2, 3000, Devices(cpus=(4, 5))))["cpuset"] == [4, 5]


@pytest.mark.parametrize("cpus", [0, 8])
def test_whole_node_uses_all_cpus_and_leaves_the_system_its_memory(cpus: int) -> None:
    request = run_limits(MACHINE, NODE, cpus, 0)
    assert request == {"memory_mb": 16_000 - 512, "limits": {"pids": 8 * 512}}


def test_memory_that_was_asked_for_is_the_limit_on_a_whole_node_too() -> None:
    assert run_limits(MACHINE, NODE, 8, 1000)["memory_mb"] == 1000


def test_node_that_offers_less_than_the_machine_has_needs_no_reserve() -> None:
    small = NodeSize(cpus=8, memory_mb=4096)
    assert run_limits(MACHINE, small, 8, 0)["memory_mb"] == 4096


def test_reserve_never_takes_more_than_a_tenth_of_a_small_machine() -> None:
    tiny = NodeSize(cpus=1, memory_mb=1000)
    assert run_limits(LimitSettings(machine_memory_mb=1000), tiny, 1, 0)["memory_mb"] == 900


def test_processes_are_not_limited_where_the_site_says_so() -> None:
    assert "pids" not in limits(run_limits(LimitSettings(pids_per_cpu=0), NODE, 2, 100))


def test_rates_of_storage_hold_on_whole_nodes_too() -> None:
    assert limits(run_limits(MACHINE, NODE, 8, 0, storage=(20, 5))) == {
        "pids": 8 * 512,
        "read_bps": 20_000_000,
        "write_bps": 5_000_000,
    }
    assert limits(run_limits(MACHINE, NODE, 2, 100, storage=(0, 5))).keys() == {"cpus", "pids", "write_bps"}


def test_devices_are_confined_only_on_a_shared_node() -> None:
    settings = LimitSettings(device_files=DeviceFiles(site=("/dev/ful*", "/dev/missing", "/etc/hostname")))
    assert limits(run_limits(settings, NODE, 2, 100))["devices"] == list(STANDARD)
    assert "devices" not in limits(run_limits(settings, NODE, NODE.cpus, 100))
    assert "devices" not in limits(run_limits(settings, NODE, 0, 100))


def test_gpu_brings_its_own_device_files_and_those_of_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_files, "rule_of", lambda path: path)
    monkeypatch.setattr(glob, "glob", lambda name: [name])
    declared = tuple(
        GpuDevice(index=number, vendor=GpuVendor.AMD, devices=(f"/dev/dri/renderD{130 + number}",)) for number in (0, 1)
    )
    files = DeviceFiles(gpus=GpuTopology(gpus=declared), site=("/dev/infiniband/*",))
    assert files.rules(()) == [*STANDARD, "/dev/infiniband/*"]
    assert files.rules((1,)) == [*STANDARD, "/dev/infiniband/*", "/dev/dri/renderD131", "/dev/kfd"]
    # Without a topology the drivers' own numbers serve.
    assert {"/dev/nvidia1", "/dev/nvidiactl"} <= set(DeviceFiles().rules((1,)))
    assert "/dev/nvidia0" not in DeviceFiles().rules((1,))
    assert {"/dev/dri/renderD129", "/dev/kfd"} <= set(DeviceFiles(is_amd=True).rules((1,)))


def test_only_device_files_are_rules(tmp_path: Path) -> None:
    assert rule_of("/dev/null") == "c 1:3"
    assert rule_of(str(tmp_path)) == rule_of("/missing") == ""


def test_agent_says_what_its_machine_cannot_limit() -> None:
    assert what_lacks(("memory", "cpu", "pids", "cpuset", "devices")) == ""
    assert what_lacks(("memory", "pids")) == "runs that share this node are not limited in CPU time, devices"
    assert "older than this agent" in what_lacks(None)


def test_nodes_that_can_slow_reading_and_writing_down_say_so() -> None:
    assert confinement_features(("memory", "cpu", "pids", "devices", "io")) == {"confined", "io_limits"}
    assert confinement_features(("memory", "io")) == {"io_limits"}
    assert confinement_features(None) == set()
