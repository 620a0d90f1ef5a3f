"""NVIDIA's GPUs: by its management library in a process of its own, else by `nvidia-smi`.

The library calls into the driver, and a driver that hangs takes the caller with it: never in the agent's own process.
"""

import os
import re
import sys
from xml.etree import ElementTree

import msgspec

from lattice.agent.discovery.found import FoundGpus, has_display_or_accelerator
from lattice.agent.discovery.tools import ToolFailed, ToolHung, find_tool, run_tool
from lattice.agent.discovery.tree import Tree
from lattice.core.model.nodes.gpus import GpuLink, GpuLinkType, GpuVendor
from lattice.core.model.nodes.inventory import Gpu, GpuPartition

VENDOR_ID = "0x10de"
ASK_WITHIN_S = 15.0
NVLINK_GBPS = 25.0  # of one link where the driver does not say
PROBE = "lattice.agent.discovery.nvml_probe"
_MIG = re.compile(r"MIG\s+(\S+)\s+Device\s+(\d+):\s+\(UUID:\s+([^)]+)\)")
_GPU_LINE = re.compile(r"GPU\s+(\d+):")
_SPEED = re.compile(r"Link\s+\d+:\s+([\d.]+)\s*GB/s")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def is_present(tree: Tree) -> bool:
    """Whether there is such a device, or a driver that shows some other way."""
    if tree.exists("proc/driver/nvidia/version") or (tree.is_machine and tree.exists("dev/nvidiactl")):
        return True
    place = "sys/bus/pci/devices"
    return any(
        tree.text(f"{place}/{name}/vendor") == VENDOR_ID
        and has_display_or_accelerator(tree.text(f"{place}/{name}/class"))
        for name in tree.names(place)
    )


def find(tree: Tree) -> FoundGpus:
    if not tree.is_machine:
        return FoundGpus()
    try:
        return ask_library()
    except ToolFailed as error:
        first = f"NVIDIA's management library: {error}"
        if isinstance(error, ToolHung):
            return FoundGpus(problems=(first,))  # the other program asks the same driver
    try:
        return ask_program()
    except ToolFailed as error:
        return FoundGpus(problems=(first, f"nvidia-smi: {error}"))


def ask_library() -> FoundGpus:
    """Raises ToolFailed."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    said = run_tool([sys.executable, "-m", PROBE], ASK_WITHIN_S, extra={"PYTHONPATH": paths})
    try:
        found = msgspec.json.decode(said, type=FoundGpus)
    except msgspec.DecodeError as error:
        raise ToolFailed(str(error)) from error
    if found.problems:
        raise ToolFailed(found.problems[0])
    return found


def ask_program() -> FoundGpus:
    """Raises ToolFailed."""
    tool = find_tool("nvidia-smi")
    if tool is None:
        raise ToolFailed("not installed")
    found = read_log(run_tool([tool, "-q", "-x"], ASK_WITHIN_S))
    listing = run_tool([tool, "-L"], ASK_WITHIN_S).decode(errors="replace")
    found = with_partitions(found, listing)
    try:
        matrix = run_tool([tool, "topo", "-m"], ASK_WITHIN_S).decode(errors="replace")
        speeds = run_tool([tool, "nvlink", "-s"], ASK_WITHIN_S).decode(errors="replace")
    except ToolFailed:
        return found
    return msgspec.structs.replace(found, links=read_matrix(matrix, speeds))


def short_model(name: str) -> str:
    """`NVIDIA H100 80GB HBM3` is an H100 to everybody: the word with a number in it, else the whole name."""
    words = name.replace("NVIDIA", "").replace("Tesla", "").split()
    return next((word for word in words if re.fullmatch(r"[A-Z]{1,3}\d{1,4}[A-Z]?(-\S+)?", word)), "") or " ".join(
        words
    )


def plain_address(bus: str) -> str:
    """`00000000:3B:00.0` as the kernel writes it."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest.count(":") else bus.lower()


