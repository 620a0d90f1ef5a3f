"""The lifecycles as tables: (state, trigger) -> state. What is not in a table cannot happen.

Rules ask `next_node_state` and `next_allocation_state`; the diagrams in docs/reference are drawn from these tables.

Theory. A trigger says what happened to a node or an allocation, not where it goes: the table says that. A rule picks the trigger
from the command and the facts, and refuses when the table has no entry. A fold never looks here: the event says where it led when
it was decided, so that a log keeps its meaning when a table changes. Conditions that depend on more than the state are rules: an
entry with a comment "only ..." is one that a rule guards.

A node is alive (Unknown to Drained), gone (Down), or waits for a person (Failed, Quarantine). It gets work in Ready alone. A drain
is remembered across Down, so that a node comes back drained. An allocation is before its run (Pending, Staging), active, Stopping,
or at an end; ends are final, and a requeue goes back to Pending for another run. Work begins in Staging when its data has to be
brought first. Work that is asked for a checkpoint is Checkpointing until it is complete or has failed, and holds what it held.
Work that was taken off its nodes and can continue from a checkpoint is Suspended: it waits as Pending work does.
See docs/architecture/core.md.
"""

from enum import StrEnum

from lattice.core.model.nodes.nodes import NodeState as N
from lattice.core.model.work.allocations import AllocationState as A
from lattice.core.model.work.allocations import PartPhase as P


class NodeTrigger(StrEnum):
    REGISTERED = "registered"
    CONFIRMED = "confirmed"
    CONFIRMED_DRAINING = "confirmed_draining"  # back, and an operator's drain or a wipe still stands
    BOOT_FAILED = "boot_failed"  # not confirmed in time; the next registration or reboot tries again
    BOOTS_EXHAUSTED = "boots_exhausted"  # not confirmed in time, too often in a row
    REBOOT = "reboot"
    SILENT = "silent"
    RESUMED = "resumed"
    CHECK_FAILED = "check_failed"
    CHECK_PASSED = "check_passed"
    GIVEN_UP = "given_up"  # the grace period is over
    HARDWARE_FAILED = "hardware_failed"
    DRIFT_EXPIRED = "drift_expired"  # drifted, and not repaired in time
    DRAIN = "drain"
    DRAIN_URGENT = "drain_urgent"  # what runs there is ended, to run elsewhere
    EMPTIED = "emptied"
    UNDRAIN = "undrain"
    UNDRAIN_UNHEARD = "undrain_unheard"  # undrained while its agent is silent
    DISABLE = "disable"
    ENABLE = "enable"
    WIPE = "wipe"  # sensitive work has left it, or an operator asks
    WIPED = "wiped"
    WIPE_FAILED = "wipe_failed"
    WAIT = "wait"  # it registered, and is unknown
    ADMIT = "admit"


class AllocationTrigger(StrEnum):
    PLACE = "place"
    STARTED = "started"
    STOP = "stop"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    SUSPEND = "suspend"  # taken off its nodes, with a complete checkpoint from which it continues
    CHECKPOINT = "checkpoint"
    CHECKPOINTED = "checkpointed"  # complete, or failed: it runs on
    STAGED = "staged"  # its data is there, or as much of it as will come


class PartTrigger(StrEnum):
    """What happens to one node's part of a run."""

    RUNS = "runs"
    RESTARTS = "restarts"  # its process ended, and its node starts it again
    LEAVE = "leave"
    RENEWED = "renewed"  # it has ended, and starts again on its node as another revision
    ENDS = "ends"


_T = NodeTrigger
_ALIVE = (N.UNKNOWN, N.BOOTING, N.READY, N.DEGRADED, N.DRAINING, N.DRAINED)

