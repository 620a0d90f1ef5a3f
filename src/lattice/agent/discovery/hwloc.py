"""What hwloc says of a machine, from the XML of `lstopo`: memory domains with their CPUs, and where PCI devices hang."""

from collections.abc import Iterator
from xml.etree import ElementTree

from msgspec import Struct
from msgspec.structs import replace

from lattice.agent.discovery.processors import LOCAL_BANDWIDTH_GBPS, LOCAL_DISTANCE, LOCAL_LATENCY_NS
from lattice.agent.discovery.tools import run_tool
from lattice.core.model.nodes.memory import MemoryDomain, MemoryDomainType, MemoryInterconnect, MemoryTopology

ASK_WITHIN_S = 10.0
_KINDS = (
    ("CXL", MemoryDomainType.CXL_ATTACHED),
    ("HBM", MemoryDomainType.HBM),
    ("MCDRAM", MemoryDomainType.HBM),
    ("GPU", MemoryDomainType.HBM),
)


class UnreadableTopology(ValueError):
    """Not an XML document of hwloc."""


class SeenTopology(Struct, frozen=True, kw_only=True):
    """`pci_nodes`: the NUMA node of each PCI device that has one, by address."""

    memory: MemoryTopology = MemoryTopology()
    told_kinds: frozenset[int] = frozenset()  # domains of which hwloc named the kind
    pci_nodes: dict[str, int] = {}


def ask(tool: str) -> bytes:
    """Raises ToolFailed."""
    return run_tool([tool, "--of", "xml", "--whole-io"], ASK_WITHIN_S)


def read_topology(document: bytes) -> SeenTopology:
    """Raises UnreadableTopology."""
    try:
        # The document comes from a program of the node's own administrator.
        top = ElementTree.fromstring(document)  # noqa: S314
    except ElementTree.ParseError as error:
        raise UnreadableTopology(str(error)) from error
    if top.tag != "topology":
        raise UnreadableTopology(f"begins with <{top.tag[:40]}>")
    domains, told = [], set()
    for each in top.iter("object"):
        if each.get("type") == "NUMANode":
            domain, is_told = _domain(each)
            domains.append(domain)
            if is_told:
                told.add(domain.id)
    domains.sort(key=lambda domain: domain.id)
    memory = MemoryTopology(
        domains=tuple(domains),
        interconnects=_interconnects(top, {domain.id for domain in domains}),
        total_capacity_bytes=sum(domain.capacity_bytes for domain in domains),
    )
    return SeenTopology(memory=memory, told_kinds=frozenset(told), pci_nodes=dict(_pci_nodes(top, None)))


def merged(known: MemoryTopology, seen: SeenTopology) -> MemoryTopology:
    """hwloc's domains; kinds and distances from the kernel's files where hwloc has none."""
    if not seen.memory.domains:
        return known
    kinds = {domain.id: domain.domain_type for domain in known.domains}
    domains = tuple(
        domain
        if domain.id in seen.told_kinds
        else replace(domain, domain_type=kinds.get(domain.id, domain.domain_type))
        for domain in seen.memory.domains
    )
    ids = {domain.id for domain in domains}
    links = tuple(link for link in known.interconnects if {link.domain_a, link.domain_b} <= ids)
    return replace(seen.memory, domains=domains, interconnects=links or seen.memory.interconnects)


def cpu_set(text: str) -> tuple[int, ...]:
    """`0x1,0x0000000f`: words of 32 CPUs, the last one first."""
    mask = 0
    try:
        for word in text.split(","):
            mask = mask << 32 | int(word or "0", 16)
    except ValueError:
        return ()
    return tuple(bit for bit in range(min(mask.bit_length(), 1 << 16)) if mask >> bit & 1)


def _domain(node: ElementTree.Element) -> tuple[MemoryDomain, bool]:
    cpus = cpu_set(node.get("cpuset", ""))
    subtype = node.get("subtype", "")
    told = next((kind for word, kind in _KINDS if word in subtype.upper()), None)
    number = _number(node.get("os_index"))
    kind = told or (MemoryDomainType.DRAM if cpus else MemoryDomainType.HBM)
    return (
        MemoryDomain(
            id=number,
            domain_type=kind,
            capacity_bytes=_number(node.get("local_memory")),
            numa_node=number,
            attached_cpus=cpus,
        ),
        told is not None,
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _pci_nodes(element: ElementTree.Element, node: int | None) -> Iterator[tuple[str, int]]:
    """Devices below an object that has one NUMA node of its own."""
    inside = [_number(child.get("os_index")) for child in element if child.get("type") == "NUMANode"]
    node = inside[0] if len(inside) == 1 else node
    for child in element:
        if child.tag != "object":
            continue
        address = child.get("pci_busid")
        if address and child.get("type") == "PCIDev" and node is not None:
            yield address.lower(), node
        yield from _pci_nodes(child, node)


def _interconnects(top: ElementTree.Element, known: set[int]) -> tuple[MemoryInterconnect, ...]:
    found = []
    for matrix in top.iter("distances2"):
        if matrix.get("type") != "NUMANode" or "latency" not in matrix.get("name", "latency").lower():
            continue
        places = [_number(word) for part in matrix.iter("indexes") for word in (part.text or "").split()]
        values = [_number(word) for part in matrix.iter("u64values") for word in (part.text or "").split()]
        if len(values) != len(places) ** 2:
            continue
        for row, a in enumerate(places):
            for column in range(row + 1, len(places)):
                b, distance = places[column], values[row * len(places) + column]
                if {a, b} <= known and distance >= LOCAL_DISTANCE:
                    found.append(_interconnect(a, b, distance))
    return tuple(found)


def _interconnect(a: int, b: int, distance: int) -> MemoryInterconnect:
    return MemoryInterconnect(
        domain_a=a,
        domain_b=b,
        bandwidth_gbps=round(LOCAL_BANDWIDTH_GBPS * LOCAL_DISTANCE / distance, 1),
        latency_ns=LOCAL_LATENCY_NS * distance // LOCAL_DISTANCE,
    )
