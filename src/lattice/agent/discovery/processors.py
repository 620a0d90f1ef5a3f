"""CPUs and memory as the kernel shows them: how many, what kind, and which memory is near to which."""

from msgspec.structs import replace

from lattice.agent.discovery.tree import Tree, cpu_list
from lattice.core.model.nodes.inventory import Cpus
from lattice.core.model.nodes.memory import (
    MemoryDomain,
    MemoryDomainType,
    MemoryInterconnect,
    MemoryLinkType,
    MemoryTopology,
)

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
LOCAL_DISTANCE = 10
# The firmware gives distances as ratios. These make figures of them where it says nothing better.
LOCAL_LATENCY_NS = 80
LOCAL_BANDWIDTH_GBPS = 100.0


def read_cpus(tree: Tree) -> Cpus:
    info = _first_processor(tree.text("proc/cpuinfo"))
    online = cpu_list(tree.text(f"{_CPU}/online"))
    sockets, cores = set(), set()
    for cpu in online:
        place = f"{_CPU}/cpu{cpu}/topology"
        socket = tree.text(f"{place}/physical_package_id")
        sockets.add(socket)
        cores.add((socket, tree.text(f"{place}/die_id"), tree.text(f"{place}/core_id") or str(cpu)))
    khz = tree.number(f"{_CPU}/cpu0/cpufreq/cpuinfo_max_freq")
    return Cpus(
        model=info.get("model name") or info.get("cpu model") or info.get("cpu part", ""),
        vendor=info.get("vendor_id") or info.get("cpu implementer", ""),
        architecture=tree.text("proc/sys/kernel/arch"),
        sockets=len(sockets),
        cores=len(cores),
        threads=len(online),
        mhz=khz // 1000 or _whole(info.get("cpu mhz", "")),
        microcode=info.get("microcode", ""),
    )


def _whole(text: str) -> int:
    digits = text.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _first_processor(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def read_meminfo(tree: Tree) -> dict[str, int]:
    """Figures of /proc/meminfo, in kB."""
    found = {}
    for line in tree.text("proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def memory_used_mb() -> int:
    """Memory in use on this node, caches not counted."""
    figures: dict[str, int] = {}
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            name, _, rest = line.partition(b":")
            figures[name.decode()] = int(rest.split()[0])
            if name == b"MemAvailable":
                break
    return (figures["MemTotal"] - figures["MemAvailable"]) // 1024


def read_memory(tree: Tree) -> MemoryTopology:
    """One domain for each NUMA node that has CPUs or memory. One for all where the kernel knows no NUMA nodes."""
    nodes = [int(name[4:]) for name in tree.names(_NODE) if name.startswith("node") and name[4:].isdigit()]
    expanders = cxl_nodes(tree, nodes)
    domains = [domain for node in nodes if (domain := _domain(tree, node, expanders)) is not None]
    if not domains:
        total = read_meminfo(tree).get("MemTotal", 0) << 10
        cpus = cpu_list(tree.text(f"{_CPU}/online"))
        domains = [MemoryDomain(id=0, capacity_bytes=total, attached_cpus=cpus)] if total else []
    return MemoryTopology(
        domains=tuple(domains),
        interconnects=_interconnects(tree, domains),
        total_capacity_bytes=sum(domain.capacity_bytes for domain in domains),
    )


def with_total(memory: MemoryTopology, total_bytes: int) -> MemoryTopology:
    """A node that is brought up lazily says too little of its memory: the only domain has all that the machine has.

    With several it is unclear which one has the rest; they stay as reported.
    """
    if len(memory.domains) != 1 or memory.domains[0].capacity_bytes >= total_bytes:
        return memory
    return replace(
        memory,
        domains=(replace(memory.domains[0], capacity_bytes=total_bytes),),
        total_capacity_bytes=total_bytes,
    )


def _domain(tree: Tree, node: int, expanders: frozenset[int]) -> MemoryDomain | None:
    cpus = cpu_list(tree.text(f"{_NODE}/node{node}/cpulist"))
    capacity = _node_memory(tree, node)
    if not cpus and not capacity:
        return None
    kind = MemoryDomainType.DRAM
    if not cpus:
        kind = MemoryDomainType.CXL_ATTACHED if node in expanders else MemoryDomainType.HBM
    return MemoryDomain(id=node, domain_type=kind, capacity_bytes=capacity, numa_node=node, attached_cpus=cpus)


def _node_memory(tree: Tree, node: int) -> int:
    for line in tree.text(f"{_NODE}/node{node}/meminfo").splitlines():
        words = line.split()
        if "MemTotal:" in words and words[-2].isdigit():
            return int(words[-2]) << 10
    return 0


def cxl_nodes(tree: Tree, nodes: list[int]) -> frozenset[int]:
    """NUMA nodes that are memory behind CXL: those that a device-memory region of CXL was made a node of.

    Where the kernel has CXL memory devices and says nothing of their nodes, every node without CPUs counts.
    """
    devices = [name for name in tree.names("sys/bus/cxl/devices") if name.startswith("mem")]
    if not devices:
        return frozenset()
    told = set()
    for name in tree.names("sys/bus/dax/devices"):
        place = f"sys/bus/dax/devices/{name}"
        if "region" in tree.whole_target(place) or "cxl" in tree.whole_target(place):
            told.add(tree.number(f"{place}/target_node", -1))
    return frozenset(told & set(nodes) or nodes)


def _interconnects(tree: Tree, domains: list[MemoryDomain]) -> tuple[MemoryInterconnect, ...]:
    found = []
    for place, domain in enumerate(domains):
        distances = [int(word) for word in tree.text(f"{_NODE}/node{domain.id}/distance").split() if word.isdigit()]
        online = cpu_list(tree.text(f"{_NODE}/online")) or tuple(each.id for each in domains)
        by_node = dict(zip(online, distances, strict=False))
        for other in domains[place + 1 :]:
            distance = by_node.get(other.id, 0)
            if distance >= LOCAL_DISTANCE:
                found.append(_interconnect(domain, other, distance))
    return tuple(found)


def _interconnect(domain: MemoryDomain, other: MemoryDomain, distance: int) -> MemoryInterconnect:
    is_cxl = MemoryDomainType.CXL_ATTACHED in (domain.domain_type, other.domain_type)
    return MemoryInterconnect(
        domain_a=domain.id,
        domain_b=other.id,
        link_type=MemoryLinkType.CXL_SWITCH if is_cxl else MemoryLinkType.NUMA_LINK,
        bandwidth_gbps=round(LOCAL_BANDWIDTH_GBPS * LOCAL_DISTANCE / distance, 1),
        latency_ns=LOCAL_LATENCY_NS * distance // LOCAL_DISTANCE,
    )