NODE_TABLE: dict[tuple[N, NodeTrigger], N] = {
    (N.UNKNOWN, _T.REGISTERED): N.BOOTING,
    (N.DOWN, _T.REGISTERED): N.BOOTING,  # only after silence
    (N.BOOTING, _T.CONFIRMED): N.READY,
    (N.BOOTING, _T.CONFIRMED_DRAINING): N.DRAINING,
    (N.BOOTING, _T.BOOT_FAILED): N.DOWN,
    (N.BOOTING, _T.BOOTS_EXHAUSTED): N.FAILED,
    **{(state, _T.REBOOT): N.BOOTING for state in (N.UNKNOWN, N.BOOTING, N.DOWN, N.DRAINED, N.FAILED)},
    (N.READY, _T.SILENT): N.DEGRADED,
    (N.DEGRADED, _T.RESUMED): N.READY,
    (N.READY, _T.CHECK_FAILED): N.DEGRADED,
    (N.DEGRADED, _T.CHECK_FAILED): N.DEGRADED,  # degraded by silence, kept so by a check
    (N.DEGRADED, _T.CHECK_PASSED): N.READY,
    (N.DEGRADED, _T.GIVEN_UP): N.DOWN,
    (N.DRAINING, _T.GIVEN_UP): N.DOWN,
    (N.BOOTING, _T.GIVEN_UP): N.DOWN,
    **{(state, _T.DRAIN): N.DRAINING for state in (N.READY, N.DEGRADED, N.BOOTING)},
    **{(state, _T.DRAIN): state for state in (N.DOWN, N.UNKNOWN)},  # remembered: it comes back drained
    **{(state, _T.DRAIN): state for state in (N.DRAINING, N.DRAINED)},  # for another reason, or instead of a wipe alone
    **{(state, _T.DRAIN_URGENT): N.DRAINING for state in (N.READY, N.DEGRADED, N.BOOTING, N.DRAINING)},
    **{(state, _T.DRAIN_URGENT): state for state in (N.DOWN, N.UNKNOWN, N.DRAINED)},
    (N.DRAINING, _T.EMPTIED): N.DRAINED,
    (N.DRAINED, _T.UNDRAIN): N.READY,
    (N.DRAINED, _T.UNDRAIN_UNHEARD): N.DOWN,
    (N.DOWN, _T.UNDRAIN): N.BOOTING,  # only after drift
    (N.DOWN, _T.ENABLE): N.BOOTING,
    (N.FAILED, _T.ENABLE): N.BOOTING,
    **{(state, _T.WIPE): N.DRAINING for state in (N.READY, N.DEGRADED, N.DRAINING)},
    **{(state, _T.WIPE): N.DRAINED for state in (N.DRAINED, N.QUARANTINE)},
    (N.DRAINED, _T.WIPED): N.BOOTING,  # it registers again, from a clean image
    (N.DRAINED, _T.WIPE_FAILED): N.QUARANTINE,
    (N.UNKNOWN, _T.WAIT): N.QUARANTINE,
    (N.QUARANTINE, _T.ADMIT): N.BOOTING,  # only one that waits for it
    **{(state, _T.HARDWARE_FAILED): N.DOWN for state in (*_ALIVE, N.DOWN)},  # Down: only after silence
    **{(state, _T.DRIFT_EXPIRED): N.DOWN for state in _ALIVE},
    **{(state, _T.DISABLE): N.DOWN for state in (*_ALIVE, N.FAILED, N.QUARANTINE, N.DOWN)},
}

_U = AllocationTrigger
_BEFORE = (A.PENDING, A.STAGING)
_ACTIVE = (A.STARTING, A.RUNNING, A.CHECKPOINTING)

ALLOCATION_TABLE: dict[tuple[A, AllocationTrigger], A] = {
    (A.PENDING, _U.PLACE): A.STARTING,
    (A.SUSPENDED, _U.PLACE): A.STARTING,
    (A.STAGING, _U.STAGED): A.PENDING,
    (A.STARTING, _U.STARTED): A.RUNNING,
    (A.RUNNING, _U.CHECKPOINT): A.CHECKPOINTING,
    (A.CHECKPOINTING, _U.CHECKPOINT): A.CHECKPOINTING,  # a repeated request joins the one that is open
    (A.CHECKPOINTING, _U.CHECKPOINTED): A.RUNNING,
    **{(state, _U.STOP): A.STOPPING for state in (*_ACTIVE, A.STOPPING)},  # a stop may change its reason
    **{(state, _U.COMPLETE): A.COMPLETED for state in _ACTIVE},
    (A.STOPPING, _U.COMPLETE): A.COMPLETED,  # only a run that ended well before its rollback reached it
    **{(state, _U.FAIL): A.FAILED for state in (*_ACTIVE, A.STOPPING)},
    **{
        (state, _U.FAIL): A.FAILED for state in (*_BEFORE, A.SUSPENDED)
    },  # only by a deadline, or data that its user may not read
    **{(state, _U.CANCEL): A.CANCELLED for state in (*_BEFORE, A.SUSPENDED, A.STOPPING)},
    **{(state, _U.REQUEUE): A.PENDING for state in (*_ACTIVE, A.STOPPING)},
    (A.STOPPING, _U.SUSPEND): A.SUSPENDED,
}


_V = PartTrigger
_LIVE = (P.ASSIGNED, P.RUNNING, P.RESTARTING)

PART_TABLE: dict[tuple[P, PartTrigger], P] = {
    **{(phase, _V.RUNS): P.RUNNING for phase in _LIVE},
    (P.LEAVING, _V.RUNS): P.LEAVING,  # the order to end it is on its way
    **{(phase, _V.RESTARTS): P.RESTARTING for phase in _LIVE},  # only of a service
    (P.LEAVING, _V.RESTARTS): P.LEAVING,
    **{(phase, _V.LEAVE): P.LEAVING for phase in (*_LIVE, P.LEAVING)},  # only of a running allocation with instances
    **{(phase, _V.ENDS): P.ENDED for phase in (*_LIVE, P.LEAVING)},
    **{(phase, _V.RENEWED): P.ASSIGNED for phase in (*_LIVE, P.LEAVING)},  # only while the service is updated
}


def next_part_phase(phase: P, trigger: PartTrigger) -> P | None:
    """Where the trigger leads; None when it is not allowed in this phase."""
    return PART_TABLE.get((phase, trigger))


def next_node_state(state: N, trigger: NodeTrigger) -> N | None:
    """Where the trigger leads; None when it is not allowed in this state."""
    return NODE_TABLE.get((state, trigger))


def next_allocation_state(state: A, trigger: AllocationTrigger) -> A | None:
    """Where the trigger leads; None when it is not allowed in this state."""
    return ALLOCATION_TABLE.get((state, trigger))
