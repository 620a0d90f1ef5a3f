"""AMD's GPUs: `amd-smi` or `rocm-smi` where one is installed, for the rest the files of the driver."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from lattice.agent.discovery.devices import pci_address
from lattice.agent.discovery.found import FoundGpus
from lattice.agent.discovery.tools import ToolFailed, ToolHung, find_tool, run_tool
from lattice.agent.discovery.tree import Tree, numa_node
from lattice.core.model.nodes.gpus import GpuLink, GpuLinkType, GpuVendor
from lattice.core.model.nodes.inventory import Gpu

VENDOR_ID = "0x1002"
ASK_WITHIN_S = 15.0
QUESTIONS = (
    *("--showproductname", "--showuniqueid", "--showmeminfo", "vram", "--showdriverversion", "--showvbios"),
    *("--showbus", "--showtopo", "--json"),
)
_CARD = re.compile(r"card(\d+)$")
_LINK = re.compile(r"link type between drm devices (\d+) and (\d+)", re.IGNORECASE)
_KFD = "sys/class/kfd/kfd/topology/nodes"
_KFD_XGMI = 11
_KFD_PCIE = 2
XGMI_GBPS = 50.0  # of one link, if not reported
PCIE_GBPS = 32.0


def is_present(tree: Tree) -> bool:
    return bool(_cards(tree))


def find(tree: Tree) -> FoundGpus:
    """What a tool says, completed from the driver's files; those alone where there is no tool."""
    known = read_driver(tree)
    problems = []
    for name, questions, read in TOOLS if tree.is_machine else ():
        tool = find_tool(name)
        if tool is None:
            continue
        try:
            return _merged(known, read(run_tool([tool, *questions], ASK_WITHIN_S)))
        except ToolHung as error:
            return msgspec.structs.replace(known, problems=(f"{name}: {error}",))  # the others ask the same driver
        except ToolFailed as error:
            problems.append(f"{name}: {error}")
    return msgspec.structs.replace(known, problems=tuple(problems))


def _merged(known: FoundGpus, told: FoundGpus) -> FoundGpus:
    by_address = {gpu.pci_address: gpu for gpu in known.gpus}
    gpus = tuple(_completed(gpu, by_address.get(gpu.pci_address)) for gpu in told.gpus)
    return FoundGpus(
        gpus=gpus,
        links=known.links if len(known.gpus) == len(gpus) and known.links else told.links,
        drivers={**known.drivers, **told.drivers},
        sources=told.sources,
    )


def _completed(told: Gpu, known: Gpu | None) -> Gpu:
    if known is None:
        return told
    return msgspec.structs.replace(
        told,
        uuid=told.uuid or known.uuid,
        model=told.model or known.model,
        memory_bytes=told.memory_bytes or known.memory_bytes,
        firmware=told.firmware or known.firmware,
        numa_node=known.numa_node if told.numa_node is None else told.numa_node,
        compute_capability=told.compute_capability or known.compute_capability,
    )


def short_model(name: str) -> str:
    found = re.search(r"\b(MI\d{2,3}[A-Z]?|W\d{4}|RX \d{4}( XTX?)?)\b", name)
    return found.group() if found else name.removeprefix("AMD ").strip()


