"""Folds of the events about checkpoints. See docs/architecture/checkpoints.md."""

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.checkpoints import KEEP, KEEP_BYTES, Checkpoint, Checkpoints, kept_after

CheckpointEvent = ev.CheckpointRequested | ev.CheckpointAdvanced | ev.CheckpointEnded


def changed_by(state: State, event: CheckpointEvent) -> dict[str, object]:
    """The fields of the allocation that the event changes."""
    record = state.allocations[event.number]
    known = record.checkpoints
    match event:
        case ev.CheckpointRequested():
            asked = replace(known, open=event.checkpoint, last_n=event.checkpoint.n)
            return {"state": AllocationState.CHECKPOINTING, "checkpoints": asked}
        case ev.CheckpointAdvanced():
            is_open = known.open
            return {
                "checkpoints": replace(known, open=None if is_open is None else replace(is_open, nodes=event.nodes))
            }
        case ev.CheckpointEnded():
            return {"state": event.state, "checkpoints": _ended(state, known, event)}


def _ended(state: State, known: Checkpoints, event: ev.CheckpointEnded) -> Checkpoints:
    checkpoint = event.checkpoint
    if not checkpoint.is_complete:
        unheard = checkpoint.message if event.is_unheard else known.unheard
        return replace(known, open=None, failed=checkpoint, failures=known.failures + 1, unheard=unheard)
    count = int(setting_value(state.settings, KEEP))
    most = int(setting_value(state.settings, KEEP_BYTES))
    kept = kept_after((*known.kept, checkpoint), count, most)
    return replace(known, open=None, kept=kept, failures=0, unheard="")


def after_run(record: Allocation, at: int) -> Checkpoints:
    """What is left when a run has ended: what was being written is incomplete, and the next run may answer where this one did not."""
    known = record.checkpoints
    if known.open is None:
        return replace(known, unheard="") if known.unheard else known
    is_open = known.open
    lost = Checkpoint(
        n=is_open.n,
        run=is_open.run,
        path=is_open.path,
        asked_at=is_open.asked_at,
        ended_at=at,
        reason=is_open.reason,
        message="the run ended before it was complete",
    )
    return replace(known, open=None, failed=lost, failures=known.failures + 1, unheard="")
