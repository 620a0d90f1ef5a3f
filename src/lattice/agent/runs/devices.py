"""Which GPUs and CPUs of the node each live run has: chosen when it starts, kept in its folder, found there again.

A run learns its GPUs from its environment and bound to its CPUs by the shim. CPUs are bound only where the node's memory
domains are known and the machine has those CPUs, and never for a run that has all of them.
"""

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from lattice.core.model.nodes.gpus import GpuTopology, GpuVendor, choose_gpus, intra_node_fitness
from lattice.core.model.nodes.memory import Cores, MemoryTopology, choose_cpus
from lattice.ports.nodes.agents import RunKey, StartOrder

# All that steers which devices a run sees: what the submission exported was meant for other devices.
VISIBILITY = frozenset(
    {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
)
GPUS_VARIABLE = "LATTICE_GPUS"
CPUS_OF_MACHINE = Path("/sys/devices/system/cpu")
_AMD_TYPE = re.compile(r"MI\d", re.IGNORECASE)


def is_amd(gpu_type: str) -> bool:
    """Whether GPUs that are known by their type alone are AMD's."""
    return bool(_AMD_TYPE.match(gpu_type))


class TopologyUnusable(Exception):
    """The node's topology cannot be read or contradicts itself; the text says where."""


class NoDevices(Exception):
    """Fewer devices are free than the run was given; the text is for the user."""


class NodeTopology(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the inside of a node."""

    gpus: GpuTopology = GpuTopology()
    memory: MemoryTopology = MemoryTopology()


class Devices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one run has. No `gpus` = the node has none; no `cpus` = it is bound to none."""

    gpus: tuple[int, ...] | None = None
    cpus: tuple[int, ...] = ()


NOTHING = Devices()


def read_topology(path: Path) -> NodeTopology:
    """Raises TopologyUnusable."""
    try:
        topology = msgspec.json.decode(path.read_bytes(), type=NodeTopology)
    except OSError as error:
        raise TopologyUnusable(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise TopologyUnusable(f"{path}: {error}") from error
    problem = topology.gpus.problem() or topology.memory.problem()
    if problem:
        raise TopologyUnusable(f"{path}: {problem}")
    return topology


def read_cores(cpus: Collection[int], root: Path = CPUS_OF_MACHINE) -> Cores:
    """All CPUs of the core of each; where the kernel does not say, a CPU is a core."""
    cores = {}
    for cpu in cpus:
        try:
            told = (root / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
            cores[cpu] = tuple(sorted(number for part in told.split(",") for number in _span(part)))
        except (OSError, ValueError):
            cores[cpu] = (cpu,)
    return cores


def _span(part: str) -> range:
    first, _, last = part.strip().partition("-")
    return range(int(first), int(last or first) + 1)


class DeviceTable:
    """The devices of a node with `cpus` CPUs and `gpus` GPUs; `usable_cpus` are those that this machine has."""

    def __init__(
        self,
        cpus: int,
        gpus: int,
        gpu_type: str,
        topology: NodeTopology,
        usable_cpus: frozenset[int] | None = None,
        cores: Cores | None = None,
    ) -> None:
        self._topology = topology
        self.cpu_count = cpus
        self._gpus = frozenset(topology.gpus.indices or range(gpus))
        bindable = frozenset(topology.memory.cpus)
        self._cpus = bindable if bindable <= (usable_cpus or os.sched_getaffinity(0)) else frozenset()
        self._names = {device.index: device.uuid or str(device.index) for device in topology.gpus.gpus}
        self._vendors = {device.index: device.vendor for device in topology.gpus.gpus}
        if not self._vendors:
            self._vendors = dict.fromkeys(self._gpus, GpuVendor.AMD if is_amd(gpu_type) else GpuVendor.NVIDIA)
        self._cores = read_cores(self._cpus) if cores is None else cores
        self._held: dict[RunKey, Devices] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to give."""
        return not self._gpus and not self._cpus

    def recall(self, key: RunKey, devices: Devices) -> None:
        """A run that was started before has these."""
        self._held[key] = devices

    def of(self, key: RunKey) -> Devices | None:
        """What the run has, if it was given something."""
        return NOTHING if self.is_empty else self._held.get(key)

    def assign(self, order: StartOrder, is_alive: Callable[[RunKey], bool]) -> Devices:
        """The best free devices for the run; what is no longer alive has none. Raises NoDevices."""
        if self.is_empty:
            return NOTHING
        self._held = {key: devices for key, devices in self._held.items() if is_alive(key) and key != order.key}
        gpus = self._assign_gpus(order)
        self._held[order.key] = devices = Devices(gpus=gpus, cpus=self._assign_cpus(order, gpus or ()))
        return devices

    def _assign_gpus(self, order: StartOrder) -> tuple[int, ...] | None:
        if not self._gpus:
            return None
        # A server that says nothing of shares means the whole node.
        count = order.gpus if order.cpus else len(self._gpus)
        free = self._gpus.difference(*(devices.gpus or () for devices in self._held.values()))
        if count > len(free):
            raise NoDevices(f"{count} GPUs were assigned on this node, but {len(free)} of {len(self._gpus)} are free")
        if order.same_numa and (near := self._gpus_of_one_domain(free, count, order)):
            free = near
        return choose_gpus(self._topology.gpus, free, count)

    def _gpus_of_one_domain(self, free: frozenset[int], count: int, order: StartOrder) -> frozenset[int]:
        """The free GPUs of the domain that has room for the run's CPUs too; of several, the one with the best-linked GPUs."""
        free_cpus = self._free_cpus()
        fitting = [
            gpus
            for domain in self._topology.memory.domains
            if count <= len(gpus := free.intersection(domain.attached_gpus))
            and order.cpus <= len(free_cpus.intersection(domain.attached_cpus))
        ]
        links = self._topology.gpus
        return max(
            fitting, key=lambda gpus: intra_node_fitness(links, choose_gpus(links, gpus, count)), default=frozenset()
        )

    def _free_cpus(self) -> frozenset[int]:
        return self._cpus.difference(*(devices.cpus for devices in self._held.values()))

    def _assign_cpus(self, order: StartOrder, gpus: tuple[int, ...]) -> tuple[int, ...]:
        if not 0 < order.cpus < self.cpu_count:
            return ()
        free = self._free_cpus()
        # Too few when work runs that was started without: better unbound than on others' CPUs.
        if order.cpus > len(free):
            return ()
        return choose_cpus(self._topology.memory, free, order.cpus, gpus, self._cores)

    def free_gpus(self, is_alive: Callable[[RunKey], bool]) -> frozenset[int]:
        """Those that no living run has."""
        return self._gpus.difference(*(held.gpus or () for key, held in self._held.items() if is_alive(key)))

    @property
    def gpu_topology(self) -> GpuTopology:
        return self._topology.gpus

    @property
    def gpu_count(self) -> int:
        return len(self._gpus)

    @property
    def memory(self) -> MemoryTopology:
        return self._topology.memory

    def cpus_of(self, devices: Devices, order: StartOrder) -> tuple[int, ...]:
        """The CPUs that the run may use, also where it has all of them and is not bound; empty where they are not known."""
        has_all = not 0 < order.cpus < self.cpu_count
        return devices.cpus or (tuple(sorted(self._cpus)) if has_all else ())

    def environment(self, devices: Devices) -> dict[str, str]:
        """What tells the run which GPUs are its own; nothing on a node without."""
        if devices.gpus is None:
            return {}
        told = {GPUS_VARIABLE: ",".join(map(str, devices.gpus))}
        for vendor in sorted(set(self._vendors.values())):
            own = [gpu for gpu in devices.gpus if self._vendors.get(gpu) is vendor]
            visible = ",".join(self._names.get(gpu, str(gpu)) for gpu in own)
            if vendor is GpuVendor.AMD:
                told["ROCR_VISIBLE_DEVICES"] = visible
            else:
                told |= {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return told
