"""Devices inside a node are chosen as well as trying every set would choose them."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from lattice.core.model.nodes.gpus import GpuDevice, GpuLink, GpuTopology, GpuVendor, choose_gpus, intra_node_fitness
from lattice.core.model.nodes.memory import (
    MemoryDomain,
    MemoryInterconnect,
    MemoryTopology,
    choose_cpus,
    locality_fitness,
)


@st.composite
def gpu_topologies(draw: st.DrawFn, most: int = 8) -> GpuTopology:
    count = draw(st.integers(1, most))
    pairs = draw(st.lists(st.sampled_from([*combinations(range(count), 2)] or [(0, 0)]), max_size=40))
    widths = st.sampled_from([32.0, 64.0, 64.5, 450.0, 900.0])
    links = [GpuLink(gpu_a=b, gpu_b=a, bandwidth_gbps=draw(widths)) for a, b in pairs if a != b]
    nics = draw(st.dictionaries(st.integers(0, count - 1), st.sampled_from(["hsn0", "hsn1", "hsn2"])))
    gpus = tuple(GpuDevice(index=index, vendor=GpuVendor.NVIDIA) for index in range(count))
    return GpuTopology(gpus=gpus, links=tuple(links), nic_affinity=nics)


def slowest_link(topology: GpuTopology, gpus: tuple[int, ...]) -> float:
    slowest = float("inf")
    for pair in combinations(gpus, 2):
        found = [link.bandwidth_gbps for link in topology.links if {link.gpu_a, link.gpu_b} == set(pair)]
        slowest = min(slowest, max(found, default=0.0))
    return slowest


@given(gpu_topologies(), st.data())
def test_no_other_gpus_have_a_faster_slowest_link_or_are_nearer_to_the_network(
    topology: GpuTopology, data: st.DataObject
) -> None:
    free = data.draw(st.frozensets(st.sampled_from(topology.indices), min_size=1))
    count = data.draw(st.integers(0, len(free)))
    nics = topology.nic_affinity

    def worth(gpus: tuple[int, ...]) -> tuple[float, int, int]:
        near = [nics[gpu] for gpu in gpus if gpu in nics]
        return (slowest_link(topology, gpus), len(near), -len(set(near)))

    # The first of equals: combinations come in rising order.
    best = max(combinations(sorted(free), count), key=worth)
    assert choose_gpus(topology, free, count) == best


@given(gpu_topologies(24), st.data())
def test_on_large_nodes_the_choice_is_valid_and_the_same_each_time(topology: GpuTopology, data: st.DataObject) -> None:
    free = frozenset(topology.indices)
    count = data.draw(st.integers(0, len(free)))
    chosen = choose_gpus(topology, free, count)
    assert list(chosen) == sorted(set(chosen))
    assert len(chosen) == count
    assert free.issuperset(chosen)
    assert chosen == choose_gpus(topology, frozenset(reversed(topology.indices)), count)


@given(gpu_topologies(), st.data())
def test_fitness_lies_between_0_and_1_and_none_is_fitter_than_the_chosen(
    topology: GpuTopology, data: st.DataObject
) -> None:
    free = frozenset(topology.indices)
    count = data.draw(st.integers(0, len(free)))
    fitness = intra_node_fitness(topology, choose_gpus(topology, free, count))
    assert 0.0 <= fitness <= 1.0
    assert fitness == max(intra_node_fitness(topology, gpus) for gpus in combinations(sorted(free), count))


@st.composite
def memories(draw: st.DrawFn) -> MemoryTopology:
    """Domains of consecutive CPUs; GPU g hangs on domain g modulo their number."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    domains, first = [], 0
    for place, size in enumerate(sizes):
        gpus = tuple(range(place, 6, len(sizes)))
        domains.append(MemoryDomain(id=place, attached_cpus=tuple(range(first, first + size)), attached_gpus=gpus))
        first += size
    pairs = [*combinations(range(len(sizes)), 2)]
    links = [
        MemoryInterconnect(domain_a=a, domain_b=b, bandwidth_gbps=draw(st.sampled_from([20.0, 40.0]))) for a, b in pairs
    ]
    return MemoryTopology(domains=tuple(domains), interconnects=tuple(links))


@given(memories(), st.data())
def test_cpus_come_from_as_few_domains_as_any_choice_could_and_lie_as_near_to_the_gpus(
    memory: MemoryTopology, data: st.DataObject
) -> None:
    free = data.draw(st.frozensets(st.sampled_from(memory.cpus or (0,))))
    count = data.draw(st.integers(0, len(free)))
    gpus = data.draw(st.frozensets(st.integers(0, 5)))
    chosen = choose_cpus(memory, free, count, gpus)
    assert list(chosen) == sorted(set(chosen))
    assert len(chosen) == count
    assert free.issuperset(chosen)

    def used(cpus: tuple[int, ...]) -> list[MemoryDomain]:
        return [domain for domain in memory.domains if not set(cpus).isdisjoint(domain.attached_cpus)]

    def worth(cpus: tuple[int, ...]) -> tuple[int, int]:
        domains = used(cpus)
        return (-len(domains), sum(len(gpus.intersection(domain.attached_gpus)) for domain in domains))

    if memory.cpus and len(free) <= 10:
        assert worth(chosen) == max(worth(cpus) for cpus in combinations(sorted(free), count))
    assert 0.0 <= locality_fitness(memory, chosen, gpus) <= 1.0
