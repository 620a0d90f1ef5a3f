"""What an agent finds out about its machine: from files of a made-up one, and from this one."""

import os
from pathlib import Path

import pytest

from lattice.agent.discovery.figures import cpu_speed, disk_mb, measure_figures, system_level, virtual_memory_mb


def machine(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_highest_frequency_counts_before_names_and_measurements(tmp_path: Path) -> None:
    text = "model name\t: Intel(R) Xeon(R) @ 2.20GHz\ncpu MHz\t\t: 2199.998\n"
    root = machine(tmp_path, proc__cpuinfo=text)
    assert cpu_speed(root) == 2200.0
    machine(root, sys__devices__system__cpu__cpu0__cpufreq__cpuinfo_max_freq="3900000\n")
    assert cpu_speed(root) == 3900.0


@pytest.mark.parametrize(("measured", "speed"), [("2601.442", 2600.0), ("2598.1", 2600.0), ("863.8", 900.0)])
def test_a_measured_frequency_is_rounded_so_that_it_does_not_wander(
    tmp_path: Path, measured: str, speed: float
) -> None:
    assert cpu_speed(machine(tmp_path, proc__cpuinfo=f"cpu MHz\t: {measured}\n")) == speed


def test_what_cannot_be_found_out_is_not_known(tmp_path: Path) -> None:
    assert (cpu_speed(tmp_path), virtual_memory_mb(tmp_path), disk_mb(tmp_path / "nowhere")) == (0.0, 0, 0)
    assert cpu_speed(machine(tmp_path, proc__cpuinfo="processor: 0\n")) == 0.0


def test_virtual_memory_is_memory_and_swap_space(tmp_path: Path) -> None:
    text = "MemTotal:  2097152 kB\nMemFree: 5 kB\nSwapTotal: 1048576 kB\n"
    assert virtual_memory_mb(machine(tmp_path, proc__meminfo=text)) == 3072


def test_this_machine_has_figures_and_a_given_speed_counts(tmp_path: Path) -> None:
    figures = measure_figures(speed=1.5, tmp_dir=tmp_path)
    assert figures.os == system_level() == f"{os.uname().sysname}.{os.uname().release}"
    assert figures.speed == 1.5
    assert figures.virtual_memory_mb > 0
    assert figures.tmp_disk_mb > 0
