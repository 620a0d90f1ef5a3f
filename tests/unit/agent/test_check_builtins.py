"""The checks that every agent brings along, on machines made of files."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from lattice.agent.checks import builtins
from lattice.agent.checks.builtins import ClockReading, Surroundings
from lattice.agent.checks.options import BuiltinOptions
from lattice.agent.checks.vitals import Vitals, read_vitals
from lattice.core.model.nodes.gpus import GpuVendor
from lattice.core.model.nodes.health import Outcome, Verdict
from lattice.core.model.nodes.inventory import Gpu, Inventory, Nic

PLAIN = BuiltinOptions()


def write(root: Path, path: str, text: str = "") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def verdict(outcome: Outcome | None) -> tuple[Verdict, str]:
    assert outcome is not None
    return outcome.verdict, outcome.text


def here(tmp_path: Path, gpus: int = 0, inventory: Inventory | None = None) -> Surroundings:
    return Surroundings(state_dir=tmp_path, declared_gpus=gpus, root=tmp_path, inventory=lambda: inventory)


def test_room_on_disk_is_measured_against_both_limits(tmp_path: Path) -> None:
    assert builtins.disk_space(here(tmp_path), BuiltinOptions(warn_free_percent=0)).verdict is Verdict.PASSED
    full = builtins.disk_space(here(tmp_path), BuiltinOptions(least_free_mb=1 << 40))
    assert full.verdict is Verdict.FAILED
    assert f"{tmp_path}: " in full.text
    assert full.text.endswith("at least 1099511627776 MiB wanted")
    part = builtins.disk_space(here(tmp_path), BuiltinOptions(least_free_percent=100))
    assert part.text.endswith("at least 64 MiB and 100 % wanted")
    assert builtins.disk_space(here(tmp_path), BuiltinOptions(warn_free_percent=100)).verdict is Verdict.WARNED
    missing = builtins.disk_space(here(tmp_path), BuiltinOptions(paths=("/nowhere/at/all",)))
    assert verdict(missing) == (Verdict.FAILED, f"/nowhere/at/all: {os.strerror(2)}")


def test_uncorrected_memory_errors_fail_and_many_corrected_ones_warn(tmp_path: Path) -> None:
    now = [0.0]
    place = here(tmp_path)
    place.monotonic_s = lambda: now[0]
    assert builtins.memory_errors(place, PLAIN).verdict is Verdict.PASSED
    for name in ("mc0", "mc1"):
        write(tmp_path, f"sys/devices/system/edac/mc/{name}/ue_count", "0\n")
        write(tmp_path, f"sys/devices/system/edac/mc/{name}/ce_count", "500\n")
    assert builtins.memory_errors(place, PLAIN) == builtins.passed("1000 corrected errors since boot")
    now[0] = 600
    write(tmp_path, "sys/devices/system/edac/mc/mc1/ce_count", "601\n")
    assert builtins.memory_errors(place, PLAIN) == builtins.warned("101 corrected memory errors within an hour")
    now[0] = 5000
    assert builtins.memory_errors(place, PLAIN).verdict is Verdict.PASSED
    write(tmp_path, "sys/devices/system/edac/mc/mc0/ue_count", "2\n")
    assert builtins.memory_errors(place, PLAIN) == builtins.failed("2 uncorrected memory errors since boot")


def test_gpus_are_counted_where_the_driver_shows_them(tmp_path: Path) -> None:
    for address in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        write(tmp_path, f"proc/driver/nvidia/gpus/{address}/information")
    assert builtins.gpu_count(here(tmp_path, 3), PLAIN) == builtins.passed("3 GPUs")
    assert builtins.gpu_count(here(tmp_path, 4), PLAIN) == builtins.failed("3 of 4 GPUs found")
    write(tmp_path, "sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n")
    write(tmp_path, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4711\n")
    assert builtins.gpu_count(here(tmp_path, 4), PLAIN) == builtins.passed("4 GPUs")


def test_gpus_on_the_bus_without_a_driver_are_missing_ones(tmp_path: Path) -> None:
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
    assert builtins.gpu_count(here(tmp_path, 1, Inventory()), PLAIN) == builtins.failed("0 of 1 GPUs found")


def test_a_machine_that_cannot_count_gpus_is_believed_unless_a_number_is_expected(tmp_path: Path) -> None:
    place = here(tmp_path, 2, Inventory())
    assert builtins.gpu_count(place, PLAIN) == builtins.passed("no GPUs can be counted here")
    assert builtins.gpu_count(place, BuiltinOptions(expected=2)) == builtins.failed("0 of 2 GPUs found")
    assert builtins.gpu_count(here(tmp_path, 2), PLAIN) is None
    assert builtins.gpu_count(here(tmp_path), PLAIN) == builtins.passed("no GPUs declared")


def test_gpus_of_a_hardware_file_count_as_they_are_written(tmp_path: Path) -> None:
    one = Inventory(gpus=(Gpu(index=0, vendor=GpuVendor.NVIDIA),), sources=("file",))
    assert builtins.gpu_count(here(tmp_path, 2, one), PLAIN) == builtins.failed("1 of 2 GPUs found")
    assert builtins.gpu_count(here(tmp_path, 1, one), PLAIN) == builtins.passed("1 GPUs")


def test_errors_that_gpus_counted_are_found(tmp_path: Path) -> None:
    assert builtins.gpu_errors(here(tmp_path), PLAIN).verdict is Verdict.PASSED
    write(tmp_path, "sys/class/drm/card0/device/ras/umc_err_count", "ue: 0\nce: 9\n")
    assert builtins.gpu_errors(here(tmp_path), PLAIN) == builtins.passed("none on 1 GPUs")
    write(tmp_path, "sys/class/drm/card1/device/ras/umc_err_count", "ue: 3\nce: 0\n")
    assert builtins.gpu_errors(here(tmp_path), PLAIN) == builtins.failed("uncorrected memory errors on card1: 3")


def test_errors_and_temperature_of_nvidia_gpus_come_from_their_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "proc/driver/nvidia/gpus/0000:01:00.0/information")
    said = [b"0, 0, 41\n1, [N/A], 55\n", b"0, 0, 41\n1, 7, [N/A]\n"]
    monkeypatch.setattr(builtins, "find_tool", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(builtins, "run_tool", lambda argv, timeout_s: said.pop(0))
    place = here(tmp_path)
    assert builtins.gpu_errors(place, PLAIN) == builtins.passed("none on 1 GPUs")
    assert read_vitals(place).temperature_c == 55
    assert builtins.gpu_errors(place, PLAIN) == builtins.failed("uncorrected memory errors on GPU 1: 7")


def test_the_clock_fails_only_when_it_is_certainly_off(tmp_path: Path) -> None:
    place = here(tmp_path)
    assert builtins.clock_offset(place, PLAIN).verdict is Verdict.PASSED
    place.clock = lambda: ClockReading(offset_s=6.0, slack_s=2.0)
    assert builtins.clock_offset(place, PLAIN).verdict is Verdict.PASSED
    place.clock = lambda: ClockReading(offset_s=-7.5, slack_s=0.1)
    assert builtins.clock_offset(place, PLAIN) == builtins.failed(
        "the clock is 7.5 s behind the server's, at most 5 s wanted"
    )


def test_named_interfaces_must_be_there_and_up(tmp_path: Path) -> None:
    write(tmp_path, "sys/class/net/hsn0/operstate", "up\n")
    write(tmp_path, "sys/class/net/hsn1/operstate", "down\n")
    place = here(tmp_path)
    assert builtins.nics(place, BuiltinOptions(names=("hsn0",))) == builtins.passed()
    assert builtins.nics(place, BuiltinOptions(names=("hsn0", "hsn1"))) == builtins.failed("hsn1 is down")
    assert builtins.nics(place, BuiltinOptions(names=("hsn9",))) == builtins.failed("hsn9 is not there")


def test_interfaces_with_firmware_must_tell_its_version(tmp_path: Path) -> None:
    inventory = Inventory(nics=(Nic(name="hsn0", firmware="1.2"), Nic(name="hsn1")))
    place = here(tmp_path, inventory=inventory)
    assert builtins.nics(place, BuiltinOptions(with_firmware=("hsn0",))) == builtins.passed("2 interfaces")
    silent = builtins.nics(place, BuiltinOptions(with_firmware=("hsn0", "hsn1", "hsn2")))
    assert silent == builtins.failed("no firmware detected: hsn1, hsn2")
    assert builtins.nics(here(tmp_path), BuiltinOptions(with_firmware=("hsn0",))) is None
    write(tmp_path, "sys/class/infiniband/mlx5_0/fw_ver", "\n")
    assert builtins.nics(place, PLAIN) == builtins.failed("mlx5_0 tells no firmware version")


def test_the_fingerprint_is_waited_for(tmp_path: Path) -> None:
    place = here(tmp_path)
    assert builtins.fingerprint(place, PLAIN) is None
    place.fingerprint = lambda: "a" * 64
    assert builtins.fingerprint(place, PLAIN) == builtins.passed("a" * 12)
    place.fingerprint = lambda: ""
    assert verdict(builtins.fingerprint(place, PLAIN))[0] is Verdict.FAILED


def test_a_path_that_is_no_mount_point_is_found(tmp_path: Path) -> None:
    lines = [f"{n} 1 8:1 / {point} rw - ext4 /dev/sda1 rw" for n, point in enumerate(("/", "/my\\040scratch"))]
    write(tmp_path, "proc/self/mountinfo", "\n".join(lines))
    assert builtins.mounted(tmp_path, ["/", "/my scratch/"]) == ""
    assert builtins.mounted(tmp_path, ["/", "/home"]) == "/home"


def test_hosts_are_reached_or_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, and nobody listens
        good, bad = (f"127.0.0.1:{each.getsockname()[1]}" for each in (listening, unused))
        assert asyncio.run(builtins.reach([good], 30)) == builtins.passed("1 hosts reached")
        found = asyncio.run(builtins.reach([good, bad], 30))
    assert found.verdict is Verdict.FAILED
    assert found.text.startswith(f"{bad}: ")


def test_vital_figures_are_read_from_sensors_and_counters(tmp_path: Path) -> None:
    assert read_vitals(here(tmp_path)) == Vitals()
    for sensor, text in {
        "sys/class/hwmon/hwmon0/temp1_input": "41000\n",
        "sys/class/hwmon/hwmon1/temp2_input": "67500\n",
        "sys/class/thermal/thermal_zone0/temp": "999000\n",
        "sys/devices/system/edac/mc/mc0/ue_count": "1\n",
        "sys/devices/system/edac/mc/mc0/ce_count": "20\n",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "",
    }.items():
        write(tmp_path, sensor, text)
    assert read_vitals(here(tmp_path)) == Vitals(gpus=1, temperature_c=67.5, memory_errors=21)


@pytest.mark.parametrize("name", sorted(builtins.BUILTINS))
def test_every_built_in_check_looks_at_the_real_machine_without_trouble(name: str, tmp_path: Path) -> None:
    place = Surroundings(state_dir=tmp_path, inventory=Inventory, fingerprint=lambda: "f" * 64)
    outcome = builtins.BUILTINS[name](place, PLAIN)
    assert outcome is not None
    assert outcome.verdict in Verdict
