"""Superchips: CPU and GPU with one coherent memory are one memory domain, whatever the kernel calls its parts.

They are known by the GPU's model. Of a GH200 or GB200 the CPU's memory and the GPU's, two NUMA nodes, become one domain; the
GPU's part stays visible inside it, behind its coherent link. An MI300A has one memory from the beginning.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from lattice.core.model.nodes.inventory import Gpu
from lattice.core.model.nodes.memory import (
    MemoryDomain,
    MemoryDomainType,
    MemoryInterconnect,
    MemoryLinkType,
    MemoryTopology,
)

_COHERENT = re.compile(r"\bG[HB]\d{3}\b", re.IGNORECASE)
_ONE_DIE = re.compile(r"\bMI\d{3}A\b", re.IGNORECASE)
# What the vendors state of their links between CPU and GPU; the chips do not tell.
_C2C_GBPS = 900.0
_C2C_LATENCY_NS = 100


def unify(memory: MemoryTopology, gpus: Sequence[Gpu]) -> MemoryTopology:
    """The memory with GPUs attached to their domains, and superchips as unified ones."""
    domains = {domain.id: domain for domain in memory.domains}
    links = list(memory.interconnects)
    for gpu in gpus:
        home = _home(domains, gpu)
        if home is None:
            continue
        domains[home.id] = home = replace(home, attached_gpus=(*home.attached_gpus, gpu.index))
        if _ONE_DIE.search(gpu.model):
            domains[home.id] = replace(home, domain_type=MemoryDomainType.UNIFIED)
        elif _COHERENT.search(gpu.model):
            links += _join(domains, home, gpu)
    return MemoryTopology(
        domains=tuple(domains[id] for id in sorted(domains)),
        interconnects=_without_repeats(links),
        total_capacity_bytes=sum(d.capacity_bytes for d in domains.values() if d.part_of is None),
    )


def _home(domains: dict[int, MemoryDomain], gpu: Gpu) -> MemoryDomain | None:
    """The domain whose CPUs are nearest; the only one, where nothing is reported."""
    with_cpus = [domain for domain in domains.values() if domain.attached_cpus]
    near = [domain for domain in with_cpus if gpu.numa_node is not None and domain.numa_node == gpu.numa_node]
    if near:
        return near[0]
    return with_cpus[0] if len(with_cpus) == 1 else None


def _join(domains: dict[int, MemoryDomain], home: MemoryDomain, gpu: Gpu) -> list[MemoryInterconnect]:
    """Makes the GPU's memory a part of its home and returns the link between the two."""
    own = _own_memory(domains, gpu)
    domains[home.id] = replace(
        home, domain_type=MemoryDomainType.UNIFIED, capacity_bytes=home.capacity_bytes + own.capacity_bytes
    )
    domains[own.id] = replace(own, domain_type=MemoryDomainType.HBM, attached_gpus=(gpu.index,), part_of=home.id)
    return [
        MemoryInterconnect(
            domain_a=home.id,
            domain_b=own.id,
            link_type=MemoryLinkType.COHERENT_FABRIC,
            bandwidth_gbps=_C2C_GBPS,
            latency_ns=_C2C_LATENCY_NS,
        )
    ]


def _own_memory(domains: dict[int, MemoryDomain], gpu: Gpu) -> MemoryDomain:
    """The NUMA node that is the GPU's memory, or a domain made up for it where the kernel shows none."""
    node = gpu.memory_node
    if node is not None and node in domains and not domains[node].attached_cpus:
        return domains[node]
    return MemoryDomain(id=max(domains) + 1, domain_type=MemoryDomainType.HBM, capacity_bytes=gpu.memory_bytes)


def _without_repeats(links: Sequence[MemoryInterconnect]) -> tuple[MemoryInterconnect, ...]:
    """Of each pair the last that was said: the coherent link, not the distance that the firmware gave."""
    by_pair = {(min(link.domain_a, link.domain_b), max(link.domain_a, link.domain_b)): link for link in links}
    return tuple(by_pair[pair] for pair in sorted(by_pair))
