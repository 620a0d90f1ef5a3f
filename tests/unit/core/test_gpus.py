"""Which GPUs of a node go together."""

import msgspec
import pytest

from lattice.core.model.nodes.gpus import (
    GpuDevice,
    GpuLink,
    GpuLinkType,
    GpuSet,
    GpuTopology,
    GpuVendor,
    best_sets,
    choose_gpus,
    intra_node_fitness,
)

NVLINK, PCIE = 450.0, 64.0


def node(count: int, *islands: tuple[int, ...], nics: dict[int, str] | None = None) -> GpuTopology:
    """All pairs over PCIe, pairs of one island over NVLink."""
    links = [
        GpuLink(gpu_a=a, gpu_b=b, link_type=GpuLinkType.NVLINK if inside else GpuLinkType.PCIE, bandwidth_gbps=width)
        for a in range(count)
        for b in range(a + 1, count)
        for inside in [any(a in island and b in island for island in islands)]
        for width in [NVLINK if inside else PCIE]
    ]
    devices = tuple(GpuDevice(index=index, vendor=GpuVendor.NVIDIA, model="H100") for index in range(count))
    return GpuTopology(gpus=devices, links=tuple(links), nic_affinity=nics or {})


ALL_EIGHT = frozenset(range(8))


def test_gpus_of_one_island_are_taken_together() -> None:
    topology = node(8, (0, 1, 2, 3), (4, 5, 6, 7))
    assert choose_gpus(topology, ALL_EIGHT, 4) == (0, 1, 2, 3)
    assert choose_gpus(topology, ALL_EIGHT - {1}, 4) == (4, 5, 6, 7)
    assert choose_gpus(topology, frozenset({0, 4, 5}), 2) == (4, 5)
    assert choose_gpus(topology, ALL_EIGHT, 5) == (0, 1, 2, 3, 4), "no island has five: the lowest"


def test_among_equals_those_near_one_network_interface_are_taken() -> None:
    topology = node(4, (0, 1, 2, 3), nics={1: "hsn0", 2: "hsn1", 3: "hsn1"})
    assert choose_gpus(topology, frozenset(range(4)), 2) == (2, 3)
    assert choose_gpus(topology, frozenset(range(4)), 1) == (1,)
    assert choose_gpus(topology, frozenset({0, 1, 2}), 2) == (1, 2)


def test_without_links_the_lowest_are_taken() -> None:
    assert choose_gpus(GpuTopology(), frozenset({5, 2, 7}), 2) == (2, 5)
    assert choose_gpus(GpuTopology(), frozenset(), 0) == ()


def test_more_than_are_free_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="3 GPUs wanted, 2 free"):
        choose_gpus(GpuTopology(), frozenset({0, 1}), 3)


def test_seventy_two_gpus_behind_one_switch_are_chosen_by_their_interfaces() -> None:
    topology = node(72, tuple(range(72)), nics={gpu: f"hsn{gpu % 18}" for gpu in range(70)})
    assert choose_gpus(topology, frozenset(range(72)), 4) == (0, 18, 36, 54)
    assert len(choose_gpus(topology, frozenset(range(72)), 71)) == 71


def test_large_islands_are_found_beyond_the_exact_search() -> None:
    islands = tuple(tuple(range(first, first + 8)) for first in range(0, 64, 8))
    topology = node(64, *islands)
    assert choose_gpus(topology, frozenset(range(3, 64)), 8) == tuple(range(8, 16))


def test_instances_of_a_partitioned_gpu_are_devices_like_others() -> None:
    devices = tuple(
        GpuDevice(index=i, vendor=GpuVendor.NVIDIA, model="1g.10gb", memory_bytes=10 << 30, partitioned=True)
        for i in range(7)
    )
    assert choose_gpus(GpuTopology(gpus=devices), frozenset(range(7)), 1) == (0,)


def test_fitness_is_the_slowest_link_against_the_fastest() -> None:
    topology = node(4, (0, 1), (2, 3))
    assert intra_node_fitness(topology, (0, 1)) == 1.0
    assert intra_node_fitness(topology, (3, 0)) == PCIE / NVLINK
    assert intra_node_fitness(topology, (2,)) == 1.0
    assert intra_node_fitness(GpuTopology(), (0, 1)) == 1.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"gpus": [{"index": 0, "vendor": "amd"}, {"index": 0, "vendor": "amd"}]}', "the same index"),
        ('{"gpus": [{"index": 0, "vendor": "amd"}], "links": [{"gpu_a": 0, "gpu_b": 3}]}', "GPU 0 and GPU 3"),
        ('{"gpus": [{"index": 0, "vendor": "amd"}], "nic_affinity": {"4": "hsn0"}}', "names GPU 4"),
        ('{"gpus": [{"index": 0, "vendor": "nvidia"}], "nic_affinity": {"0": "hsn0"}}', ""),
    ],
)
def test_what_contradicts_itself_is_named(text: str, problem: str) -> None:
    found = msgspec.json.decode(text, type=GpuTopology).problem()
    assert (problem in found) if problem else not found


def test_free_gpus_are_worth_what_the_best_set_of_each_size_is() -> None:
    topology = node(4, (0, 1), nics={1: "hsn0", 2: "hsn1", 3: "hsn1"})
    assert best_sets(topology, frozenset(range(4))) == (
        GpuSet(near=1, nics=1),
        GpuSet(gbps=NVLINK, near=1, nics=1),
        GpuSet(gbps=PCIE, near=3, nics=2),
        GpuSet(gbps=PCIE, near=3, nics=2),
    )
    assert best_sets(topology, frozenset({0, 2})) == (GpuSet(near=1, nics=1), GpuSet(gbps=PCIE, near=1, nics=1))
    assert best_sets(topology, frozenset()) == ()
    assert best_sets(GpuTopology(), frozenset(range(17))) == (), "too many to be worked out"


def test_the_slowest_link_counts_most_and_then_the_network() -> None:
    near = [GpuSet(gbps=450, near=2, nics=1), GpuSet(gbps=450, near=2, nics=2)]
    far = [GpuSet(gbps=450), GpuSet(gbps=64, near=2)]
    assert sorted([*far, *near], key=lambda each: each.order) == [*near, *far]