def read_log(document: bytes) -> FoundGpus:
    """The answer to `nvidia-smi -q -x`. Raises ToolFailed."""
    try:
        # The document comes from the vendor's own program.
        log = ElementTree.fromstring(document)  # noqa: S314
    except ElementTree.ParseError as error:
        raise ToolFailed(f"unreadable answer: {error}") from error
    driver = _said(log, "driver_version")
    gpus = tuple(_gpu(place, each) for place, each in enumerate(log.iter("gpu")))
    return FoundGpus(gpus=gpus, drivers={"nvidia": driver} if driver else {}, sources=("nvidia-smi",))


def _said(element: ElementTree.Element, path: str) -> str:
    text = (element.findtext(path) or "").strip()
    return "" if text in {"N/A", "[N/A]", "None"} else text


def _gpu(place: int, element: ElementTree.Element) -> Gpu:
    model = short_model(_said(element, "product_name"))
    parts = tuple(
        GpuPartition(
            memory_bytes=_mib(_said(part, "fb_memory_usage/total")),
            gpu_instance=_number(_said(part, "gpu_instance_id")),
            compute_instance=_number(_said(part, "compute_instance_id")),
        )
        for part in element.findall("mig_devices/mig_device")
    )
    return Gpu(
        index=place,
        vendor=GpuVendor.NVIDIA,
        model=model,
        uuid=_said(element, "uuid"),
        memory_bytes=_mib(_said(element, "fb_memory_usage/total")),
        firmware=_said(element, "vbios_version"),
        pci_address=plain_address(_said(element, "pci/pci_bus_id") or element.get("id", "")),
        partitions=parts,
    )


def _number(text: str) -> int:
    return int(text) if text.isdigit() else -1


def _mib(text: str) -> int:
    number = text.partition(" ")[0]
    return int(number) << 20 if number.isdigit() else 0


def with_partitions(found: FoundGpus, listing: str) -> FoundGpus:
    """Names of MIG instances, which only `nvidia-smi -L` tells."""
    named: dict[int, list[tuple[str, str]]] = {}
    gpu = -1
    for line in listing.splitlines():
        if begin := _GPU_LINE.match(line):
            gpu = int(begin.group(1))
        elif part := _MIG.search(line):
            named.setdefault(gpu, []).append((part.group(1), part.group(3)))
    gpus = []
    for each in found.gpus:
        names = named.get(each.index, [])
        logged = [*each.partitions, *[GpuPartition()] * len(names)]
        parts = tuple(
            msgspec.structs.replace(logged[place], profile=profile, uuid=uuid)
            for place, (profile, uuid) in enumerate(names)
        )
        gpus.append(msgspec.structs.replace(each, partitions=parts))
    return msgspec.structs.replace(found, gpus=tuple(gpus))


def read_matrix(matrix: str, speeds: str) -> tuple[GpuLink, ...]:
    """Pairs that are joined by NVLink in the table of `nvidia-smi topo -m`; `speeds` is what `nvidia-smi nvlink -s` says."""
    told = [float(found) for found in _SPEED.findall(speeds)]
    one = max(told, default=NVLINK_GBPS)
    rows = [_COLOURS.sub("", line).split() for line in matrix.splitlines()]
    columns = next((row for row in rows if row and row[0] == "GPU0" and "X" not in row), [])
    links = []
    for row in rows:
        if len(row) < 2 or not row[0].startswith("GPU") or not row[0][3:].isdigit() or row is columns:
            continue
        a = int(row[0][3:])
        for name, cell in zip(columns, row[1:], strict=False):
            if not name.startswith("GPU") or not name[3:].isdigit() or int(name[3:]) <= a:
                continue
            if cell.startswith("NV") and cell[2:].isdigit():
                links.append(_link(a, int(name[3:]), int(cell[2:]) * one))
    return tuple(links)


def _link(a: int, b: int, gbps: float) -> GpuLink:
    return GpuLink(gpu_a=a, gpu_b=b, link_type=GpuLinkType.NVLINK, bandwidth_gbps=round(gbps, 1))
