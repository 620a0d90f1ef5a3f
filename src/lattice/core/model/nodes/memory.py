"""Memory of one node by domain, and which CPUs go together best.

`choose_cpus` is asked by a node for its own CPUs, so nothing here may need more than the standard library. A CPU
belongs to the first domain that lists it; domains without CPUs of their own (HBM, CXL) choose nothing.
See docs/architecture/nodes.md.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from msgspec import Struct

EXACT_UP_TO = 12  # domains; beyond, those with most free CPUs are taken


class MemoryDomainType(StrEnum):
    DRAM = "dram"
    HBM = "hbm"
    CXL_ATTACHED = "cxl_attached"
    UNIFIED = "unified"


class MemoryLinkType(StrEnum):
    NUMA_LINK = "numa_link"
    CXL_SWITCH = "cxl_switch"
    COHERENT_FABRIC = "coherent_fabric"


class MemoryDomain(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`part_of` names the enclosing domain, whose capacity includes this one's."""

    id: int
    domain_type: MemoryDomainType = MemoryDomainType.DRAM
    capacity_bytes: int = 0
    numa_node: int | None = None
    attached_cpus: tuple[int, ...] = ()
    attached_gpus: tuple[int, ...] = ()
    part_of: int | None = None


class MemoryInterconnect(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    domain_a: int
    domain_b: int
    link_type: MemoryLinkType = MemoryLinkType.NUMA_LINK
    bandwidth_gbps: float = 0.0
    latency_ns: int = 0


class MemoryTopology(Struct, frozen=True, kw_only=True, omit_defaults=True):
    domains: tuple[MemoryDomain, ...] = ()
    interconnects: tuple[MemoryInterconnect, ...] = ()
    total_capacity_bytes: int = 0

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(sorted({cpu for domain in self.domains for cpu in domain.attached_cpus}))

    @property
    def is_unified(self) -> bool:
        """Whether CPUs and GPUs share one memory here."""
        return any(domain.domain_type is MemoryDomainType.UNIFIED for domain in self.domains)

    @property
    def cxl_memory_mb(self) -> int:
        return sum(d.capacity_bytes for d in self.domains if d.domain_type is MemoryDomainType.CXL_ATTACHED) >> 20

    def problem(self) -> str:
        """What is wrong with it; empty when it can be used."""
        known = {domain.id for domain in self.domains}
        if len(known) < len(self.domains):
            return "two memory domains have the same id"
        if any(cpu < 0 for cpu in self.cpus):
            return "a CPU has a negative number"
        for link in self.interconnects:
            if link.domain_a == link.domain_b or not {link.domain_a, link.domain_b} <= known:
                return f"an interconnect joins {link.domain_a} and {link.domain_b}, which are not two memory domains"
        return ""


@dataclass(frozen=True, slots=True)
class _Place:
    """A domain as far as its free CPUs go."""

    id: int
    free: tuple[int, ...]
    near: int  # of the chosen GPUs


Cores = Mapping[int, tuple[int, ...]]  # to each CPU all CPUs of its core
NO_CORES: Cores = {}


def choose_cpus(
    memory: MemoryTopology,
    free_cpus: Collection[int],
    count: int,
    near_gpus: Collection[int] = (),
    cores: Cores = NO_CORES,
) -> tuple[int, ...]:
    """`count` free CPUs out of as few domains as possible, in rising order.

    Among those, the domains nearest to the GPUs, then the best linked ones, then the fullest ones, then the lowest. Inside a domain
    whole cores come first, so that as few cores as possible are shared with others; what is left over comes from cores that others
    use already. Raises ValueError when fewer are free.
    """
    if count > len(free_cpus):
        raise ValueError(f"{count} CPUs wanted, {len(free_cpus)} free")
    if count <= 0:
        return ()
    places = _places(memory, free_cpus, frozenset(near_gpus))
    fewest = _fewest(places, count)
    if len(places) <= EXACT_UP_TO:
        links = {frozenset((link.domain_a, link.domain_b)): link.bandwidth_gbps for link in memory.interconnects}
        candidates = (set_ for set_ in combinations(places, fewest) if sum(len(p.free) for p in set_) >= count)
        chosen = min(candidates, key=lambda set_: _key(set_, links))
    else:
        chosen = tuple(sorted(places, key=lambda place: (-len(place.free), -place.near, place.id))[:fewest])
    taken: list[int] = []
    for place in sorted(chosen, key=lambda place: (-place.near, -len(place.free), place.id)):
        taken += _by_cores(place.free, count - len(taken), cores)
    return tuple(sorted(taken))


def locality_fitness(memory: MemoryTopology, cpus: Collection[int], gpus: Collection[int]) -> float:
    """The share of the CPUs and GPUs that lie in one domain, at the best; 1 for nothing at all."""
    total = len(cpus) + len(gpus)
    inside = [len({*d.attached_cpus} & {*cpus}) + len({*d.attached_gpus} & {*gpus}) for d in memory.domains]
    return max(inside, default=0) / total if total else 1.0


def _places(memory: MemoryTopology, free_cpus: Collection[int], gpus: frozenset[int]) -> list[_Place]:
    """Domains with free CPUs, by id; CPUs that no domain lists are one more, behind the others."""
    left = set(free_cpus)
    domains = sorted(memory.domains, key=lambda domain: domain.id)
    places = []
    for domain in domains:
        own = left.intersection(domain.attached_cpus)
        left -= own
        if own:
            around = [d for d in domains if not own.isdisjoint(d.attached_cpus)]
            near = gpus.intersection(gpu for d in around for gpu in d.attached_gpus)
            places.append(_Place(domain.id, tuple(sorted(own)), len(near)))
    if left:
        places.append(_Place(domains[-1].id + 1 if domains else 0, tuple(sorted(left)), 0))
    return places


def _by_cores(free: tuple[int, ...], count: int, cores: Cores) -> tuple[int, ...]:
    """The first `count` of the free CPUs, by whole cores where these are known."""
    if count >= len(free) or not cores:
        return free[:count]
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu in free:
        groups.setdefault(cores.get(cpu, (cpu,)), []).append(cpu)
    whole = [group for core, group in groups.items() if len(group) == len(core)]
    broken = sorted(
        (group for core, group in groups.items() if len(group) < len(core)), key=lambda group: (len(group), group)
    )
    taken: list[int] = []
    for group in list(whole):
        if len(group) <= count - len(taken):
            taken += group
            whole.remove(group)
    for group in (*broken, *whole):
        taken += group[: count - len(taken)]
    return tuple(sorted(taken))


def _fewest(places: Iterable[_Place], count: int) -> int:
    """How many domains it takes: that of the largest ones."""
    fewest = 0
    for size in sorted((len(place.free) for place in places), reverse=True):
        if count <= 0:
            break
        count -= size
        fewest += 1
    return fewest


def _key(places: tuple[_Place, ...], links: dict[frozenset[int], float]) -> tuple[int, float, int, tuple[int, ...]]:
    slowest = min((links.get(frozenset((a.id, b.id)), 0.0) for a, b in combinations(places, 2)), default=0.0)
    return (
        -sum(place.near for place in places),
        -slowest,
        sum(len(place.free) for place in places),
        tuple(place.id for place in places),
    )
