"""Why an allocation waits, or stops, in the words that users read everywhere."""

from lattice.core.model.work.allocations import (
    AWAITS_RELEASE,
    Allocation,
    AllocationState,
    Hold,
    StopIntent,
)
from lattice.core.model.work.checkpoints import CheckpointReason
from lattice.core.model.work.dependencies import waiting_sentence

_STOPPING = {  # partial: NODE_LOST and ROLLBACK name a node, see _stopping_reason
    StopIntent.CANCEL: "being cancelled",
    StopIntent.REQUEUE: "being stopped to run again",
    StopIntent.PART_FAILED: "one of its nodes failed, the others are being stopped",
    StopIntent.WALLTIME: "its walltime is over",
    StopIntent.DRAIN: "its node is drained urgently, it will run again",
    StopIntent.DEADLINE: "its deadline is over",
    StopIntent.PREEMPT: "preempted: other work needs its nodes",
    StopIntent.DONE: "it has ended, its other nodes are being cleared",
}
_HELD = {Hold.NONE: "", Hold.USER: "held by its user", Hold.OPERATOR: "held by an operator"}


def _stopping_reason(record: Allocation) -> str:
    if record.intent is None:
        return ""
    if record.intent is StopIntent.NODE_LOST:
        return f"node {record.lost_node} was lost" if record.lost_node else "a node was lost"
    if record.intent is StopIntent.ROLLBACK:
        return f"node {record.lost_node} did not start it in time"
    return _STOPPING[record.intent]


# What follows the checkpoint that it writes.
_LEAVING = {  # partial: after the others it runs on
    CheckpointReason.REQUEUE: "it writes a checkpoint, then it is requeued",
    CheckpointReason.DRAIN: "it writes a checkpoint, then it leaves its nodes: one of them is drained",
    CheckpointReason.PREEMPTION: "it writes a checkpoint, then other work gets its nodes",
}


def _leaving_reason(record: Allocation) -> str:
    is_open = record.checkpoints.open
    return _LEAVING[is_open.reason] if is_open is not None and is_open.stops else ""


def waiting_reason(record: Allocation, explained: str) -> str:
    """Why the allocation waits or stops; `explained` is what the last cycle said of it, or its nodes while it starts."""
    if record.state is AllocationState.STOPPING:
        return _stopping_reason(record)
    if record.state is AllocationState.STARTING:
        return explained
    if record.state is AllocationState.CHECKPOINTING:
        return _leaving_reason(record)
    if not record.is_waiting:
        return ""
    if record.hold is Hold.OPERATOR and record.message.endswith(AWAITS_RELEASE):
        return record.message
    return _HELD[record.hold] or waiting_sentence(record.waits_for) or explained
