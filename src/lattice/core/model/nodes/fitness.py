"""How well the best N GPUs of a node fit together: by the links between them, and by the memory near to them.

Links: the slowest among them against the fastest of the node. Memory: the part of them and of their share of the CPUs that lies in
one memory domain. 1 where nothing is known; what each counts for, the request decides. See docs/architecture/nodes.md.
"""

from typing import NamedTuple

from lattice.core.model.nodes.gpus import GpuTopology, choose_gpus, intra_node_fitness
from lattice.core.model.nodes.memory import MemoryTopology, choose_cpus, locality_fitness

MAX_GPUS = 16  # beyond, choosing is no longer exact, and takes long


class GpuFitness(NamedTuple):
    links: float = 1.0
    memory: float = 1.0


def gpu_fitness(gpus: GpuTopology, memory: MemoryTopology) -> dict[int, GpuFitness]:
    """By number of GPUs, from one to all, on an empty node; empty where there are too many to be worked out."""
    free = frozenset(gpus.indices)
    fitness: dict[int, GpuFitness] = {}
    if len(free) > MAX_GPUS:
        return fitness
    for count in range(1, len(free) + 1):
        chosen = choose_gpus(gpus, free, count)
        fitness[count] = GpuFitness(intra_node_fitness(gpus, chosen), _near(memory, chosen, len(free)))
    return fitness


def _near(memory: MemoryTopology, chosen: tuple[int, ...], total: int) -> float:
    attached = {gpu for domain in memory.domains for gpu in domain.attached_gpus}
    if not attached.issuperset(chosen):
        return 1.0
    cpus = choose_cpus(memory, memory.cpus, len(memory.cpus) * len(chosen) // total, chosen)
    return locality_fitness(memory, cpus, chosen)
