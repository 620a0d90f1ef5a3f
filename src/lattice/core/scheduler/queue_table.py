"""The queue: pending allocations and groups with pending tasks, in order of class, submission and number."""

import numpy as np

from lattice.core.model.allocations import Allocation, TaskGroup
from lattice.core.scheduler.snapshot import HOLDS, PENDING, QueueColumns, Shape
from lattice.core.scheduler.tables import Bools, Interned, Names, Rows, Slots

_HOLD_PLACE = {hold: place for place, hold in enumerate(HOLDS)}


class QueueTable:
    """Rows in slots, and their order as of the last cycle, into which only what changed since is sorted anew."""

    def __init__(self, vclusters: Names) -> None:
        self.shapes: Interned[Shape] = Interned()
        self._slots = Slots(PENDING)
        self._slot_of: dict[int, int] = {}
        self._vclusters = vclusters
        self._order: Rows = np.zeros(0, np.intp)
        self._changed: set[int] = set()

    def put_allocation(self, allocation: Allocation) -> None:
        self._put(allocation, first=allocation.number, count=1, block=0, group=allocation.group)

    def put_group(self, group: TaskGroup) -> None:
        """A group that has pending tasks."""
        first = group.number + 1 + group.pending[0][0]
        self._put(group.template, first=first, count=group.pending_count, block=group.size, group=group.number)

    def drop(self, number: int) -> None:
        """Forgets the row; harmless when there is none."""
        slot = self._slot_of.pop(number, None)
        if slot is None:
            return
        self.shapes.drop(int(self._slots.data["shape"][slot]))
        self._slots.give_back(slot)
        self._changed.add(slot)

    def _put(self, record: Allocation, *, first: int, count: int, block: int, group: int) -> None:
        slot = self._slot_of.get(record.number)
        shape = self.shapes.hold(_shape(record, group))
        if slot is None:
            slot = self._slot_of[record.number] = self._slots.take()
        else:
            self.shapes.drop(int(self._slots.data["shape"][slot]))
        self._changed.add(slot)
        self._slots.data[slot] = (
            record.number,
            first,
            -record.preemption_class,
            record.submitted_at,
            record.eligible_at,
            _HOLD_PLACE[record.hold],
            self._vclusters.number(record.vcluster),
            shape,
            count,
            block,
            record.run + 1,
        )

    def columns(self) -> QueueColumns:
        self._sort()
        data, order = self._slots.data, self._order
        return QueueColumns(
            number=data["number"][order],
            eligible_at=data["eligible_at"][order],
            hold=data["hold"][order],
            vcluster=data["vcluster"][order],
            shape=data["shape"][order],
            count=data["count"][order],
            block=data["block"][order],
            run=data["run"][order],
        )

    def _sort(self) -> None:
        """Old rows keep their order and changed ones come behind; sorting what is nearly sorted is cheap."""
        if not self._changed:
            return
        data = self._slots.data
        is_changed: Bools = np.zeros(len(data), np.bool_)
        # The set's own order does not show: the sort below compares first numbers last, and those are unique.
        changed = np.fromiter(self._changed, np.intp, len(self._changed))
        is_changed[changed] = True
        order = np.concatenate([self._order[~is_changed[self._order]], changed[data["number"][changed] != 0]])
        keys = (data["first"][order], data["submitted_at"][order], data["precedence"][order])
        self._order = order[np.lexsort(keys)]
        self._changed.clear()


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
