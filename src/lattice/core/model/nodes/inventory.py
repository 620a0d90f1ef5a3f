"""What a node is made of, and which parts of that make two nodes alike (`docs/architecture/nodes.md`).

`components` decides what counts: versions of what runs below the work, never serial numbers, addresses or sizes. Two nodes with
the same components have the same fingerprint and belong to one conformance group.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lattice.core.model.nodes.conformance import fingerprint
from lattice.core.model.nodes.gpus import GpuDevice, GpuLink, GpuTopology, GpuVendor
from lattice.core.model.nodes.memory import MemoryTopology

MAX_DOCUMENT_BYTES = 256 << 10
MAX_COMPONENT = 4096
MAX_COMPONENTS = 256
MAX_NAME = 128

# Boot parameters that differ from node to node by nature: where it boots from, who it is, where its console is logged.
_OWN_PARAMETERS = frozenset(
    {
        *(
            "ip",
            "nameserver",
            "ifname",
            "bootdev",
            "bootif",
            "bootserver",
            "nfsaddrs",
            "macaddress",
            "vlan",
            "bond",
            "route",
        ),
        *(
            "hostname",
            "systemd.hostname",
            "rd.hostname",
            "systemd.machine_id",
            "xname",
            "nid",
            "ds",
            "cloud-init",
            "uuid",
        ),
        *(
            "boot_image",
            "resume",
            "netroot",
            "rd.iscsi.initiator",
            "rd.luks.uuid",
            "rd.lvm.lv",
            "rd.lvm.vg",
            "rd.md.uuid",
        ),
        *("rd.znet", "netconsole"),
    }
)
_OWN_ROOT = re.compile(r"(part)?(uuid|label)=|/dev/|iscsi:|nbd", re.IGNORECASE)


class Cpus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`cores` and `threads` of the whole node; `mhz` is the highest clock rate, 0 if unknown."""

    model: str = ""
    vendor: str = ""
    architecture: str = ""
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    mhz: int = 0
    microcode: str = ""


class GpuPartition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One instance of a partitioned GPU."""

    profile: str = ""
    uuid: str = ""
    memory_bytes: int = 0
    gpu_instance: int = -1  # as the driver numbers it; -1 = not known
    compute_instance: int = -1
    devices: tuple[str, ...] = ()


class Gpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    index: int
    vendor: GpuVendor
    model: str = ""
    uuid: str = ""
    memory_bytes: int = 0
    compute_capability: str = ""
    firmware: str = ""  # VBIOS
    pci_address: str = ""
    numa_node: int | None = None  # whose CPUs are nearest
    nic: str = ""  # the nearest network interface
    memory_node: int | None = None  # the NUMA node that is this GPU's own memory, where it has one
    partitions: tuple[GpuPartition, ...] = ()
    devices: tuple[str, ...] = ()  # its own device files


class Nic(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str
    driver: str = ""
    firmware: str = ""
    speed_mbps: int = 0
    numa_node: int | None = None
    pci_address: str = ""
    kind: str = ""  # ethernet, infiniband


class Board(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The machine as its firmware describes it, without serial numbers."""

    vendor: str = ""
    product: str = ""
    board_vendor: str = ""
    board: str = ""
    board_version: str = ""
    bios_vendor: str = ""
    bios_version: str = ""
    bios_date: str = ""
    bmc_version: str = ""


