"""Requests for checkpoints, what nodes say of them, and what each comes to.

One request at a time per allocation. It is complete when every node that could answer is done and the MANIFEST is in place; one node
that failed fails it. After either end the work continues, unless it was asked because it is to be stopped. A request outlives the
order to stop the work: what is complete before the last process has gone counts. See docs/architecture/checkpoints.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.checkpoints.asking import after_checkpoint, opened
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger, next_allocation_state
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.core.model.work.checkpoints import (
    MAX_MESSAGE,
    Checkpoint,
    CheckpointPhase,
    NodeCheckpoint,
    OpenCheckpoint,
)

Events = tuple[ev.AnyEvent, ...]
_P = CheckpointPhase
# What a node may say after what it said before; anything else is a repetition, or late.
_NEXT = {  # partial: the other phases are final
    _P.ASKED: (_P.DONE, _P.NOTHING, _P.FAILED, _P.SEALED),
    _P.DONE: (_P.SEALED, _P.FAILED),
}


def request(state: State, command: cmd.RequestCheckpoint, actor: str, at: int) -> Events | Rejected:
    """Only of running work that said how it is asked. A repeated request joins the one that is open."""
    record = _running(state, command)
    if isinstance(record, Rejected):
        return record
    if record.checkpoints.open is not None:
        return ()
    checkpoint = opened(state, record, command.reason, at, "" if actor == record.user else actor)
    if checkpoint is None:
        return no_root()
    return (ev.CheckpointRequested(number=record.number, checkpoint=checkpoint),)


def _running(state: State, command: cmd.RequestCheckpoint) -> Allocation | Rejected:
    label = allocation_id(command.number)
    if command.number in state.groups:
        return Rejected(code="invalid", message=f"{label} is a task group", hint="Name one of its running tasks.")
    record = state.find(command.number)
    if record is None:
        return Rejected(code="not_found", message=f"no allocation {label}")
    if command.run and record.run != command.run:
        return Rejected(code="stale", message=f"{label} is not at run {command.run}")
    if record.checkpoints.way is None:
        return not_checkpointable(record)
    if next_allocation_state(record.state, AllocationTrigger.CHECKPOINT) is None:
        return Rejected(code="conflict", message=f"{label} is {record.state}; only running work writes checkpoints")
    if record.paused_at:
        return Rejected(
            code="conflict", message=f"{label} is suspended and cannot answer", hint=f"lattice resume {label}"
        )
    return record


def not_checkpointable(record: Allocation) -> Rejected:
    return Rejected(
        code="conflict",
        message=f"{allocation_id(record.number)} was submitted without --checkpoint: it cannot be asked for one",
        hint="Submit it with --checkpoint=signal, --checkpoint=shmem or --checkpoint=grpc.",
    )


def no_root() -> Rejected:
    return Rejected(
        code="conflict",
        message="this cluster has no place for checkpoints: checkpoint.root is not set",
        hint="An administrator sets it: lattice admin config set checkpoint.root DIRECTORY.",
    )


def report(state: State, command: cmd.ReportCheckpoint, at: int) -> Events:
    """What a node says. Late, repeated or foreign, it is accepted and changes nothing."""
    record = state.allocations.get(command.number)
    checkpoint = None if record is None else record.checkpoints.open
    if record is None or checkpoint is None or (checkpoint.n, checkpoint.run) != (command.n, command.run):
        return ()
    before = next((each for each in checkpoint.nodes if each.node == command.node), None)
    if before is None or command.phase not in _NEXT.get(before.phase, ()):
        return ()
    said = NodeCheckpoint(
        node=command.node,
        phase=command.phase,
        bytes=max(0, command.bytes) or before.bytes,
        elapsed_s=max(0.0, command.elapsed_s) or before.elapsed_s,
        message=command.message[:MAX_MESSAGE],
    )
    nodes = tuple(said if each.node == said.node else each for each in checkpoint.nodes)
    return _judge(state, record, replace(checkpoint, nodes=nodes), at)


def _judge(state: State, record: Allocation, checkpoint: OpenCheckpoint, at: int) -> Events:
    """What the words of all nodes come to. The order of the questions is the order in which they outrank each other: a failure ends it
    although others are still writing, and nothing is complete before the MANIFEST, which a node writes last (sealed)."""
    nodes = checkpoint.nodes
    failed = next((each for each in nodes if each.phase is _P.FAILED), None)
    if failed is not None:
        return _end(state, record, checkpoint, at, message=f"node {failed.node}: {failed.message or 'it failed'}")
    if any(each.phase is _P.ASKED for each in nodes):
        return (ev.CheckpointAdvanced(number=record.number, nodes=nodes),)
    if any(each.phase is _P.SEALED for each in nodes):
        return _end(state, record, checkpoint, at)
    if any(each.phase is _P.DONE for each in nodes):
        return (ev.CheckpointAdvanced(number=record.number, nodes=nodes),)
    why = next((each.message for each in nodes if each.message), "none of its processes could answer")
    return _end(state, record, checkpoint, at, message=why, is_unheard=True)


def expire(state: State, command: cmd.ExpireCheckpoint, at: int) -> Events | Rejected:
    """The leader's judgement that no more will be heard of it."""
    record = state.allocations.get(command.number)
    checkpoint = None if record is None else record.checkpoints.open
    if record is None or checkpoint is None or checkpoint.n != command.n:
        label = allocation_id(command.number)
        return Rejected(code="stale", message=f"{label} is not at checkpoint {command.n}")
    return _end(state, record, checkpoint, at, message=command.message[:MAX_MESSAGE])


def note_stored(state: State, command: cmd.NoteCheckpointStored) -> Events | Rejected:
    """Of work that has ended, too: other work may continue from it. Repeated, it changes nothing."""
    record = state.allocations.get(command.number)
    kept = () if record is None else record.checkpoints.kept
    found = next((each for each in kept if each.n == command.n), None)
    if found is None:
        label = allocation_id(command.number)
        return Rejected(code="stale", message=f"{label} does not keep checkpoint {command.n}")
    return () if found.is_stored else (ev.CheckpointStored(number=command.number, n=command.n),)


def _end(
    state: State,
    record: Allocation,
    checkpoint: OpenCheckpoint,
    at: int,
    *,
    message: str = "",
    is_unheard: bool = False,
) -> Events:
    wrote = [each for each in checkpoint.nodes if each.phase in (_P.DONE, _P.SEALED)]
    ended = Checkpoint(
        n=checkpoint.n,
        run=checkpoint.run,
        path=checkpoint.path,
        asked_at=checkpoint.asked_at,
        ended_at=at,
        is_complete=not message,
        reason=checkpoint.reason,
        bytes=sum(each.bytes for each in wrote),
        elapsed_s=max((each.elapsed_s for each in wrote), default=0.0),
        nodes=len(wrote),
        message=message,
        sealed_by=next((each.node for each in wrote if each.phase is _P.SEALED), ""),
    )
    is_active = record.state is AllocationState.CHECKPOINTING
    done = ev.CheckpointEnded(
        number=record.number,
        checkpoint=ended,
        state=AllocationState.RUNNING if is_active else record.state,
        is_unheard=is_unheard,
    )
    follows = after_checkpoint(state, record, checkpoint, is_complete=not message) if is_active else ()
    return (done, *follows)
