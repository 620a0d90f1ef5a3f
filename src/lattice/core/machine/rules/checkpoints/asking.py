"""Checkpoints as other rules ask for them: one that is opened, and one that comes before a run is stopped.

A rule that stops a run to have its nodes asks it for a checkpoint first, where it can write one. What follows is part of the open
checkpoint, so that the run is stopped in the very command in which the checkpoint is complete or has failed, whichever server leads.
See docs/architecture/checkpoints.md.
"""

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger, next_allocation_state
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, StopIntent
from lattice.core.model.work.checkpoints import (
    ROOT,
    TIMEOUT_S,
    CheckpointReason,
    NodeCheckpoint,
    OpenCheckpoint,
    base_directory,
)
from lattice.core.model.work.evictions import VictimPhase

# Why a run is stopped after a checkpoint with this reason.
_INTENT = {  # partial: the other reasons stop nothing
    CheckpointReason.REQUEUE: StopIntent.REQUEUE,
    CheckpointReason.DRAIN: StopIntent.DRAIN,
    CheckpointReason.PREEMPTION: StopIntent.PREEMPT,
}


def opened(state: State, record: Allocation, reason: CheckpointReason, at: int, by: str = "") -> OpenCheckpoint | None:
    """The next checkpoint of a run that is asked for it at `at`; None where the cluster has no place for one."""
    root = setting_value(state.settings, ROOT)
    if not root:
        return None
    n = record.checkpoints.last_n + 1
    label = allocation_id(record.number)
    return OpenCheckpoint(
        n=n,
        run=record.run,
        path=f"{base_directory(root, record.tenant, record.project, label)}/{n}",
        asked_at=at,
        deadline_at=at + int(float(setting_value(state.settings, TIMEOUT_S)) * 1000),
        reason=reason,
        nodes=tuple(NodeCheckpoint(node=node) for node in dict.fromkeys(record.nodes)),
        by=by,
    )


def before_stop(
    state: State, record: Allocation, reason: CheckpointReason, at: int, *, within_ms: int = 0, lost_node: str = ""
) -> ev.CheckpointRequested | ev.CheckpointRevised | None:
    """Asks the run for a checkpoint after which it is stopped; None when it cannot write one, and is to be stopped at once.

    One that is being written already serves. `within_ms` bounds the time that it has.
    """
    if record.checkpoints.way is None or record.paused_at:
        return None
    if next_allocation_state(record.state, AllocationTrigger.CHECKPOINT) is None:
        return None
    is_open = record.checkpoints.open
    if is_open is not None:
        revised = replace(is_open, reason=reason, stops=True, lost_node=lost_node)
        return ev.CheckpointRevised(number=record.number, checkpoint=revised)
    checkpoint = opened(state, record, reason, at)
    if checkpoint is None:
        return None
    deadline_at = min(checkpoint.deadline_at, at + within_ms) if within_ms else checkpoint.deadline_at
    return ev.CheckpointRequested(
        number=record.number,
        checkpoint=replace(checkpoint, stops=True, lost_node=lost_node, deadline_at=deadline_at),
    )


def after_checkpoint(
    state: State, record: Allocation, checkpoint: OpenCheckpoint, *, is_complete: bool
) -> tuple[ev.AllocationStopping, ...]:
    """The stop that the checkpoint was asked for, now that it is over.

    Work that was warned keeps the rest of its time when the checkpoint failed.
    """
    if not checkpoint.stops or (not is_complete and _is_warned(state, record.number)):
        return ()
    intent = _INTENT[checkpoint.reason]
    return (ev.AllocationStopping(number=record.number, intent=intent, lost_node=checkpoint.lost_node),)


def _is_warned(state: State, number: int) -> bool:
    eviction = state.evictions.records.get(state.evictions.takers.get(number, 0))
    victims = () if eviction is None else eviction.victims
    return any(each.number == number and each.phase is VictimPhase.WARNED for each in victims)


def let_go(record: Allocation) -> tuple[ev.CheckpointRevised, ...]:
    """Its nodes are not wanted any more: the run continues after the checkpoint."""
    is_open = record.checkpoints.open
    if is_open is None or not is_open.stops or is_open.reason is not CheckpointReason.PREEMPTION:
        return ()
    return (ev.CheckpointRevised(number=record.number, checkpoint=replace(is_open, stops=False)),)