class Drive(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str
    model: str = ""
    firmware: str = ""
    size_bytes: int = 0


class Scratch(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    path: str
    filesystem: str = ""
    size_bytes: int = 0


class Software(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`boot_parameters` of the kernel without secrets; `base_image` identifies the node's image."""

    os: str = ""
    kernel: str = ""
    kernel_build: str = ""
    boot_parameters: str = ""
    base_image: str = ""


class Inventory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`drivers` of GPUs by vendor; `runtimes` by name with their versions, empty = present; `problems` = what could not be read."""

    cpus: Cpus = Cpus()
    memory_mb: int = 0
    swap_mb: int = 0
    memory: MemoryTopology = MemoryTopology()
    gpus: tuple[Gpu, ...] = ()
    gpu_links: tuple[GpuLink, ...] = ()
    drivers: dict[str, str] = {}
    nics: tuple[Nic, ...] = ()
    board: Board = Board()
    software: Software = Software()
    drives: tuple[Drive, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    runtimes: dict[str, str] = {}
    sources: tuple[str, ...] = ()  # sysfs, hwloc, nvml, nvidia-smi, rocm-smi, file
    problems: tuple[str, ...] = ()

    def problem(self) -> str:
        """What is wrong with it; empty when it can be used."""
        whole = GpuTopology(
            gpus=tuple(_device(gpu, gpu.index, None) for gpu in self.gpus),
            links=self.gpu_links,
        )
        return whole.problem() or self.memory.problem()


class UnusableInventory(ValueError):
    """Not a document that describes a node; the text says why."""


def encode_inventory(inventory: Inventory) -> bytes:
    """The document, the same bytes for the same inventory."""
    return msgspec.json.encode(inventory, order="deterministic")


def decode_inventory(document: bytes) -> Inventory:
    """Raises UnusableInventory for what is too long, not JSON, or contradicts itself."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise UnusableInventory(f"{len(document)} bytes; at most {MAX_DOCUMENT_BYTES} are taken")
    try:
        inventory = msgspec.json.decode(document, type=Inventory)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableInventory(str(error)) from error
    problem = inventory.problem()
    if problem:
        raise UnusableInventory(problem)
    return inventory


def components(inventory: Inventory) -> dict[str, str]:
    """What counts for the fingerprint, by name; what is not known is absent.

    GPU drivers and firmware, firmware of network interfaces, BIOS and BMC, kernel and boot parameters, the base image, and
    the kinds of memory.
    """
    board, software = inventory.board, inventory.software
    found = {
        **{f"gpu_driver.{vendor}": version for vendor, version in inventory.drivers.items()},
        **_versions("gpu_firmware", ((gpu.model or gpu.vendor, gpu.firmware) for gpu in inventory.gpus)),
        **_versions("nic_firmware", ((nic.driver or "unknown", nic.firmware) for nic in inventory.nics)),
        "bios": " ".join(filter(None, (board.bios_vendor, board.bios_version))),
        "bmc": board.bmc_version,
        "kernel": " ".join(filter(None, (software.kernel, software.kernel_build))),
        "boot_parameters": shared_parameters(software.boot_parameters),
        "base_image": software.base_image,
        "memory": _memory_kinds(inventory.memory),
    }
    # They come to stand in the log, in reasons and on screens, whatever a node says.
    kept = sorted((name, value) for name, value in found.items() if value)[:MAX_COMPONENTS]
    return {_line(name, MAX_NAME): _line(value, MAX_COMPONENT) for name, value in kept}


def _line(text: str, most: int) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:most])


def inventory_fingerprint(inventory: Inventory) -> str:
    """Empty for an inventory that says nothing of what counts."""
    found = components(inventory)
    return fingerprint(found) if found else ""


def shared_parameters(parameters: str) -> str:
    """The boot parameters that nodes of one kind have in common, by name; repeated ones keep their order.

    What stands behind `--` is for the first process, not for the kernel, and does not count.
    """
    words = f"{parameters} ".partition(" -- ")[0].split()
    return " ".join(sorted((word for word in words if not _is_own(word)), key=lambda word: word.partition("=")[0]))


def _is_own(word: str) -> bool:
    name, _, value = word.partition("=")
    if name in {"root", "rootflags", "boot"} and _OWN_ROOT.match(value):
        return True
    return name.lower() in _OWN_PARAMETERS


def _versions(prefix: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By kind, the different versions; how many devices have each does not matter."""
    by_kind: dict[str, set[str]] = {}
    for kind, version in pairs:
        if version:
            by_kind.setdefault(kind, set()).add(version)
    return {f"{prefix}.{kind}": ", ".join(sorted(found)) for kind, found in by_kind.items()}


def _memory_kinds(memory: MemoryTopology) -> str:
    kinds = [domain.domain_type.value for domain in memory.domains if domain.part_of is None]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))


def gpu_topology(inventory: Inventory) -> GpuTopology:
    """The GPUs that can be given out: an instance of a partitioned GPU is a device of its own, numbered behind the GPUs."""
    devices: list[GpuDevice] = []
    near: dict[int, str] = {}
    next_index = max((gpu.index for gpu in inventory.gpus), default=-1) + 1
    for gpu in inventory.gpus:
        own = [_device(gpu, next_index + place, part) for place, part in enumerate(gpu.partitions)]
        next_index += len(own)
        own = own or [_device(gpu, gpu.index, None)]
        devices += own
        if gpu.nic:
            near |= dict.fromkeys((device.index for device in own), gpu.nic)
    whole = {device.index for device in devices}
    links = tuple(link for link in inventory.gpu_links if {link.gpu_a, link.gpu_b} <= whole)
    return GpuTopology(gpus=tuple(devices), links=links, nic_affinity=near)


def memory_topology(inventory: Inventory) -> MemoryTopology:
    """The memory as the devices of `gpu_topology` lie in it."""
    given: dict[int, tuple[int, ...]] = {}
    next_index = max((gpu.index for gpu in inventory.gpus), default=-1) + 1
    for gpu in inventory.gpus:
        given[gpu.index] = tuple(range(next_index, next_index + len(gpu.partitions))) or (gpu.index,)
        next_index += len(gpu.partitions)
    domains = tuple(
        replace(domain, attached_gpus=tuple(device for gpu in domain.attached_gpus for device in given.get(gpu, ())))
        for domain in inventory.memory.domains
    )
    return replace(inventory.memory, domains=domains)


def _device(gpu: Gpu, index: int, part: GpuPartition | None) -> GpuDevice:
    return GpuDevice(
        index=index,
        vendor=gpu.vendor,
        model=f"{gpu.model} {part.profile}".strip() if part else gpu.model,
        memory_bytes=part.memory_bytes if part else gpu.memory_bytes,
        compute_capability=gpu.compute_capability,
        devices=part.devices if part else gpu.devices,
        partitioned=part is not None,
        uuid=part.uuid if part else gpu.uuid,
    )
