"""Node rows as they arrive, given out by id, with kinds and groups numbered the same way whatever happened before.

See docs/architecture/scheduler.md.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from msgspec.structs import replace

from lattice.core.model.nodes.conformance import UNKNOWN_GROUP, group_numbers
from lattice.core.model.nodes.nodes import Hardware, Node, NodeState
from lattice.core.scheduler.tables.kinds import KindTable
from lattice.core.scheduler.tables.slots import Bools, Interned, Ints, Names, Rows, Slots
from lattice.core.scheduler.tables.snapshot import NO_VCLUSTER, STATES, NodeColumns, id_order, kind_order

NODE = np.dtype(
    [
        ("kind", "i8"),
        ("group", "i8"),
        ("state", "i8"),
        ("claimed", "?"),
        ("vcluster", "i8"),
        ("is_free", "?"),
        ("cpus", "i8"),
        ("memory_mb", "i8"),
        ("gpus", "i8"),
    ]
)
_STATE_PLACE = {state: place for place, state in enumerate(STATES)}

_NO_CACHE: Mapping[int, frozenset[str]] = MappingProxyType({})

V = TypeVar("V", Hardware, str)


class NodeTable:
    """All nodes ever registered; a node is never taken away."""

    def __init__(self, vclusters: Names) -> None:
        # Changed by `put` alone. A node keeps its slot; its kind and group are held by that slot.
        self._slots = Slots(NODE)
        self._slot_of: dict[str, int] = {}
        self._kinds: Interned[Hardware] = Interned()
        self._groups: Interned[str] = Interned()
        self._vclusters = vclusters
        # The order by id, rebuilt by `_sort` when nodes are added: slot by row, row by slot, id by row, row by id.
        # Snapshots refer to `_ids` and `_rows`: they are replaced, never changed.
        self._order: Rows = np.zeros(0, np.intp)
        self._place: Rows = np.zeros(0, np.intp)
        self._ids: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        # Remembered with what they were made from.
        self._kind_ranks: _Ranks[Hardware] = _Ranks(self._kinds, kind_order)
        self._group_ranks: _Ranks[str] = _Ranks(self._groups, id_order)
        self._kind_table = KindTable(())
        self._conformance: tuple[Mapping[str, str] | None, int, Ints] = (None, 0, np.zeros(0, np.int64))
        self._warm: dict[int, tuple[frozenset[str], int, Bools]] = {}

    def __len__(self) -> int:
        return len(self._slot_of)

    def put(self, node: Node) -> None:
        """Takes over the record of a node, new or changed."""
        hardware = node.hardware
        kind = self._kinds.hold(replace(hardware, group="") if hardware.group else hardware)
        group = self._groups.hold(hardware.group)
        slot = self._slot_of.get(node.id)
        if slot is None:
            slot = self._slot_of[node.id] = self._slots.take()
        else:
            self._kinds.drop(int(self._slots.data["kind"][slot]))
            self._groups.drop(int(self._slots.data["group"][slot]))
        cpus, memory_mb, gpus = (0, 0, 0) if node.holder or node.claimant else node.free_share()
        self._slots.data[slot] = (
            kind,
            group,
            _STATE_PLACE[NodeState.DRAINED if node.shortfall else node.state],
            bool(node.claimant),
            self._vclusters.number(node.vcluster) if node.tenures else NO_VCLUSTER,
            node.is_free,
            cpus,
            memory_mb,
            gpus,
        )

    def slot_of(self, node: str) -> int:
        return self._slot_of[node]

    def hardware_of(self, node: str) -> Hardware | None:
        """What the node has, apart from its group; None when it was never put."""
        slot = self._slot_of.get(node)
        return None if slot is None else self._kinds.values[int(self._slots.data["kind"][slot])]

    def rows(self) -> dict[str, int]:
        """Where each node stands in the order of the ids."""
        self._sort()
        return self._rows

    def places(self, slots: Rows) -> Rows:
        """Where rows of this table stand in the order of the ids."""
        self._sort()
        return self._place[slots]

    def columns(
        self,
        connected: frozenset[str] | None,
        fingerprints: Mapping[str, str] | None = None,
        cached: Mapping[int, frozenset[str]] = _NO_CACHE,
    ) -> NodeColumns:
        self._sort()
        data = self._slots.data.take(self._order)
        kinds, kind_ranks = self._kind_ranks.current()
        groups, group_ranks = self._group_ranks.current()
        if self._kind_table.kinds is not kinds:
            self._kind_table = KindTable(kinds)
        return NodeColumns(
            ids=self._ids,
            rows=self._rows,
            kinds=kinds,
            groups=groups,
            kind_table=self._kind_table,
            kind=kind_ranks[data["kind"]],
            group=group_ranks[data["group"]],
            state=data["state"].copy(),
            connected=_connected(self._ids, connected),
            claimed=data["claimed"].copy(),
            vcluster=data["vcluster"].copy(),
            is_free=data["is_free"].copy(),
            cpus=data["cpus"].copy(),
            memory_mb=data["memory_mb"].copy(),
            gpus=data["gpus"].copy(),
            conformance=self._conformance_of(fingerprints),
            warm=self._warm_of(cached),
        )

    def _warm_of(self, cached: Mapping[int, frozenset[str]]) -> dict[int, Bools]:
        """Which nodes have each of the images, rebuilt for those that came to other nodes or when nodes are added."""
        count, before = len(self._ids), self._warm
        self._warm = {}
        for key, nodes in cached.items():
            known = before.get(key)
            if known is None or known[0] is not nodes or known[1] != count:
                mask: Bools = np.zeros(count, np.bool_)
                mask[[self._rows[node] for node in nodes if node in self._rows]] = True
                known = (nodes, count, mask)
            self._warm[key] = known
        return {key: mask for key, (_, _, mask) in self._warm.items()}

    def _conformance_of(self, fingerprints: Mapping[str, str] | None) -> Ints:
        """Numbers of conformance groups, rebuilt when fingerprints change or nodes are added."""
        known, count, column = self._conformance
        if known is not fingerprints or count != len(self._ids):
            column = _conformance(self._ids, fingerprints)
            self._conformance = (fingerprints, len(self._ids), column)
        return column

    def _sort(self) -> None:
        if len(self._order) == len(self._slot_of):
            return
        ids = sorted(self._slot_of, key=id_order)
        self._order = np.array([self._slot_of[node] for node in ids], np.intp)
        self._place = np.empty(len(ids), np.intp)
        self._place[self._order] = np.arange(len(ids))
        self._ids = tuple(ids)
        self._rows = {node: row for row, node in enumerate(ids)}


class _Ranks(Generic[V]):
    """The values in use in their own order, and for each number its rank; rebuilt when the values change."""

    def __init__(self, interned: Interned[V], key: Callable[[V], object]) -> None:
        self._interned: Interned[V] = interned
        self._key: Callable[[V], object] = key
        self._version = -1
        self._values: tuple[V, ...] = ()
        self._ranks: Rows = np.zeros(0, np.intp)

    def current(self) -> tuple[tuple[V, ...], Rows]:
        if self._version != self._interned.version:
            numbers = self._interned.values
            used = [(value, number) for number, value in enumerate(numbers) if value is not None]
            used.sort(key=lambda pair: self._key(pair[0]))  # type: ignore[arg-type,return-value]
            self._ranks = np.zeros(len(numbers), np.intp)
            self._ranks[[number for _, number in used]] = np.arange(len(used))
            self._values = tuple(value for value, _ in used)
            self._version = self._interned.version
        return self._values, self._ranks


def _connected(ids: tuple[str, ...], connected: frozenset[str] | None) -> Bools:
    if connected is None or connected.issuperset(ids):
        return np.ones(len(ids), np.bool_)
    return np.fromiter((node in connected for node in ids), np.bool_, len(ids))


def _conformance(ids: tuple[str, ...], fingerprints: Mapping[str, str] | None) -> Ints:
    if not fingerprints:
        return np.full(len(ids), UNKNOWN_GROUP, np.int64)
    return np.array(group_numbers(ids, fingerprints), np.int64)
