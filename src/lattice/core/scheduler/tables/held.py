"""What allocations hold and until when: one row per share, so that a plan can look ahead. See docs/architecture/scheduler.md."""

import numpy as np

from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.scheduler.tables.nodes import NodeTable
from lattice.core.scheduler.tables.slots import Names, Records, Rows, Slots
from lattice.core.scheduler.tables.snapshot import HELD, NEVER, STOP_GRACE_MS


class HeldTable:
    """Rows by allocation. `node` is a slot of the node table until `records` turns it into a row of its columns."""

    def __init__(self, nodes: NodeTable, tenants: Names, vclusters: Names) -> None:
        self._nodes = nodes
        self._tenants = tenants
        self._vclusters = vclusters
        self._slots = Slots(HELD)  # changed by `put` and `drop` alone
        # By number of each allocation that holds something: its shares and their slots, in the same order.
        self._slots_of: dict[int, tuple[tuple[Share, ...], Rows]] = {}

    def shares_of(self, number: int) -> tuple[Share, ...]:
        """What the allocation held when it was last put."""
        return self._slots_of[number][0] if number in self._slots_of else ()

    def put(self, allocation: Allocation) -> None:
        """Takes over what the allocation holds; one that holds nothing is forgotten."""
        if not allocation.is_holding:
            self.drop(allocation.number)
            return
        known = self._slots_of.get(allocation.number)
        if known is None or known[0] != allocation.shares:
            self.drop(allocation.number)
            self._add(allocation)
        else:
            self._slots.data["end"][known[1]] = end_of(allocation)

    def drop(self, number: int) -> None:
        """Forgets the allocation; harmless when it held nothing."""
        known = self._slots_of.pop(number, None)
        if known is not None:
            for slot in known[1].tolist():
                self._slots.give_back(slot)

    def _add(self, allocation: Allocation) -> None:
        end = end_of(allocation)
        tenant, vcluster = self._tenants.number(allocation.tenant), self._vclusters.number(allocation.vcluster)
        storage_mbps = round(allocation.request.storage_gbps * 1000)
        slots = [self._slots.take() for _ in allocation.shares]
        for slot, share in zip(slots, allocation.shares, strict=True):
            node = self._nodes.slot_of(share.node)
            amounts = (0, 0, 0) if share.whole else (share.cpus, share.memory_mb, share.gpus)
            self._slots.data[slot] = (allocation.number, node, end, *amounts, tenant, storage_mbps, vcluster)
            storage_mbps = 0
        self._slots_of[allocation.number] = (allocation.shares, np.array(slots, np.intp))

    def records(self) -> Records:
        """A copy of all rows, in no particular order."""
        data = self._slots.data[: self._slots.top]
        rows: Records = data.take(np.flatnonzero(data["number"]))
        rows["node"] = self._nodes.places(rows["node"])
        return rows


def end_of(allocation: Allocation) -> int:
    """When the run ends at the latest; minus its length while it has not started."""
    end = NEVER
    if allocation.walltime_s:
        length = allocation.walltime_s * 1000 + allocation.paused_ms
        end = allocation.started_at + length if allocation.started_at else -length
    if allocation.state is not AllocationState.STOPPING:
        return end
    stopped = allocation.stop_asked_at + STOP_GRACE_MS
    return stopped if end < 0 else min(end, stopped)
