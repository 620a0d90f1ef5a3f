"""What a node is made of."""

from msgspec import Struct, field


class Cpus(Struct, frozen=True, kw_only=True):
    """Of the whole node."""

    model: str = ""
    vendor: str = ""
    architecture: str = ""
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    mhz: int = 0
    microcode: str = ""


class MemoryDomain(Struct, frozen=True, kw_only=True):
    """`domain_type`: dram, hbm, cxl_attached or unified; `part_of` names the domain that contains this one."""

    id: int
    domain_type: str = "dram"
    capacity_bytes: int = 0
    numa_node: int | None = None
    attached_cpus: list[int] = []
    attached_gpus: list[int] = []
    part_of: int | None = None


class MemoryInterconnect(Struct, frozen=True, kw_only=True):
    domain_a: int
    domain_b: int
    link_type: str = "numa_link"
    bandwidth_gbps: float = 0.0
    latency_ns: int = 0


class MemoryTopology(Struct, frozen=True, kw_only=True):
    domains: list[MemoryDomain] = []
    interconnects: list[MemoryInterconnect] = []
    total_capacity_bytes: int = 0


class GpuPartition(Struct, frozen=True, kw_only=True):
    """One instance of a partitioned GPU."""

    profile: str = ""
    uuid: str = ""
    memory_bytes: int = 0
    gpu_instance: int = -1  # as the driver numbers it; -1 = not known
    compute_instance: int = -1
    devices: list[str] = []


class Gpu(Struct, frozen=True, kw_only=True):
    """`nic` is the nearest network interface, `memory_node` the NUMA node that is its own memory."""

    index: int
    vendor: str = ""
    model: str = ""
    uuid: str = ""
    memory_bytes: int = 0
    compute_capability: str = ""
    firmware: str = ""
    pci_address: str = ""
    numa_node: int | None = None
    nic: str = ""
    memory_node: int | None = None
    partitions: list[GpuPartition] = []
    devices: list[str] = []  # its own device files


class GpuLink(Struct, frozen=True, kw_only=True):
    gpu_a: int
    gpu_b: int
    link_type: str = "pcie"
    bandwidth_gbps: float = 0.0


class Nic(Struct, frozen=True, kw_only=True):
    name: str
    driver: str = ""
    firmware: str = ""
    speed_mbps: int = 0
    numa_node: int | None = None
    pci_address: str = ""
    kind: str = ""


class Board(Struct, frozen=True, kw_only=True):
    """What the firmware says of the machine."""

    vendor: str = ""
    product: str = ""
    board_vendor: str = ""
    board: str = ""
    board_version: str = ""
    bios_vendor: str = ""
    bios_version: str = ""
    bios_date: str = ""
    bmc_version: str = ""


class Software(Struct, frozen=True, kw_only=True):
    os: str = ""
    kernel: str = ""
    kernel_build: str = ""
    boot_parameters: str = ""
    base_image: str = ""


class Drive(Struct, frozen=True, kw_only=True):
    name: str
    model: str = ""
    firmware: str = ""
    size_bytes: int = 0


class Scratch(Struct, frozen=True, kw_only=True):
    path: str
    filesystem: str = ""
    size_bytes: int = 0


class Inventory(Struct, frozen=True, kw_only=True):
    """`drivers` of GPUs by vendor; `problems` is what the node could not read."""

    cpus: Cpus = field(default_factory=Cpus)
    memory_mb: int = 0
    swap_mb: int = 0
    memory: MemoryTopology = field(default_factory=MemoryTopology)
    gpus: list[Gpu] = []
    gpu_links: list[GpuLink] = []
    drivers: dict[str, str] = {}
    nics: list[Nic] = []
    board: Board = field(default_factory=Board)
    software: Software = field(default_factory=Software)
    drives: list[Drive] = []
    scratch: list[Scratch] = []
    runtimes: dict[str, str] = {}
    sources: list[str] = []
    problems: list[str] = []


class NodeInventory(Struct, frozen=True, kw_only=True):
    """`components` are the parts of the fingerprint; a stale fingerprint counts as unknown."""

    node: str
    fingerprint: str = ""
    components: dict[str, str] = {}
    received_at: str | None = None
    age_s: float = 0.0
    is_stale: bool = False
    inventory: Inventory = field(default_factory=Inventory)
