"""The hardware that an agent declares: what it detects, unless its arguments override it.

An agent with a configured number of CPUs or GPUs shares the machine with other agents: it binds no CPUs and
assigns no devices beyond its own.
"""

import argparse
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from lattice.agent.discovery.discover import discover
from lattice.agent.discovery.hardware_file import HardwareFile
from lattice.agent.discovery.processors import read_meminfo
from lattice.agent.discovery.tree import Tree
from lattice.agent.runs.devices import NodeTopology, TopologyUnusable, read_topology
from lattice.core.model.nodes.gpus import GpuTopology
from lattice.core.model.nodes.inventory import Inventory, UnusableInventory, gpu_topology, memory_topology
from lattice.core.model.nodes.memory import MemoryTopology

FIRST_LOOK_WITHIN_S = 45.0


class BadHardware(Exception):
    """A hardware file is invalid, or contradicts the arguments."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    cpus: int
    memory_mb: int
    cxl_memory_mb: int
    gpus: int
    gpu_type: str
    topology: NodeTopology
    inventory: Inventory
    file: HardwareFile | None


def look_around(options: argparse.Namespace) -> Machine:
    """Raises BadHardware."""
    inventory = look_within(discover, FIRST_LOOK_WITHIN_S)
    file = HardwareFile(options.hardware.absolute()) if options.hardware else None
    try:
        inventory = file.laid_over(inventory) if file else inventory
        topology = read_topology(options.topology_file) if options.topology_file else _found(options, inventory)
    except (UnusableInventory, TopologyUnusable) as error:
        raise BadHardware(str(error)) from error
    gpus, memory = topology.gpus.gpus, topology.memory
    cxl_mb = options.cxl_memory_mb or memory.cxl_memory_mb
    return Machine(
        cpus=_agreed("cpus", options.cpus, len(memory.cpus)) or os.cpu_count() or 1,
        memory_mb=options.memory_mb or max(1, inventory.memory_mb - memory.cxl_memory_mb),
        cxl_memory_mb=cxl_mb,
        gpus=_agreed("gpus", options.gpus, len(gpus)),
        gpu_type=options.gpu_type or (gpus[0].model if gpus else ""),
        topology=topology,
        inventory=inventory,
        file=file,
    )


def look_within(look: Callable[[], Inventory], within_s: float) -> Inventory:
    """What can be detected in time; an agent also starts on a machine that cannot be inspected, and reports why."""
    found: list[Inventory] = []
    problems: list[str] = []

    def work() -> None:
        try:
            found.append(look())
        except Exception as error:  # noqa: BLE001 - strange hardware must not keep the agent from starting
            problems.append(f"hardware detection failed: {type(error).__name__}: {error}")

    thread = threading.Thread(target=work, name="inventory", daemon=True)
    thread.start()
    thread.join(within_s)
    if found:
        return found[0]
    told = problems or [f"hardware detection took more than {within_s:g} s"]
    return Inventory(memory_mb=read_meminfo(Tree()).get("MemTotal", 0) >> 10, problems=tuple(told))


def _found(options: argparse.Namespace, inventory: Inventory) -> NodeTopology:
    return NodeTopology(
        gpus=gpu_topology(inventory) if options.gpus is None else GpuTopology(),
        memory=memory_topology(inventory) if not options.cpus else MemoryTopology(),
    )


def _agreed(option: str, given: int | None, known: int) -> int:
    """The option's value, else that of the topology. Raises BadHardware if they differ."""
    if given and known and given != known:
        raise BadHardware(f"--{option} is {given}, but the topology file has {known}")
    return given or known
