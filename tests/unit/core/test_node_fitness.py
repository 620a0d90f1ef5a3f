"""How well GPUs of one node fit together, by links and by memory."""

import pytest

from lattice.core.model.nodes.fitness import GpuFitness, gpu_fitness
from lattice.core.model.nodes.gpus import GpuDevice, GpuLink, GpuTopology, GpuVendor
from lattice.core.model.nodes.memory import MemoryDomain, MemoryTopology


def gpus(*links: tuple[int, int, float], count: int = 4) -> GpuTopology:
    return GpuTopology(
        gpus=tuple(GpuDevice(index=index, vendor=GpuVendor.NVIDIA) for index in range(count)),
        links=tuple(GpuLink(gpu_a=a, gpu_b=b, bandwidth_gbps=gbps) for a, b, gbps in links),
    )


PAIRS = gpus((0, 1, 400.0), (2, 3, 400.0), (0, 2, 40.0), (0, 3, 40.0), (1, 2, 40.0), (1, 3, 40.0))
SOCKETS = MemoryTopology(
    domains=(
        MemoryDomain(id=0, attached_cpus=(0, 1, 2, 3), attached_gpus=(0, 1)),
        MemoryDomain(id=1, attached_cpus=(4, 5, 6, 7), attached_gpus=(2, 3)),
    )
)


def test_a_pair_on_one_socket_is_perfect_and_all_of_two_sockets_are_not() -> None:
    fitness = gpu_fitness(PAIRS, SOCKETS)
    assert (fitness[1], fitness[2]) == (GpuFitness(), GpuFitness())
    assert fitness[4] == pytest.approx((0.1, 0.5))
    assert fitness[3].links < 1.0


def test_what_is_not_known_is_no_fault() -> None:
    assert gpu_fitness(gpus(count=2), MemoryTopology()) == {1: GpuFitness(), 2: GpuFitness()}
    assert gpu_fitness(GpuTopology(), SOCKETS) == {}
    assert gpu_fitness(gpus(count=5000), SOCKETS) == {}
