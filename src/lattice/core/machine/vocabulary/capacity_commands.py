"""Commands about capacity that moves between allocations. See docs/architecture/preemption.md."""

from lattice.core.machine.vocabulary.shape import Command
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.evictions import EvictionReason


class EvictAllocations(Command, tag="evict_allocations", frozen=True, kw_only=True):
    """The scheduler's proposal: take these runs off their nodes, and keep the shares for run `run` of `number`."""

    number: int
    run: int
    victims: tuple[tuple[int, int], ...]  # number and run of each
    shares: tuple[Share, ...]
    reason: EvictionReason = EvictionReason.PRIORITY


class StopVictims(Command, tag="stop_victims", frozen=True, kw_only=True):
    """Victims of this eviction were warned, and their time is over."""

    number: int


class DropEviction(Command, tag="drop_eviction", frozen=True, kw_only=True):
    """The nodes were kept long enough for work that did not start on them."""

    number: int
