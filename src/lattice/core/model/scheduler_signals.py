"""Current inputs to the scheduler from other parts: prices, data, checkpoints, the network, configurations.

Nothing of it is in the log. What is not known is absent, and counts as neither good nor bad. See docs/architecture/core.md.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from lattice.core.model.nodes.at_hand import NO_SETS, GpuSets
from lattice.core.model.nodes.fitness import GpuFitness
from lattice.core.model.site.budgets import Remaining

_NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_GPU: Mapping[tuple[str, int], GpuFitness] = MappingProxyType({})
_NO_NUMBER: Mapping[int, float] = MappingProxyType({})
_NO_TENANT: Mapping[str, Remaining] = MappingProxyType({})
_NO_IMAGE: Mapping[int, tuple[int, ...]] = MappingProxyType({})
_NO_CACHE: Mapping[int, frozenset[str]] = MappingProxyType({})
_NO_VCLUSTER: Mapping[str, frozenset[str]] = MappingProxyType({})


class Signals(Struct, frozen=True, kw_only=True):
    """Fractions lie in [0, 1]; mappings hold only what is known, by allocation number or by node."""

    energy_price: float | None = None  # 0 = the cheapest of the known period, 1 = the dearest
    congestion: float | None = None  # of the network as a whole
    storage_gbps: Mapping[int, float] = _NO_NUMBER  # what running work was seen to read and write
    gpu_use: Mapping[int, float] = _NO_NUMBER  # of work that waits: of its run before, or of other tasks of its group
    data_readiness: Mapping[int, float] = _NO_NUMBER  # part of the input that is on the hot tier
    checkpoint_minutes: Mapping[int, float] = _NO_NUMBER
    gpu_fitness: Mapping[tuple[str, int], GpuFitness] = _NO_GPU  # how well N GPUs of a type fit together inside a node
    fingerprints: Mapping[str, str] = _NOTHING  # fresh ones only: a stale one is not known
    drifted: frozenset[str] = frozenset()  # differ from their baseline: used only where others do not suffice
    budgets: Mapping[str, Remaining] = _NO_TENANT  # by tenant: what an accounting system says, which beats the ledger
    images: Mapping[int, tuple[int, ...]] = _NO_IMAGE  # of work that waits, by number: keys of its images
    cached: Mapping[int, frozenset[str]] = _NO_CACHE  # by key of such an image: nodes that have it
    gpu_sets: GpuSets = NO_SETS  # what the best set of one, two and up to all free GPUs of a node is worth
    excluded: Mapping[str, frozenset[str]] = _NO_VCLUSTER  # by vCluster: nodes it may not use, for their configuration


NO_SIGNALS = Signals()
