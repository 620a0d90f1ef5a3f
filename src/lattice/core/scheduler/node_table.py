"""Node rows as they arrive, given out by id, with kinds and groups numbered the same way whatever happened before."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from lattice.core.model.conformance import UNKNOWN_GROUP, group_numbers
from lattice.core.model.nodes import Hardware, Node
from lattice.core.scheduler.snapshot import NO_VCLUSTER, STATES, NodeColumns, id_order, kind_order
from lattice.core.scheduler.tables import Bools, Interned, Ints, Names, Rows, Slots

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

V = TypeVar("V", Hardware, str)


class NodeTable:
    """All nodes ever registered; a node is never taken away."""

    def __init__(self, vclusters: Names) -> None:
        self._slots = Slots(NODE)
        self._slot_of: dict[str, int] = {}
        self._kinds: Interned[Hardware] = Interned()
        self._groups: Interned[str] = Interned()
        self._vclusters = vclusters
        self._order: Rows = np.zeros(0, np.intp)
        self._place: Rows = np.zeros(0, np.intp)
        self._ids: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._slot_of)

    def put(self, node: Node) -> None:
        """Takes over the record of a node, new or changed."""
        slot = self._slot_of.get(node.id)
        if slot is None:
            slot = self._slot_of[node.id] = self._slots.take()
        else:
            self._kinds.drop(int(self._slots.data["kind"][slot]))
            self._groups.drop(int(self._slots.data["group"][slot]))
        hardware = node.hardware
        cpus, memory_mb, gpus = (0, 0, 0) if node.holder or node.claimant else node.free_share()
        self._slots.data[slot] = (
            self._kinds.hold(replace(hardware, group="") if hardware.group else hardware),
            self._groups.hold(hardware.group),
            _STATE_PLACE[node.state],
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

    def columns(self, connected: frozenset[str] | None, fingerprints: Mapping[str, str] | None = None) -> NodeColumns:
        self._sort()
        data = self._slots.data.take(self._order)
        kinds, kind = _ranked(self._kinds, data["kind"], kind_order)
        groups, group = _ranked(self._groups, data["group"], _by_name)
        return NodeColumns(
            ids=self._ids,
            rows=self._rows,
            kinds=kinds,
            groups=groups,
            kind=kind,
            group=group,
            state=data["state"].copy(),
            connected=_connected(self._ids, connected),
            claimed=data["claimed"].copy(),
            vcluster=data["vcluster"].copy(),
            is_free=data["is_free"].copy(),
            cpus=data["cpus"].copy(),
            memory_mb=data["memory_mb"].copy(),
            gpus=data["gpus"].copy(),
            conformance=_conformance(self._ids, fingerprints),
        )

    def _sort(self) -> None:
        if len(self._order) == len(self._slot_of):
            return
        ids = sorted(self._slot_of, key=id_order)
        self._order = np.array([self._slot_of[node] for node in ids], np.intp)
        self._place = np.empty(len(ids), np.intp)
        self._place[self._order] = np.arange(len(ids))
        self._ids = tuple(ids)
        self._rows = {node: row for row, node in enumerate(ids)}


def _ranked(interned: Interned[V], column: Rows, key: Callable[[V], object]) -> tuple[tuple[V, ...], Rows]:
    """The values in use, in their own order, and the column in terms of it."""
    used = [(value, number) for number, value in enumerate(interned.values) if value is not None]
    used.sort(key=lambda pair: key(pair[0]))  # type: ignore[arg-type, return-value]
    ranks = np.zeros(len(interned.values), np.intp)
    for rank, (_, number) in enumerate(used):
        ranks[number] = rank
    return tuple(value for value, _ in used), ranks[column]


def _by_name(name: str) -> str:
    return name


def _connected(ids: tuple[str, ...], connected: frozenset[str] | None) -> Bools:
    if connected is None or connected.issuperset(ids):
        return np.ones(len(ids), np.bool_)
    return np.fromiter((node in connected for node in ids), np.bool_, len(ids))


def _conformance(ids: tuple[str, ...], fingerprints: Mapping[str, str] | None) -> Ints:
    if not fingerprints:
        return np.full(len(ids), UNKNOWN_GROUP, np.int64)
    return np.array(group_numbers(ids, fingerprints), np.int64)
