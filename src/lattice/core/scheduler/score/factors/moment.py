"""The queue at one moment, with what several factors need of it worked out once. See docs/architecture/scheduler.md."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lattice.core.model.nodes.conformance import UNKNOWN_GROUP
from lattice.core.scheduler.feasibility import usable_nodes
from lattice.core.scheduler.tables.distinct import distinct
from lattice.core.scheduler.tables.slots import Bools, Floats, Ints, Rows
from lattice.core.scheduler.tables.snapshot import Snapshot

Singles = npt.NDArray[np.float32]
_ONE_THREAD = 250_000  # multiplications


@dataclass(frozen=True, eq=False)
class Moment:
    """`learns` = by vCluster, how much what earlier runs took counts against the walltime."""

    snapshot: Snapshot
    now: int
    learns: tuple[float, ...] = ()

    @cached_property
    def wait_s(self) -> Floats:
        """Since submission, or since the earliest start that the user asked for; another run keeps the submission."""
        queue = self.snapshot.queue
        since = np.where(queue.run > 1, queue.submitted_at, np.maximum(queue.submitted_at, queue.eligible_at))
        wait: Floats = np.maximum(self.now - since, 0) / 1000.0
        return wait

    @cached_property
    def by_number(self) -> tuple[Ints, Rows]:
        """Numbers in rising order, and the rows that have them."""
        number = self.snapshot.queue.number
        rows: Rows = np.argsort(number, kind="stable")
        return number[rows], rows

    @cached_property
    def spread(self) -> "Spread":
        return Spread(self.snapshot)


class Spread:
    """How the nodes that would suit rows on several nodes lie: over topology groups, over conformance groups.

    An estimate for the score, by request and vCluster. `free` counts free nodes, `there` all that are in service.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        queue = snapshot.queue
        self._snapshot = snapshot
        self._usable = usable_nodes(snapshot.nodes)
        self._free: Bools = self._usable & snapshot.nodes.is_free
        self.rows: Rows = np.flatnonzero(queue.nodes > 1)
        self.wanted: Ints = queue.nodes[self.rows]
        kinds = queue.signature[self.rows] * len(snapshot.vcluster_names) + queue.vcluster[self.rows]
        _, first, self.alike = np.unique(kinds, return_index=True, return_inverse=True)
        self._examples = self.rows[first]
        self._suits = self._suitable_kinds()

    def _suitable_kinds(self) -> Singles:
        """For one row of each sort, which kinds of nodes suit it: 1 or 0."""
        snapshot = self._snapshot
        table, examples = snapshot.nodes.kind_table, self._examples.tolist()
        suits = [table.suits(snapshot.shape_of(row).request) for row in examples]
        return np.array(suits, np.float32).reshape(len(examples), len(snapshot.nodes.kinds))

    def by_group(self) -> tuple[Ints, Ints]:
        """For each sort of row, suitable nodes by topology group: free, there."""
        group, width = self._snapshot.nodes.group, max(1, len(self._snapshot.nodes.groups))
        return self._counted(group, width, self._free), self._counted(group, width, self._usable)

    def by_conformance(self) -> tuple[Ints, Ints]:
        """The same by conformance group; nodes of which it is not known are the last column."""
        column = self._snapshot.nodes.conformance
        width = int(column.max(initial=UNKNOWN_GROUP)) + 2
        column = np.where(column == UNKNOWN_GROUP, width - 1, column)
        return self._counted(column, width, self._free), self._counted(column, width, self._usable)

    def knows_conformance(self) -> Bools:
        """By vCluster: whether any of its nodes has told its configuration."""
        told: Bools = self._snapshot.nodes.conformance != UNKNOWN_GROUP
        members = (self._snapshot.members.get(name) for name in self._snapshot.vcluster_names)
        return np.array([bool((told if own is None else told & own).any()) for own in members], np.bool_)

    def _counted(self, column: Rows, width: int, among: Bools) -> Ints:
        nodes, vclusters = self._snapshot.nodes, self._snapshot.queue.vcluster[self._examples]
        counts: Ints = np.zeros((len(self._examples), width), np.int64)
        for vcluster in distinct(vclusters).tolist():
            members = self._snapshot.members.get(self._snapshot.vcluster_names[vcluster])
            mask = among if members is None else among & members
            cells = np.bincount(nodes.kind[mask] * width + column[mask], minlength=len(nodes.kinds) * width)
            own = vclusters == vcluster
            counts[own] = _product(self._suits[own], cells.reshape(len(nodes.kinds), width).astype(np.float32))
        return counts


def _product(left: Singles, right: Singles) -> Singles:
    """The matrix product, in pieces that are too small to be spread over threads: waking those costs more than it saves.

    In floats, which multiply much faster than integers and are exact up to sixteen million nodes.
    """
    step = max(2, _ONE_THREAD // max(1, right.size))
    pieces = [left[start : start + step] @ right for start in range(0, len(left), step)]
    return np.concatenate(pieces) if pieces else np.zeros((0, right.shape[1]), np.float32)
