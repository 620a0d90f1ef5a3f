"""GPUs of one node, how they are linked, and which of them go together best.

`choose_gpus` is asked by a node for its own devices, so nothing here may need more than the standard library. A MIG
instance is a device like any other, only smaller; a pair of which no link is known has bandwidth 0.
See docs/architecture/nodes.md.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import combinations

from msgspec import Struct

EXACT_UP_TO = 16  # free GPUs; beyond, the search is bounded
MAX_STEPS = 20_000


class GpuVendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"


class GpuLinkType(StrEnum):
    NVLINK = "nvlink"
    NVSWITCH = "nvswitch"
    INFINITY_FABRIC = "infinity_fabric"
    XGMI = "xgmi"
    PCIE = "pcie"


class GpuDevice(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One GPU or one instance of a partitioned GPU; `uuid` is what its vendor's runtime calls it.

    `devices` are its own device files; those that all GPUs of the vendor share are not among them.
    """

    index: int
    vendor: GpuVendor
    model: str = ""
    memory_bytes: int = 0
    compute_capability: str = ""
    partitioned: bool = False
    uuid: str = ""
    devices: tuple[str, ...] = ()


class GpuLink(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    gpu_a: int
    gpu_b: int
    link_type: GpuLinkType = GpuLinkType.PCIE
    bandwidth_gbps: float = 0.0


class GpuTopology(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`nic_affinity` names the closest network interface of a GPU."""

    gpus: tuple[GpuDevice, ...] = ()
    links: tuple[GpuLink, ...] = ()
    nic_affinity: dict[int, str] = {}

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(sorted(device.index for device in self.gpus))

    def problem(self) -> str:
        """What is wrong with it; empty when it can be used."""
        known = set(self.indices)
        for device in self.gpus:
            if strange := next((name for name in device.devices if not name.startswith("/")), ""):
                return f"a device file of GPU {device.index} is not an absolute path: {strange}"
        if len(known) < len(self.gpus):
            return "two GPUs have the same index"
        for link in self.links:
            if link.gpu_a == link.gpu_b or not {link.gpu_a, link.gpu_b} <= known:
                return f"a link joins GPU {link.gpu_a} and GPU {link.gpu_b}, which are not two GPUs of this node"
            if not 0 <= link.bandwidth_gbps < float("inf"):
                return f"the bandwidth between GPU {link.gpu_a} and GPU {link.gpu_b} is {link.bandwidth_gbps}"
        strangers = sorted(set(self.nic_affinity) - known)
        return f"nic_affinity names GPU {strangers[0]}, which is not of this node" if strangers else ""


Pair = tuple[int, int]


def bandwidths(topology: GpuTopology) -> dict[Pair, float]:
    """Of each linked pair, lower index first, the best link."""
    found: dict[Pair, float] = {}
    for link in topology.links:
        pair = (min(link.gpu_a, link.gpu_b), max(link.gpu_a, link.gpu_b))
        found[pair] = max(found.get(pair, 0.0), link.bandwidth_gbps)
    return found


def intra_node_fitness(topology: GpuTopology, gpus: Sequence[int]) -> float:
    """The slowest link among the GPUs against the fastest of the node, in [0, 1].

    1 for a single GPU, and where no links are known.
    """
    known = bandwidths(topology)
    best = max(known.values(), default=0.0)
    if best <= 0.0 or len(gpus) < 2:
        return 1.0
    return min(known.get(pair, 0.0) for pair in combinations(sorted(gpus), 2)) / best


class GpuSet(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a set of GPUs is worth: its slowest link, how many of them are near a network interface, and near how many different ones."""

    gbps: float = 0.0
    near: int = 0
    nics: int = 0

    @property
    def order(self) -> tuple[float, int, int]:
        """The better set has the smaller one."""
        return -self.gbps, -self.near, self.nics


def best_sets(topology: GpuTopology, free: frozenset[int]) -> tuple[GpuSet, ...]:
    """What `choose_gpus` would give of these, for one, two and up to all; nothing where they are too many to be worked out."""
    if len(free) > EXACT_UP_TO:
        return ()
    known = bandwidths(topology)
    found = []
    for count in range(1, len(free) + 1):
        chosen = choose_gpus(topology, free, count)
        slowest = min((known.get(pair, 0.0) for pair in combinations(chosen, 2)), default=0.0)
        far, nics = _interface_key(chosen, topology.nic_affinity)
        found.append(GpuSet(gbps=slowest, near=-far, nics=nics))
    return tuple(found)


def choose_gpus(topology: GpuTopology, free: frozenset[int], count: int) -> tuple[int, ...]:
    """The `count` free GPUs whose slowest link is fastest, in rising order.

    Ties go to those with most GPUs near a network interface, then to those near the fewest different ones, then to
    the lowest indices. Raises ValueError when fewer are free.
    """
    if count > len(free):
        raise ValueError(f"{count} GPUs wanted, {len(free)} free")
    if count <= 0:
        return ()
    members = sorted(free)
    exact = len(members) <= EXACT_UP_TO
    if not exact:
        members = _by_interface(members, topology.nic_affinity)
    search = _Search(members, bandwidths(topology), count, 0 if exact else MAX_STEPS)
    cliques = search.fastest()
    chosen = _nearest(cliques, members, count, topology.nic_affinity) if exact else next(cliques)
    return tuple(sorted(chosen))


def _nearest(
    cliques: Iterator[tuple[int, ...]], members: list[int], count: int, nics: dict[int, str]
) -> tuple[int, ...]:
    """The first of the sets that are nearest to the network; none can be nearer than `ideal`."""
    near = [nics[gpu] for gpu in members if gpu in nics]
    wanted = min(count, len(near))
    sizes = sorted((near.count(nic) for nic in set(near)), reverse=True)
    ideal = (-wanted, sum(1 for place in range(len(sizes)) if sum(sizes[:place]) < wanted))
    best: tuple[int, ...] = ()
    best_key = (1, 0)
    for gpus in cliques:
        key = _interface_key(gpus, nics)
        if key < best_key:
            best, best_key = gpus, key
            if key == ideal:
                break
    return best


def _interface_key(gpus: Sequence[int], nics: dict[int, str]) -> tuple[int, int]:
    near = [nics[gpu] for gpu in gpus if gpu in nics]
    return -len(near), len(set(near))


def _by_interface(members: list[int], nics: dict[int, str]) -> list[int]:
    """The GPUs of the interface with most free ones first, those near none last."""
    near = [nics.get(gpu, "") for gpu in members]
    size = {nic: near.count(nic) for nic in near}
    return sorted(members, key=lambda gpu: (gpu not in nics, -size[nics.get(gpu, "")], nics.get(gpu, ""), gpu))


class _Search:
    """Sets of GPUs that are linked pairwise at least so fast, as cliques over bit masks in the order of `members`.

    `most_steps` bounds one search; 0 = no bound. The slowest bandwidth of all links every pair, so there is always one.
    """

    def __init__(self, members: list[int], known: dict[Pair, float], count: int, most_steps: int) -> None:
        self._members = members
        self._count = count
        self._most_steps = most_steps
        self._pairs = {
            (a, b): known.get((min(members[a], members[b]), max(members[a], members[b])), 0.0)
            for a, b in combinations(range(len(members)), 2)
        }

    def fastest(self) -> Iterator[tuple[int, ...]]:
        """All sets whose slowest link is as fast as can be."""
        speeds = sorted(set(self._pairs.values())) if self._count > 1 else [0.0]
        low, high = 0, len(speeds) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if next(self._linked(speeds[middle]), None) is None:
                high = middle - 1
            else:
                low = middle
        return self._linked(speeds[low] if speeds else 0.0)

    def _linked(self, speed: float) -> Iterator[tuple[int, ...]]:
        """All sets linked at this speed or faster, the first members first."""
        after = [0] * len(self._members)
        for (a, b), width in self._pairs.items():
            if width >= speed:
                after[a] |= 1 << b
        self._steps = 0
        for places in self._extend((), (1 << len(self._members)) - 1, after):
            yield tuple(self._members[place] for place in places)

    def _extend(self, chosen: tuple[int, ...], open_places: int, after: list[int]) -> Iterator[tuple[int, ...]]:
        missing = self._count - len(chosen)
        if not missing:
            yield chosen
            return
        self._steps += 1
        while open_places.bit_count() >= missing and not 0 < self._most_steps < self._steps:
            lowest = open_places & -open_places
            open_places ^= lowest
            place = lowest.bit_length() - 1
            yield from self._extend((*chosen, place), open_places & after[place], after)
