"""Events about capacity that moves between allocations. See docs/architecture/preemption.md."""

from lattice.core.machine.vocabulary.shape import Event
from lattice.core.model.work.evictions import Eviction


class EvictionBegan(Event, tag="eviction_began", frozen=True, kw_only=True):
    eviction: Eviction


class EvictionChanged(Event, tag="eviction_changed", frozen=True, kw_only=True):
    """A victim is in another phase."""

    eviction: Eviction


class EvictionEnded(Event, tag="eviction_ended", frozen=True, kw_only=True):
    """Nothing is kept for the allocation any more: it starts on the nodes, or does not need them, or cannot have them."""

    number: int
    why: str