def read_answer(document: bytes) -> FoundGpus:
    """The JSON of `rocm-smi`. Raises ToolFailed."""
    try:
        said = msgspec.json.decode(document, type=dict[str, dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ToolFailed(f"unreadable answer: {error}") from error
    gpus = []
    for name, facts in said.items():
        if card := _CARD.match(name):
            gpus.append(_gpu(int(card.group(1)), {key.lower().rstrip(":"): str(value) for key, value in facts.items()}))
    gpus.sort(key=lambda gpu: gpu.index)
    system = said.get("system", {})
    driver = str(system.get("Driver version", ""))
    return FoundGpus(
        gpus=tuple(gpus),
        links=_links(system, {gpu.index for gpu in gpus}),
        drivers={"amd": driver} if driver else {},
        sources=("rocm-smi",),
    )


def read_static(document: bytes) -> FoundGpus:
    """The JSON of `amd-smi static`: a list of GPUs, in newer ones under a name. Raises ToolFailed."""
    try:
        said = msgspec.json.decode(document)
        rows = said["gpu_data"] if isinstance(said, dict) else said
        described = [msgspec.convert(row, dict[str, Any]) for row in rows]
        gpus = tuple(_static_gpu(place, row) for place, row in enumerate(described))
    except (msgspec.MsgspecError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolFailed(f"unreadable answer: {error}") from error
    drivers = {_told(row, "driver", "version") or _told(row, "driver", "driver_version") for row in described}
    versions = ", ".join(sorted(drivers - {""}))
    return FoundGpus(gpus=gpus, drivers={"amd": versions} if versions else {}, sources=("amd-smi",))


def _static_gpu(place: int, row: dict[str, Any]) -> Gpu:
    size = row.get("vram", {}).get("size", {})
    unit = {"MB": 20, "GB": 30}.get(size.get("unit", ""), 0) if isinstance(size, dict) else 0
    return Gpu(
        index=int(row.get("gpu", place)),
        vendor=GpuVendor.AMD,
        model=short_model(_told(row, "asic", "market_name")),
        memory_bytes=int(size["value"]) << unit if unit else 0,
        compute_capability=_told(row, "asic", "target_graphics_version"),
        firmware=_told(row, "vbios", "part_number") or _told(row, "ifwi", "part_number"),
        pci_address=_told(row, "bus", "bdf").lower(),
        numa_node=numa_node(_told(row, "numa", "node")),
    )


def _told(row: dict[str, Any], part: str, name: str) -> str:
    found = row.get(part)
    text = str(found.get(name, "")) if isinstance(found, dict) else ""
    return "" if text.upper() == "N/A" else text


def _gpu(index: int, facts: dict[str, str]) -> Gpu:
    def said(*names: str) -> str:
        found = next((facts[name] for name in names if facts.get(name)), "")
        return "" if found.upper() == "N/A" else found

    memory = said("vram total memory (b)")
    return Gpu(
        index=index,
        vendor=GpuVendor.AMD,
        model=short_model(said("card series", "device name", "card model")),
        uuid=_uuid(said("unique id")),
        memory_bytes=int(memory) if memory.isdigit() else 0,
        compute_capability=said("gfx version"),
        firmware=said("vbios version"),
        pci_address=said("pci bus").lower(),
        numa_node=numa_node(said("(topology) numa node")),
    )


def _uuid(unique_id: str) -> str:
    """As ROCm's runtime calls the device."""
    return f"GPU-{unique_id.removeprefix('0x').lower()}" if unique_id else ""


def _links(system: dict[str, Any], known: set[int]) -> tuple[GpuLink, ...]:
    links = []
    for key, value in system.items():
        pair = _LINK.search(key)
        if pair is None:
            continue
        a, b = int(pair.group(1)), int(pair.group(2))
        if a != b and {a, b} <= known:
            is_xgmi = str(value).upper() == "XGMI"
            kind = GpuLinkType.XGMI if is_xgmi else GpuLinkType.PCIE
            gbps = XGMI_GBPS if is_xgmi else PCIE_GBPS
            links.append(GpuLink(gpu_a=min(a, b), gpu_b=max(a, b), link_type=kind, bandwidth_gbps=gbps))
    return tuple(sorted(links, key=lambda link: (link.gpu_a, link.gpu_b)))


def _cards(tree: Tree) -> list[str]:
    """Cards of the driver, in the order of the kernel."""
    place = "sys/class/drm"
    return [
        name
        for name in tree.names(place)
        if _CARD.match(name) and tree.text(f"{place}/{name}/device/vendor") == VENDOR_ID
    ]


def read_driver(tree: Tree) -> FoundGpus:
    gpus = []
    for index, name in enumerate(_cards(tree)):
        place = f"sys/class/drm/{name}/device"
        gpus.append(
            Gpu(
                index=index,
                vendor=GpuVendor.AMD,
                model=short_model(tree.text(f"{place}/product_name")),
                uuid=_uuid(tree.text(f"{place}/unique_id")),
                memory_bytes=tree.number(f"{place}/mem_info_vram_total"),
                firmware=tree.text(f"{place}/vbios_version"),
                pci_address=pci_address(tree, place),
                numa_node=numa_node(tree.text(f"{place}/numa_node")),
            )
        )
    driver = tree.text("sys/module/amdgpu/version")
    return FoundGpus(gpus=tuple(gpus), links=_driver_links(tree, gpus), drivers={"amd": driver} if driver else {})


def _driver_links(tree: Tree, gpus: list[Gpu]) -> tuple[GpuLink, ...]:
    """What the compute driver knows of links; its nodes are found again by where they are on the bus."""
    by_place = {_location(gpu.pci_address): gpu.index for gpu in gpus}
    of_node = {}
    for name in filter(str.isdigit, tree.names(_KFD)):
        facts = _properties(tree, f"{_KFD}/{name}/properties")
        where = (facts.get("domain", 0), facts.get("location_id", -1))
        if facts.get("simd_count") and where in by_place:
            of_node[int(name)] = by_place[where]
    best: dict[tuple[int, int], GpuLink] = {}
    for node, index in of_node.items():
        for link in tree.names(f"{_KFD}/{node}/io_links"):
            facts = _properties(tree, f"{_KFD}/{node}/io_links/{link}/properties")
            other = of_node.get(facts.get("node_to", -1))
            kind = {_KFD_XGMI: GpuLinkType.XGMI, _KFD_PCIE: GpuLinkType.PCIE}.get(facts.get("type", 0))
            if other is not None and other > index and kind is not None:
                gbps = facts.get("max_bandwidth", 0) / 1000
                best[index, other] = GpuLink(gpu_a=index, gpu_b=other, link_type=kind, bandwidth_gbps=gbps)
    return tuple(best[pair] for pair in sorted(best))


def _location(address: str) -> tuple[int, int]:
    """Domain and bus, device, function in one number, as the compute driver writes it."""
    try:
        domain, bus, rest = address.split(":")
        device, function = rest.split(".")
        return int(domain, 16), int(bus, 16) << 8 | int(device, 16) << 3 | int(function, 16)
    except ValueError:
        return -1, -1


def _properties(tree: Tree, name: str) -> dict[str, int]:
    found = {}
    for line in tree.text(name).splitlines():
        key, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[key] = int(value)
    return found


# The newer one first.
TOOLS: tuple[tuple[str, tuple[str, ...], Callable[[bytes], FoundGpus]], ...] = (
    ("amd-smi", ("static", "--json"), read_static),
    ("rocm-smi", QUESTIONS, read_answer),
)
