"""The queue: pending allocations and groups with pending tasks, in order of submission and number.

See docs/architecture/scheduler.md.
"""

import numpy as np
from msgspec.structs import replace

from lattice.core.model.intervals import count
from lattice.core.model.nodes.at_hand import IMAGE_FEATURES
from lattice.core.model.work.allocations import Allocation, Request, TaskGroup
from lattice.core.scheduler.tables.predictor import Predictor
from lattice.core.scheduler.tables.slots import Bools, Interned, Names, Rows, Slots
from lattice.core.scheduler.tables.snapshot import HOLDS, PENDING, QueueColumns, Shape
from lattice.core.scheduler.tables.use import UseTable

_FEW = 8  # up to this many changed rows are moved one by one
_HOLD_PLACE = {hold: place for place, hold in enumerate(HOLDS)}


class QueueTable:
    """Rows in slots, and their order as of the last cycle, into which only the rows changed since are sorted again."""

    def __init__(self, vclusters: Names, use: UseTable, predictor: Predictor) -> None:
        # Changed by `put_allocation`, `put_group` and `drop` alone. A row holds its shape, its signature and its history.
        self.shapes: Interned[Shape] = Interned()
        self._signatures: Interned[tuple[object, ...]] = Interned()
        self._slots = Slots(PENDING)
        self._slot_of: dict[int, int] = {}  # by number of the allocation or group
        self._vclusters = vclusters
        self._use = use
        self._predictor = predictor
        self.with_images: dict[int, None] = {}  # those whose requests ask for nodes that mount images
        # Slots in the order of submission as of the last cycle, and those that were put or dropped since.
        self._order: Rows = np.zeros(0, np.intp)
        self._changed: set[int] = set()
        self._shapes_then: tuple[int, tuple[Shape | None, ...]] = (0, ())

    def put_allocation(self, allocation: Allocation) -> None:
        self._put(allocation, first=allocation.number, count=1, block=0, group=allocation.group)

    def put_group(self, group: TaskGroup) -> None:
        """A group that has pending tasks. When each of them is held or blocked, it stands there as held or not at all."""
        startable = group.startable
        waiting = startable or group.held_by_operator or group.held
        if not waiting:
            self.drop(group.number)
            return
        template = group.template if startable else replace(group.template, hold=group.hold_at(waiting[0][0]))
        first = group.number + 1 + waiting[0][0]
        self._put(template, first=first, count=count(waiting), block=group.size, group=group.number)

    def drop(self, number: int) -> None:
        """Forgets the row; harmless when there is none."""
        slot = self._slot_of.pop(number, None)
        if slot is None:
            return
        self.with_images.pop(number, None)
        self._let_go(slot)
        self._slots.give_back(slot)
        self._changed.add(slot)

    def _put(self, record: Allocation, *, first: int, count: int, block: int, group: int) -> None:
        slot = self._slot_of.get(record.number)
        shape = self.shapes.hold(_shape(record, group))
        history = self._predictor.hold(record.user, record.name)
        if slot is None:
            slot = self._slot_of[record.number] = self._slots.take()
        else:
            self._let_go(slot)
        self._changed.add(slot)
        request = record.request
        if request.features and not IMAGE_FEATURES.isdisjoint(request.features):
            self.with_images[record.number] = None
        else:
            self.with_images.pop(record.number, None)
        self._slots.data[slot] = (
            record.number,
            first,
            record.preemption_class,
            record.submitted_at,
            record.eligible_at,
            _HOLD_PLACE[record.hold],
            self._vclusters.number(record.vcluster),
            shape,
            count,
            block,
            record.run + 1,
            record.walltime_s,
            request.nodes,
            request.cpus,
            request.memory_mb,
            request.gpus,
            _is_plain(request),
            self._signatures.hold(_signature(request)),
            self._use.account(record.tenant, record.project, record.user),
            history,
        )

    def _let_go(self, slot: int) -> None:
        row = self._slots.data[slot]
        self.shapes.drop(int(row["shape"]))
        self._signatures.drop(int(row["signature"]))
        self._predictor.drop(int(row["history"]))

    def all_shapes(self) -> tuple[Shape | None, ...]:
        """By number; rebuilt only after a shape was added or removed."""
        if self._shapes_then[0] != self.shapes.version:
            self._shapes_then = (self.shapes.version, tuple(self.shapes.values))
        return self._shapes_then[1]

    def columns(self) -> QueueColumns:
        self._sort()
        data = self._slots.data.take(self._order)
        return QueueColumns(
            number=data["number"],
            submitted_at=data["submitted_at"],
            preemption_class=data["preemption_class"],
            eligible_at=data["eligible_at"],
            hold=data["hold"],
            vcluster=data["vcluster"],
            shape=data["shape"],
            count=data["count"],
            block=data["block"],
            run=data["run"],
            walltime_s=data["walltime_s"],
            nodes=data["nodes"],
            cpus=data["cpus"],
            memory_mb=data["memory_mb"],
            gpus=data["gpus"],
            is_plain=data["is_plain"],
            signature=data["signature"],
            account=data["account"],
            expected_s=self._predictor.expected_s(data["history"]),
        )

    def _sort(self) -> None:
        if not self._changed:
            return
        if len(self._changed) <= _FEW:
            self._sort_few(sorted(self._changed))
        else:
            self._sort_all()
        self._changed.clear()

    def _sort_few(self, changed: list[int]) -> None:
        """Takes the changed rows out, all of them first, then puts those that are still there where they belong now."""
        for slot in changed:
            found = np.flatnonzero(self._order == slot)
            if len(found):
                self._order = np.concatenate([self._order[: found[0]], self._order[found[0] + 1 :]])
        for slot in changed:
            if self._slots.data["number"][slot]:
                place = self._place_for(slot)
                self._order = np.concatenate([self._order[:place], [slot], self._order[place:]])

    def _place_for(self, slot: int) -> int:
        """How many rows come before it; the newest comes last, as a rule."""
        submitted_at, first = self._slots.data["submitted_at"], self._slots.data["first"]
        key = (submitted_at[slot], first[slot])
        low, high, order = 0, len(self._order), self._order
        probe = high - 1
        while low < high:
            if (submitted_at[order[probe]], first[order[probe]]) < key:
                low = probe + 1
            else:
                high = probe
            probe = (low + high) // 2
        return low

    def _sort_all(self) -> None:
        """Old rows keep their order and changed ones come behind; sorting what is nearly sorted is cheap."""
        data = self._slots.data
        is_changed: Bools = np.zeros(len(data), np.bool_)
        # The set's own order does not show: the sort below compares first numbers last, and those are unique.
        changed = np.fromiter(self._changed, np.intp, len(self._changed))
        is_changed[changed] = True
        order = np.concatenate([self._order[~is_changed[self._order]], changed[data["number"][changed] != 0]])
        self._order = order[np.lexsort((data["first"][order], data["submitted_at"][order]))]


def _shape(record: Allocation, group: int) -> Shape:
    return Shape(
        record.vcluster,
        record.tenant,
        record.user,
        record.project,
        record.request,
        record.walltime_s,
        group,
    )


def _is_plain(request: Request) -> bool:
    """One node, whichever has the amounts."""
    return (
        request.nodes == 1
        and request.max_nodes <= 1
        and not request.exclusive
        and not request.gpu_type
        and not request.min_memory_mb
        and not request.features
        and not request.node_list
        and not request.exclude
        and not request.require_unified_memory
        and not request.storage_gbps
    )


def _signature(request: Request) -> tuple[object, ...]:
    """All of the request that decides which kinds of nodes suit it."""
    return (
        request.cpus,
        request.memory_mb,
        request.min_memory_mb,
        request.gpus,
        request.gpu_type,
        request.features,
        request.require_unified_memory,
        request.allow_cxl_memory,
    )
