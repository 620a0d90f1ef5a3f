"""Work that runs, as a search for victims sees it: one row per Running allocation. See docs/architecture/preemption.md."""

import numpy as np

from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.evictions import CRITICAL_CLASS, checkpoint_ms, ends_at, is_fixed, saved_at
from lattice.core.scheduler.tables.slots import Names, Records, Slots
from lattice.core.scheduler.tables.snapshot import NEVER, TAKEABLE


class TakeableTable:
    """Rows by allocation. Work that can never be taken has none, so that a cluster without any costs nothing."""

    def __init__(self, vclusters: Names, tenants: Names) -> None:
        self._vclusters = vclusters
        self._tenants = tenants
        self._slots = Slots(TAKEABLE)  # changed by `put` and `drop` alone
        self._slot_of: dict[int, int] = {}  # by number
        self._counts = [0] * CRITICAL_CLASS  # rows by class

    def put(self, allocation: Allocation, gpus: int) -> None:
        """`gpus` = those that it holds."""
        klass = allocation.preemption_class
        is_taken = allocation.state is AllocationState.RUNNING and klass < CRITICAL_CLASS and not is_fixed(allocation)
        slot = self._slot_of.get(allocation.number)
        if not is_taken:
            if slot is not None:
                self.drop(allocation.number)
            return
        if slot is None:
            slot = self._slot_of[allocation.number] = self._slots.take()
        else:
            self._counts[int(self._slots.data["klass"][slot])] -= 1
        self._counts[klass] += 1
        end = ends_at(allocation)
        self._slots.data[slot] = (
            allocation.number,
            allocation.run,
            klass,
            self._vclusters.number(allocation.vcluster),
            self._tenants.number(allocation.tenant),
            allocation.started_at,
            NEVER if end is None else end,
            allocation.walltime_s * 1000,
            allocation.preempted,
            gpus or len(allocation.shares),
            saved_at(allocation),
            checkpoint_ms(allocation),
        )

    def drop(self, number: int) -> None:
        """Forgets the allocation; harmless when there is no row."""
        slot = self._slot_of.pop(number, None)
        if slot is not None:
            self._counts[int(self._slots.data["klass"][slot])] -= 1
            self._slots.give_back(slot)

    def records(self, highest: int) -> Records | None:
        """A copy of all rows, by number; None when none of them is below the class `highest`."""
        if not any(self._counts[: max(0, highest)]):
            return None
        data = self._slots.data[: self._slots.top]
        rows: Records = data.take(np.flatnonzero(data["number"]))
        return rows[np.argsort(rows["number"])]
