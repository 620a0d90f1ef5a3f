"""The lifecycles as tables: (state, trigger) -> state. What is not in a table cannot happen.

Rules ask `next_node_state` and `next_allocation_state`; the diagrams in docs/reference are drawn from these tables.
"""

from enum import StrEnum

from lattice.core.model.allocations import AllocationState as A
from lattice.core.model.nodes import NodeState as N


class NodeTrigger(StrEnum):
    REGISTERED = "registered"
    CONFIRMED = "confirmed"
    CONFIRMED_DRAINING = "confirmed_draining"  # back, and an operator's drain still stands
    SILENT = "silent"
    RESUMED = "resumed"
    GIVEN_UP = "given_up"  # the grace period is over
    HARDWARE_FAILED = "hardware_failed"
    DRAIN = "drain"
    EMPTIED = "emptied"
    UNDRAIN = "undrain"
    UNDRAIN_UNHEARD = "undrain_unheard"  # undrained while its agent is silent
    DISABLE = "disable"
    ENABLE = "enable"


class AllocationTrigger(StrEnum):
    PLACE = "place"
    STARTED = "started"
    STOP = "stop"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    REQUEUE = "requeue"


_T = NodeTrigger
_ALIVE = (N.UNKNOWN, N.BOOTING, N.READY, N.DEGRADED, N.DRAINING, N.DRAINED)

NODE_TABLE: dict[tuple[N, NodeTrigger], N] = {
    (N.UNKNOWN, _T.REGISTERED): N.BOOTING,
    (N.DOWN, _T.REGISTERED): N.BOOTING,  # only after silence
    (N.BOOTING, _T.CONFIRMED): N.READY,
    (N.BOOTING, _T.CONFIRMED_DRAINING): N.DRAINING,
    (N.READY, _T.SILENT): N.DEGRADED,
    (N.DEGRADED, _T.RESUMED): N.READY,
    (N.DEGRADED, _T.GIVEN_UP): N.DOWN,
    (N.BOOTING, _T.GIVEN_UP): N.DOWN,
    (N.DRAINING, _T.GIVEN_UP): N.DOWN,
    (N.READY, _T.DRAIN): N.DRAINING,
    (N.DEGRADED, _T.DRAIN): N.DRAINING,
    (N.BOOTING, _T.DRAIN): N.DRAINING,
    (N.DRAINING, _T.EMPTIED): N.DRAINED,
    (N.DOWN, _T.DRAIN): N.DOWN,  # remembered: it comes back drained
    (N.DRAINED, _T.UNDRAIN): N.READY,
    (N.DRAINED, _T.UNDRAIN_UNHEARD): N.DOWN,
    (N.DOWN, _T.UNDRAIN): N.BOOTING,  # only after drift
    (N.DOWN, _T.ENABLE): N.BOOTING,
    (N.FAILED, _T.ENABLE): N.BOOTING,
    **{(state, _T.HARDWARE_FAILED): N.DOWN for state in _ALIVE},
    **{(state, _T.DISABLE): N.DOWN for state in (*_ALIVE, N.FAILED, N.QUARANTINE, N.DOWN)},
}

_U = AllocationTrigger
_BEFORE = (A.PENDING, A.STAGING)
_ACTIVE = (A.STARTING, A.RUNNING, A.CHECKPOINTING)

ALLOCATION_TABLE: dict[tuple[A, AllocationTrigger], A] = {
    (A.PENDING, _U.PLACE): A.STARTING,
    (A.STAGING, _U.PLACE): A.STARTING,
    (A.STARTING, _U.STARTED): A.RUNNING,
    **{(state, _U.STOP): A.STOPPING for state in (*_ACTIVE, A.STOPPING)},  # a stop may change its reason
    **{(state, _U.COMPLETE): A.COMPLETED for state in _ACTIVE},
    (A.STOPPING, _U.COMPLETE): A.COMPLETED,  # only a run that ended well before its rollback reached it
    **{(state, _U.FAIL): A.FAILED for state in (*_ACTIVE, A.STOPPING)},
    **{(state, _U.FAIL): A.FAILED for state in (*_BEFORE, A.SUSPENDED)},  # only by a deadline
    **{(state, _U.CANCEL): A.CANCELLED for state in (*_BEFORE, A.SUSPENDED, A.STOPPING)},
    **{(state, _U.REQUEUE): A.PENDING for state in (*_ACTIVE, A.STOPPING)},
}


def next_node_state(state: N, trigger: NodeTrigger) -> N | None:
    """Where the trigger leads; None when it is not allowed in this state."""
    return NODE_TABLE.get((state, trigger))


def next_allocation_state(state: A, trigger: AllocationTrigger) -> A | None:
    """Where the trigger leads; None when it is not allowed in this state."""
    return ALLOCATION_TABLE.get((state, trigger))
