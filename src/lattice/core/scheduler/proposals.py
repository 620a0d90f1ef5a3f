"""What a plan says: who starts where, for whom nodes are kept, and why the others wait. See docs/architecture/scheduler.md."""

from abc import abstractmethod
from collections.abc import Mapping

from msgspec import Struct

from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.evictions import EvictionReason


class Placement(Struct, frozen=True, kw_only=True):
    """Start run `run` of an allocation, or of a task of a group, on these shares; the first is the launch node.

    `is_backfill`: it starts ahead of work of its vCluster that ranks higher and waits for nodes kept for it.
    """

    number: int
    run: int
    shares: tuple[Share, ...]
    vcluster: str = ""
    is_backfill: bool = False


class Taking(Struct, frozen=True, kw_only=True):
    """Take these runs off their nodes, and keep the shares for run `run` of an allocation or a task of a group."""

    number: int
    run: int
    victims: tuple[tuple[int, int], ...]  # number and run of each
    shares: tuple[Share, ...]
    reason: EvictionReason = EvictionReason.PRIORITY


class Reservation(Struct, frozen=True, kw_only=True):
    """Nodes kept for the first allocation of a vCluster that does not fit now, and when it can start at the latest."""

    number: int
    start_at: int
    nodes: tuple[str, ...]


class Explanation(Struct, frozen=True, kw_only=True):
    """Why an allocation or a group still waits. `rank` = how many of its vCluster are ahead of it.

    `scores` has each factor by name and "total". `penalty` = what soft quotas multiply the score by, and why.
    `images` says on how many nodes its images are, if that is known of any. `predicted_nodes` are those on which it would start at `predicted_start`.
    """

    reason: str
    detail: str = ""
    predicted_start: int | None = None
    rank: int = 0
    predicted_nodes: tuple[str, ...] = ()
    scores: Mapping[str, float] = {}
    penalty: tuple[float, str] = (1.0, "")
    images: str = ""


class WaitingTable(Mapping[int, Explanation]):
    """Explanations by number."""

    @abstractmethod
    def behind_others(self) -> frozenset[int]:
        """The numbers of all that wait only for their turn, found in one step."""

    @abstractmethod
    def candidates(self, number: int) -> Candidates | None:
        """Whom it could take; None when it does not wait for room, or nothing runs where it could."""


class Plan(Struct, frozen=True, kw_only=True):
    """The outcome of one cycle.

    `explanations` has every waiting allocation and group by number (a task is found under its own number too) and writes a
    sentence only when it is asked for. `wake_at` is the next moment at which something becomes eligible. `is_full`: with its
    placements no node has anything left, so that whatever is submitted next waits as well.
    """

    placements: tuple[Placement, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    explanations: WaitingTable
    considered: int = 0
    wake_at: int | None = None
    is_full: bool = False
    takings: tuple[Taking, ...] = ()

    def explain(self, number: int) -> Explanation | None:
        """Why the allocation, task or group waits; None when it does not wait as far as this plan knows."""
        return self.explanations.get(number)

    def candidates(self, number: int) -> Candidates | None:
        """Whom it could take off their nodes; None when that is not what it waits for."""
        return self.explanations.candidates(number)
