"""The whole inventory of this machine, from all that is at hand. Blocks; bounded by the time-outs of the programs it asks."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from msgspec.structs import replace

from lattice.agent.discovery import amd, hwloc, nvidia
from lattice.agent.discovery.device_files import with_device_files
from lattice.agent.discovery.devices import pci_path, read_board, read_drives, read_nics
from lattice.agent.discovery.found import FoundGpus
from lattice.agent.discovery.processors import read_cpus, read_meminfo, read_memory, with_total
from lattice.agent.discovery.superchips import unify
from lattice.agent.discovery.system import read_runtimes, read_scratch, read_software, read_versions
from lattice.agent.discovery.tools import ToolFailed, find_tool
from lattice.agent.discovery.tree import Tree, numa_node
from lattice.core.model.nodes.gpus import GpuLink, GpuLinkType
from lattice.core.model.nodes.inventory import Gpu, Inventory, Nic

MACHINE = Tree()


def discover(tree: Tree = MACHINE) -> Inventory:
    """What can be known. A source that fails leaves its part out and is named in `problems`."""
    problems: list[str] = []
    sources = ["sysfs"]
    gpus = _gpus(tree, problems, sources)
    seen = _seen(tree, problems, sources)
    nics = read_nics(tree)
    figures = read_meminfo(tree)
    found = with_device_files(tree, near_nics(tree, _placed(tree, gpus.gpus, seen.pci_nodes), nics))
    return Inventory(
        cpus=read_cpus(tree),
        memory_mb=figures.get("MemTotal", 0) >> 10,
        swap_mb=figures.get("SwapTotal", 0) >> 10,
        memory=unify(with_total(hwloc.merged(read_memory(tree), seen), figures.get("MemTotal", 0) << 10), found),
        gpus=found,
        gpu_links=gpus.links or pcie_links(tree, found),
        drivers=gpus.drivers,
        nics=nics,
        board=read_board(tree),
        software=read_software(tree),
        drives=read_drives(tree),
        scratch=read_scratch(tree),
        runtimes=read_runtimes() if tree.is_machine else {},
        sources=tuple(sources),
        problems=tuple(problems),
    )


def complete(inventory: Inventory) -> Inventory:
    """The same with what takes longer to find out."""
    return replace(inventory, runtimes=read_versions(inventory.runtimes))


def _gpus(tree: Tree, problems: list[str], sources: list[str]) -> FoundGpus:
    """GPUs of all vendors in one numbering: that of their vendor's tools for one vendor, one after the other for several."""
    every = FoundGpus()
    for vendor in (nvidia, amd):
        if not vendor.is_present(tree):
            continue
        found = vendor.find(tree)
        problems += found.problems
        sources += found.sources
        every = every.joined(found)
    return every


def _seen(tree: Tree, problems: list[str], sources: list[str]) -> hwloc.SeenTopology:
    """What hwloc sees where it is installed; nothing otherwise."""
    tool = find_tool("lstopo-no-graphics") if tree.is_machine else None
    if tool is None:
        return hwloc.SeenTopology()
    try:
        seen = hwloc.read_topology(hwloc.ask(tool))
    except (ToolFailed, hwloc.UnreadableTopology) as error:
        problems.append(f"hwloc: {error}")
        return hwloc.SeenTopology()
    sources.append("hwloc")
    return seen


def _placed(tree: Tree, gpus: Iterable[Gpu], seen: Mapping[str, int]) -> tuple[Gpu, ...]:
    """With the NUMA node of each that the kernel or hwloc knows."""
    placed = []
    for gpu in gpus:
        near = numa_node(tree.text(f"sys/bus/pci/devices/{gpu.pci_address}/numa_node")) if gpu.pci_address else None
        near = seen.get(gpu.pci_address) if near is None else near
        placed.append(replace(gpu, numa_node=gpu.numa_node if near is None else near))
    return tuple(placed)


def pcie_links(tree: Tree, gpus: Sequence[Gpu]) -> tuple[GpuLink, ...]:
    """Where no vendor tool reported links: each pair by PCIe, slower over a longer path."""
    return tuple(
        GpuLink(
            gpu_a=a.index,
            gpu_b=b.index,
            link_type=GpuLinkType.PCIE,
            bandwidth_gbps=_pcie_gbps(tree, a, b),
        )
        for a, b in combinations(gpus, 2)
        if a.pci_address and b.pci_address
    )


def _pcie_gbps(tree: Tree, a: Gpu, b: Gpu) -> float:
    slowest = min(_lane_gbps(tree, gpu.pci_address) for gpu in (a, b))
    if a.numa_node is not None and b.numa_node is not None and a.numa_node != b.numa_node:
        return round(slowest / 2, 1)
    return round(slowest, 1)


def _lane_gbps(tree: Tree, address: str) -> float:
    """GB/s of the device's own link, as the kernel knows it: `32.0 GT/s PCIe` and a width."""
    place = f"sys/bus/pci/devices/{address}"
    words = tree.text(f"{place}/max_link_speed").split()
    try:
        transfers = float(words[0])
    except (IndexError, ValueError):
        return 0.0
    return transfers * tree.number(f"{place}/max_link_width") / 8


def near_nics(tree: Tree, gpus: Iterable[Gpu], nics: Sequence[Nic]) -> tuple[Gpu, ...]:
    """Each GPU with the interface with which it shares most of the way, or at least the NUMA node."""
    placed = []
    for gpu in gpus:
        ranked = [(_nearness(tree, gpu, nic), -place, nic.name) for place, nic in enumerate(nics)]
        nearness, _, name = max(ranked, default=(0, 0, ""))
        placed.append(replace(gpu, nic=name) if nearness else gpu)
    return tuple(placed)


def _nearness(tree: Tree, gpu: Gpu, nic: Nic) -> int:
    if not gpu.pci_address or not nic.pci_address:
        return 0
    one, other = pci_path(tree, gpu.pci_address), pci_path(tree, nic.pci_address)
    shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if shared:
        return 1 + shared
    return int(gpu.numa_node is not None and gpu.numa_node == nic.numa_node)
