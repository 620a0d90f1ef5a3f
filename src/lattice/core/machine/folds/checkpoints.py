"""Folds of the events about checkpoints. See docs/architecture/checkpoints.md."""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.state import State
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.checkpoints import KEEP, KEEP_BYTES, Checkpoints, cut_short, kept_after

CheckpointEvent = (
    ev.CheckpointRequested | ev.CheckpointRevised | ev.CheckpointAdvanced | ev.CheckpointEnded | ev.CheckpointStored
)


def changed_by(state: State, event: CheckpointEvent) -> dict[str, object]:
    """The fields of the allocation that the event changes."""
    record = state.allocations[event.number]
    known = record.checkpoints
    match event:
        case ev.CheckpointRequested():
            asked = replace(known, open=event.checkpoint, last_n=event.checkpoint.n)
            return {"state": AllocationState.CHECKPOINTING, "checkpoints": asked}
        case ev.CheckpointRevised():
            return {"checkpoints": replace(known, open=event.checkpoint)}
        case ev.CheckpointAdvanced():
            is_open = known.open
            return {
                "checkpoints": replace(known, open=None if is_open is None else replace(is_open, nodes=event.nodes))
            }
        case ev.CheckpointEnded():
            return {"state": event.state, "checkpoints": _ended(state, known, event)}
        case ev.CheckpointStored():
            kept = tuple(replace(each, is_stored=True) if each.n == event.n else each for each in known.kept)
            return {"checkpoints": replace(known, kept=kept)}
        case _:
            assert_never(event)


def _ended(state: State, known: Checkpoints, event: ev.CheckpointEnded) -> Checkpoints:
    checkpoint = event.checkpoint
    if event.is_unheard:  # nothing was asked in the end: the number is free again
        return replace(known, open=None, last_n=checkpoint.n - 1, unheard=checkpoint.message)
    if not checkpoint.is_complete:
        return replace(known, open=None, failed=checkpoint, failures=known.failures + 1)
    count = int(setting_value(state.settings, KEEP))
    most = int(setting_value(state.settings, KEEP_BYTES))
    kept = kept_after((*known.kept, checkpoint), count, most)
    return replace(known, open=None, kept=kept, failures=0, unheard="")


def after_run(record: Allocation, at: int) -> Checkpoints:
    """What is left when a run has ended: what was being written is incomplete, and the next run may answer where this one did not."""
    known = record.checkpoints
    if known.open is None:
        return replace(known, unheard="") if known.unheard else known
    return replace(known, open=None, failed=cut_short(known.open, at), failures=known.failures + 1, unheard="")
