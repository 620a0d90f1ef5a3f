"""What an agent declares of its machine, by what it finds and by what it was told."""

import json
import os
import threading
from pathlib import Path

import pytest

from lattice.core.model.nodes.inventory import Inventory
from lattice.daemons.agent.hardware import BadHardware, Machine, look_around, look_within
from lattice.daemons.programs.agent import build_parser

CPUS = sorted(os.sched_getaffinity(0))
PRETENDED = {
    "memory_mb": 1000,
    "memory": {
        "domains": [
            {"id": 0, "domain_type": "unified", "attached_cpus": CPUS, "attached_gpus": [0, 1]},
            {"id": 1, "domain_type": "cxl_attached", "capacity_bytes": 300 << 20},
        ]
    },
    "gpus": [
        {"index": 0, "vendor": "nvidia", "model": "GH200", "uuid": "GPU-a"},
        {"index": 1, "vendor": "nvidia", "model": "GH200", "uuid": "GPU-b"},
    ],
}


def declared(tmp_path: Path, *words: str, hardware: object = PRETENDED) -> Machine:
    path = tmp_path / "hardware.json"
    path.write_text(json.dumps(hardware))
    given = ["--node-id", "n1", "--state-dir", str(tmp_path), "--hardware", str(path), *words]
    return look_around(build_parser().parse_args(given))


def test_an_agent_declares_what_it_finds(tmp_path: Path) -> None:
    machine = declared(tmp_path)
    assert (machine.cpus, machine.gpus, machine.gpu_type) == (len(CPUS), 2, "GH200")
    assert (machine.memory_mb, machine.cxl_memory_mb) == (700, 300)
    assert machine.topology.memory.is_unified
    assert (machine.inventory.sources[0], machine.inventory.sources[-1]) == ("sysfs", "file")


def test_an_agent_that_was_told_its_part_of_a_machine_takes_no_more_and_binds_nothing(tmp_path: Path) -> None:
    machine = declared(tmp_path, "--cpus", "1", "--gpus", "0", "--memory-mb", "64")
    assert (machine.cpus, machine.gpus, machine.gpu_type, machine.memory_mb) == (1, 0, "", 64)
    assert machine.topology.memory.domains == ()
    assert machine.topology.gpus.gpus == ()
    assert len(machine.inventory.gpus) == 2


def test_a_topology_file_counts_more_than_what_is_found_and_must_agree_with_the_arguments(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    path.write_text('{"gpus": {"gpus": [{"index": 0, "vendor": "amd", "model": "MI300X"}]}}')
    machine = declared(tmp_path, "--topology-file", str(path))
    assert (machine.gpus, machine.gpu_type) == (1, "MI300X")
    with pytest.raises(BadHardware, match="--gpus is 3, but the topology file has 1"):
        declared(tmp_path, "--topology-file", str(path), "--gpus", "3")


@pytest.mark.parametrize("wrong", [[], {"gpu": 1}, {"gpus": [{"index": 0}]}])
def test_a_hardware_file_that_cannot_be_used_is_named(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(BadHardware, match=r"hardware\.json: "):
        declared(tmp_path, hardware=wrong)


def test_a_machine_that_does_not_let_itself_be_looked_at_still_has_an_agent() -> None:
    released = threading.Event()

    def look() -> Inventory:
        released.wait(60)
        return Inventory()

    found = look_within(look, 0.05)
    released.set()
    assert found.memory_mb > 0
    assert found.problems == ("hardware detection took more than 0.05 s",)


def test_hardware_too_strange_to_be_read_keeps_no_agent_from_starting() -> None:
    def look() -> Inventory:
        raise ValueError("a CPU at half a megahertz")

    assert look_within(look, 30).problems == ("hardware detection failed: ValueError: a CPU at half a megahertz",)
