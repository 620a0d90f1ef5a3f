"""Runs and their parts: reports from nodes, lost parts, and what an allocation comes to when its last part has ended.

Only the newest run's reports count, only from nodes that have a part in it, only with a rising sequence number, and an ended part stays
ended. Nodes are given back when every part has ended, never before; while results are copied, those that they do not come from are.
See docs/architecture/core.md.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import instances, node_wipes, preparation
from lattice.core.machine.rules.work import prologues
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import (
    AWAITS_RELEASE,
    INSTANCE_SHIFT,
    Allocation,
    AllocationState,
    Cause,
    Hold,
    Part,
    PartPhase,
    RequeuePolicy,
    Restart,
    StopIntent,
)
from lattice.core.model.work.checkpoints import CheckpointReason, cut_short
from lattice.core.model.work.endings import PREEMPTED, cancelled_by
from lattice.core.model.work.evictions import EvictionReason
from lattice.core.model.work.usage import Usage, total_usage

BACKOFF_FIRST_MS = 1_000
MAX_BACKOFF_MS = 60_000

Events = tuple[ev.AnyEvent, ...]


def end(state: State, command: cmd.EndPart, at: int) -> Events:
    return report(state, command.report, at, command.usage)


def begin(state: State, command: cmd.StartPart, at: int) -> Events:
    return report(state, command.report, at, ports=command.ports)


def report(
    state: State,
    command: cmd.ReportPart,
    at: int,
    usage: Usage | None = None,
    ports: tuple[tuple[str, int], ...] = (),
) -> Events:
    """A late, repeated or foreign report is accepted and changes nothing. `usage` may come with the end; None = not said."""
    allocation = state.allocations.get(command.number)
    part = _current_part(allocation, command.run, command.node)
    if allocation is None or part is None or command.seq <= part.seq or part.phase is PartPhase.ENDED:
        return ()
    if allocation.restart is not Restart.NONE:
        return _report_of_service(state, allocation, part, command, usage, ports, at)
    if command.phase is PartPhase.ENDED:
        known = part if usage is None else replace(part, usage=usage)
        ended = part_ended(allocation, _ended_part(allocation, known, command), at)
        return with_emptied(state, prologues.retried(state, allocation, ended), at)
    changed = replace(part, phase=PartPhase.RUNNING, seq=command.seq, ports=ports)
    return (
        ev.PartChanged(number=allocation.number, part=changed),
        *_started(_with_part(allocation, changed), command.elapsed_s),
    )


def _report_of_service(
    state: State,
    allocation: Allocation,
    part: Part,
    command: cmd.ReportPart,
    usage: Usage | None,
    ports: tuple[tuple[str, int], ...],
    at: int,
) -> Events:
    """What an earlier instance on the node still says is history; an instance that its node starts again has not ended."""
    if command.seq >> INSTANCE_SHIFT != part.instance:
        return ()
    if command.phase is PartPhase.ENDED:
        used = instances.with_use(part, command, usage)
        told = replace(_ended_part(allocation, used, command), cpu_s=used.cpu_s, peak_memory_mb=used.peak_memory_mb)
        events = part_ended(allocation, told, at)
        return with_emptied(state, prologues.retried(state, allocation, events), at)
    changed = replace(instances.reported(part, command, usage, at), ports=ports)
    return (
        ev.PartChanged(number=allocation.number, part=changed),
        *_started(_with_part(allocation, changed), command.elapsed_s),
    )


def _ended_part(allocation: Allocation, part: Part, command: cmd.ReportPart) -> Part:
    cause = command.cause or Cause.EXIT
    if command.stopped:
        # A node that stops work on its own account (fencing) gave it up; ordered by the server, it did what it was asked.
        stopping = allocation.state is AllocationState.STOPPING or part.phase is PartPhase.LEAVING
        cause = Cause.CANCELLED if stopping else Cause.NODE
    return replace(
        part,
        phase=PartPhase.ENDED,
        seq=command.seq,
        cause=cause,
        exit_code=command.exit_code,
        signal=command.signal,
        message=command.message,
        cpu_s=command.cpu_s,
        peak_memory_mb=command.peak_memory_mb,
        elapsed_s=command.elapsed_s,
        prologue_failed=command.prologue_failed,
    )


def note_usage(state: State, command: cmd.NoteUsage, _at: int) -> Events:
    """Late, repeated or foreign, it is accepted and changes nothing."""
    allocation = state.allocations.get(command.number)
    part = _current_part(allocation, command.run, command.node)
    if part is None or part.phase is PartPhase.ENDED or part.usage == command.usage:
        return ()
    return (ev.PartChanged(number=command.number, part=replace(part, usage=command.usage)),)


def lose(state: State, command: cmd.LosePart, at: int) -> Events:
    """The node is there and does not know the run: it was lost on the way, or with the node's disk. Judged like a lost node."""
    allocation = state.allocations.get(command.number)
    part = _current_part(allocation, command.run, command.node)
    if allocation is None or part is None or part.phase is PartPhase.ENDED:
        return ()
    return with_emptied(state, node_lost(allocation, command.node, f"node {command.node} lost the run", at), at)


def expire(state: State, command: cmd.ExpireAllocation) -> Events | Rejected:
    """The server's own check of the walltime. Nodes end work by themselves; this is for those that did not."""
    allocation = state.allocations.get(command.number)
    stale = allocation is None or allocation.run != command.run or not allocation.is_running
    if stale:
        return Rejected(code="stale", message=f"{allocation_id(command.number)} is not at run {command.run}")
    return (ev.AllocationStopping(number=command.number, intent=StopIntent.WALLTIME),)


def roll_back(state: State, command: cmd.RollbackRun) -> Events | Rejected:
    """Only a run that waits for this very node; one that runs by now is left alone."""
    allocation = state.allocations.get(command.number)
    part = _current_part(allocation, command.run, command.node)
    if allocation is not None and part is not None and _is_late_instance(allocation, part):
        return instances.leaving(allocation, part, f"node {command.node} did not start its instance in time")
    starting = allocation is not None and allocation.state is AllocationState.STARTING
    if not starting or part is None or part.phase is not PartPhase.ASSIGNED:
        label = allocation_id(command.number)
        return Rejected(code="stale", message=f"{label} does not wait for node {command.node} at run {command.run}")
    return (ev.AllocationStopping(number=command.number, intent=StopIntent.ROLLBACK, lost_node=command.node),)


def _is_late_instance(allocation: Allocation, part: Part) -> bool:
    """One that came after the others; the allocation runs without it."""
    return part.phase is PartPhase.ASSIGNED and bool(part.instance) and instances.can_leave(allocation, part.node)


def part_ended(allocation: Allocation, part: Part, at: int) -> Events:
    """One part has ended: the whole has ended with the last; a failed one takes the others along, unless it is an instance."""
    before = next(each for each in allocation.parts if each.node == part.node)
    alone = instances.ended(allocation, before, part, at)
    if alone is not None and any(isinstance(event, ev.InstanceRenewed) for event in alone):
        return alone
    if alone is not None:
        return (*alone, *_started(_without(allocation, part.node)))
    if preparation.is_given_back(allocation, before, part):
        return (ev.NodeLeft(number=allocation.number, part=part),)
    changed = _with_part(allocation, part)
    events: Events = (ev.PartChanged(number=allocation.number, part=part),)
    if _all_ended(changed):
        return (*events, conclude(changed, at))
    if allocation.state is AllocationState.STOPPING:
        return events
    if _is_bad(part):
        return (*events, ev.AllocationStopping(number=allocation.number, intent=StopIntent.PART_FAILED))
    if all(each.phase is PartPhase.ENDED for each in changed.launched):
        return (*events, ev.AllocationStopping(number=allocation.number, intent=StopIntent.DONE))
    return (*events, *_started(changed))


def node_lost(allocation: Allocation, node: str, message: str, at: int) -> Events:
    """A node of the allocation is gone, with its part if it had one."""
    events: list[ev.AnyEvent] = []
    part = next((p for p in allocation.parts if p.node == node and p.phase is not PartPhase.ENDED), None)
    changed = allocation
    if part is not None:
        lost = replace(part, phase=PartPhase.ENDED, cause=Cause.NODE, message=message)
        alone = instances.ended(allocation, part, lost, at)
        if alone is not None:
            return (*alone, *_started(_without(allocation, node)))
        if preparation.is_given_back(allocation, part, lost):
            return (ev.NodeLeft(number=allocation.number, part=lost),)
        gone = replace(part, phase=PartPhase.ENDED, cause=Cause.NODE, message=message)
        events.append(ev.PartChanged(number=allocation.number, part=gone))
        changed = _with_part(allocation, gone)
    if allocation.state is not AllocationState.STOPPING:
        events.append(ev.AllocationStopping(number=allocation.number, intent=StopIntent.NODE_LOST, lost_node=node))
        changed = replace(changed, state=AllocationState.STOPPING, intent=StopIntent.NODE_LOST, lost_node=node)
    if _all_ended(changed):
        events.append(conclude(changed, at))
    return tuple(events)


def conclude(allocation: Allocation, at: int) -> ev.AllocationEnded | ev.AllocationRequeued:
    """What becomes of an allocation whose parts have all ended, by what was intended or else by how they ended."""
    bad = next((part for part in allocation.parts if _is_bad(part)), None)
    intent = allocation.intent
    if intent is StopIntent.CANCEL:
        part = bad or allocation.parts[0]
        ended = _end(allocation, AllocationTrigger.CANCEL, Cause.CANCELLED, part)
        by = allocation.cancelled_by
        return replace(ended, message=cancelled_by(by, part.message), by=by)
    if intent is StopIntent.REQUEUE:
        return ev.AllocationRequeued(
            number=allocation.number,
            counted=False,
            eligible_at=0,
            message="requeued by its user",
            elapsed_s=_elapsed_s(allocation),
            suspended=_wrote_for_requeue(allocation),
        )
    if intent is StopIntent.DONE:
        return _end(allocation, AllocationTrigger.COMPLETE, Cause.EXIT, allocation.parts[0])
    if intent is StopIntent.NODE_LOST:
        gone = Part(node=allocation.lost_node, message=f"node {allocation.lost_node} was lost")
        return _fail(allocation, Cause.NODE, gone, at)
    if intent is StopIntent.DEADLINE:
        return _end(allocation, AllocationTrigger.FAIL, Cause.DEADLINE, allocation.parts[0])
    if intent is StopIntent.WALLTIME:
        return _fail(allocation, Cause.WALLTIME, allocation.parts[0], at)
    if intent is StopIntent.DRAIN and not (bad is None and _ended_by_itself(allocation)):
        return _drained(allocation)
    if intent is StopIntent.PREEMPT and not (bad is None and _ended_by_itself(allocation)):
        return _preempted(allocation)
    if intent is StopIntent.ROLLBACK and bad is None and not _ended_by_itself(allocation):
        return _rolled_back(allocation, at)
    if bad is None:
        return _end(allocation, AllocationTrigger.COMPLETE, Cause.EXIT, allocation.parts[0])
    return _fail(allocation, bad.cause or Cause.EXIT, bad, at)


def _drained(allocation: Allocation) -> ev.AllocationEnded | ev.AllocationRequeued:
    """Not a failure of the work, so it is not counted; only work that may never run again ends."""
    gone = Part(node=allocation.lost_node, message=f"node {allocation.lost_node} was drained urgently")
    if allocation.requeue is RequeuePolicy.NEVER:
        return _end(allocation, AllocationTrigger.FAIL, Cause.NODE, gone)
    return ev.AllocationRequeued(
        number=allocation.number,
        counted=False,
        eligible_at=0,
        message=f"requeued: {gone.message}",
        elapsed_s=_elapsed_s(allocation),
        suspended=_can_continue(allocation),
    )


def _preempted(allocation: Allocation) -> ev.AllocationEnded | ev.AllocationRequeued:
    """Not a failure of the work either; work that may never run again ends here."""
    if allocation.requeue is RequeuePolicy.NEVER:
        part = replace(allocation.parts[0], message=PREEMPTED)
        return _end(allocation, AllocationTrigger.FAIL, Cause.PREEMPTED, part)
    return ev.AllocationRequeued(
        number=allocation.number,
        counted=False,
        preempted=True,
        eligible_at=0,
        message=PREEMPTED,
        elapsed_s=_elapsed_s(allocation),
        suspended=_can_continue(allocation),
    )


def _can_continue(allocation: Allocation) -> bool:
    """Whether its next run continues from a checkpoint: then it is Suspended meanwhile."""
    return allocation.checkpoints.newest is not None


def _wrote_for_requeue(allocation: Allocation) -> bool:
    """A requeue without a checkpoint of its own leaves it Pending, as it always did."""
    newest = allocation.checkpoints.newest
    return newest is not None and newest.run == allocation.run and newest.reason is CheckpointReason.REQUEUE


def _rolled_back(allocation: Allocation, at: int) -> ev.AllocationEnded | ev.AllocationRequeued:
    """Back in the queue as if nothing had been; work that did run somewhere is subject to the policy for lost nodes."""
    slow = Part(node=allocation.lost_node, message=f"node {allocation.lost_node} did not start it in time")
    if any(_has_run(part) for part in allocation.launched):
        return _fail(allocation, Cause.NODE, slow, at)
    return ev.AllocationRequeued(
        number=allocation.number, counted=False, eligible_at=0, message=f"requeued: {slow.message}"
    )


# After which causes work runs again at once.
_AGAIN = {  # partial: the policies that depend on the cause
    RequeuePolicy.ON_NODE_FAILURE: (Cause.NODE,),
    RequeuePolicy.ON_WALLTIME: (Cause.NODE, Cause.WALLTIME),
}


def _fail(allocation: Allocation, cause: Cause, part: Part, at: int) -> ev.AllocationEnded | ev.AllocationRequeued:
    """The end of a run that did not do its work: again, where the user's policy and the count of tries allow it."""
    again = allocation.requeue is RequeuePolicy.ALWAYS or cause in _AGAIN.get(allocation.requeue, ())
    again = again or instances.runs_again(allocation, cause)
    is_anew = allocation.restart is not Restart.NONE and any(
        instances.is_healthy(each, at) for each in allocation.parts
    )
    if not again or (allocation.requeue_count >= allocation.max_requeue and not (is_anew and allocation.max_requeue)):
        return _end(allocation, AllocationTrigger.FAIL, cause, part)
    # A lost node is not the work's fault, so there is no delay; a failing program is retried with growing delays.
    backoff = min(BACKOFF_FIRST_MS << allocation.requeue_count, MAX_BACKOFF_MS)
    return ev.AllocationRequeued(
        number=allocation.number,
        counted=True,
        eligible_at=0 if cause in _AGAIN.get(allocation.requeue, (Cause.NODE,)) else at + backoff,
        message=f"requeued after {cause}: {part.message or _how(part)}",
        elapsed_s=_elapsed_s(allocation),
        is_anew=is_anew,
    )


_END_STATE = {  # partial: the triggers that end an allocation
    AllocationTrigger.COMPLETE: AllocationState.COMPLETED,
    AllocationTrigger.FAIL: AllocationState.FAILED,
    AllocationTrigger.CANCEL: AllocationState.CANCELLED,
}


def _end(allocation: Allocation, trigger: AllocationTrigger, cause: Cause, part: Part) -> ev.AllocationEnded:
    """`part` is the one that stands for all: users see its exit code, signal and message. Amounts are those of all parts.

    A code is shown only where a process ended by itself with it; that of work that was cancelled says nothing.
    """
    exited = part.cause in (Cause.EXIT, Cause.CANCELLED, Cause.WALLTIME) and not part.signal
    has_code = exited and part.phase is PartPhase.ENDED and cause not in (Cause.CANCELLED, Cause.PREEMPTED)
    return ev.AllocationEnded(
        number=allocation.number,
        trigger=trigger,
        state=_END_STATE[trigger],
        cause=cause,
        exit_code=part.exit_code if has_code else None,
        signal=part.signal,
        message=part.message,
        cpu_s=allocation.cpu_s + sum(p.cpu_s for p in allocation.parts),
        peak_memory_mb=max((allocation.peak_memory_mb, *(p.peak_memory_mb for p in allocation.parts))),
        usage=total_usage((allocation.usage, *(p.usage for p in allocation.parts))),
        elapsed_s=_elapsed_s(allocation),
    )


def _elapsed_s(allocation: Allocation) -> float:
    """How long the run took, when every part says so: a report may arrive long after the end it reports.

    A node of a service knows only the last attempt.
    """
    if allocation.restart is not Restart.NONE:
        return 0.0
    times = [part.elapsed_s for part in allocation.launched]
    return max(times) if all(times) else 0.0


def cancelled(allocation: Allocation, by: str = "") -> ev.AllocationEnded:
    """The end of an allocation that never started; `by` = another user who cancelled it."""
    return ev.AllocationEnded(
        number=allocation.number,
        trigger=AllocationTrigger.CANCEL,
        state=AllocationState.CANCELLED,
        cause=Cause.CANCELLED,
        message=cancelled_by(by),
        by=by,
    )


def with_emptied(state: State, events: Events, at: int) -> Events:
    """Adds what becomes of the nodes when these events end their holders, and says of requeued work what it waits for."""
    gone = {event.number for event in events if isinstance(event, ev.AllocationEnded | ev.AllocationRequeued)}
    left = tuple(
        move
        for event in events
        if isinstance(event, ev.NodeLeft)
        for move in node_wipes.left_node(state, event.number, event.part.node, at)
    )
    if not gone:
        return (*events, *left)
    told = tuple(each for event in events for each in (*_unfinished(state, event, at), _told(state, event)))
    return (*told, *node_wipes.left(state, gone, at))


def _unfinished(state: State, event: ev.AnyEvent, at: int) -> Events:
    """The end of a checkpoint that was still being written when the last process had gone."""
    if not isinstance(event, ev.AllocationEnded | ev.AllocationRequeued):
        return ()
    record = state.allocations[event.number]
    if record.checkpoints.open is None:
        return ()
    lost = cut_short(record.checkpoints.open, at)
    return (ev.CheckpointEnded(number=record.number, checkpoint=lost, state=record.state),)


def _told(state: State, event: ev.AnyEvent) -> ev.AnyEvent:
    """Why an urgent drain took the work; and that sensitive work runs again only when an operator says so."""
    if not isinstance(event, ev.AllocationEnded | ev.AllocationRequeued):
        return event
    record = state.allocations[event.number]
    was_drained = record.intent is StopIntent.DRAIN
    reason = state.nodes[record.lost_node].reason if was_drained and event.message else ""
    if record.intent is StopIntent.PREEMPT and event.message == PREEMPTED:
        reason = taken_for(state, record)
    message = f"{event.message}: {reason}" if reason else event.message
    if isinstance(event, ev.AllocationEnded):
        return replace(event, message=message)
    if record.vcluster not in state.audit.sensitive or not (event.counted or was_drained):
        return replace(event, message=message)
    return replace(event, message=f"{message}; {AWAITS_RELEASE}", hold=Hold.OPERATOR)


def taken_for(state: State, record: Allocation) -> str:
    """For what kind of work it was taken, without saying whose that is."""
    eviction = state.evictions.records.get(state.evictions.takers.get(record.number, 0))
    if eviction is None:
        return ""
    if eviction.reason is EvictionReason.RECLAIM:
        return "the nodes were borrowed and are needed at home"
    return f"work of class {state.allocations[eviction.number].preemption_class} needs its nodes"


def _current_part(allocation: Allocation | None, run: int, node: str) -> Part | None:
    """The part that a report may be about. None for another run: what an earlier one still says is history."""
    if allocation is None or allocation.run != run or not allocation.is_holding:
        return None
    return next((part for part in allocation.parts if part.node == node), None)


def _with_part(allocation: Allocation, part: Part) -> Allocation:
    return replace(allocation, parts=tuple(part if p.node == part.node else p for p in allocation.parts))


def _without(allocation: Allocation, node: str) -> Allocation:
    """The allocation as it is after the instance on the node has left, as far as its start goes."""
    return replace(allocation, parts=tuple(each for each in allocation.parts if each.node != node))


def _all_ended(allocation: Allocation) -> bool:
    return all(part.phase is PartPhase.ENDED for part in allocation.parts)


def _ended_by_itself(allocation: Allocation) -> bool:
    return all(part.cause is not Cause.CANCELLED for part in allocation.launched)


def _has_run(part: Part) -> bool:
    """Whether a process existed, as far as the end tells."""
    return part.cause is not Cause.CANCELLED or bool(part.signal or part.exit_code) or part.cpu_s > 0


def _started(allocation: Allocation, elapsed_s: float = 0.0) -> Iterable[ev.AnyEvent]:
    """It runs when its last part does; a part that ended well before that counts as one that ran."""
    if allocation.state is AllocationState.STARTING and not any(
        part.phase is PartPhase.ASSIGNED for part in allocation.parts
    ):
        return (ev.AllocationStarted(number=allocation.number, elapsed_s=elapsed_s),)
    return ()


def _is_bad(part: Part) -> bool:
    """Ended by itself and not with exit code 0."""
    if part.phase is not PartPhase.ENDED or part.cause is Cause.CANCELLED:
        return False
    return part.cause is not Cause.EXIT or part.exit_code != 0


def _how(part: Part) -> str:
    return f"signal {part.signal}" if part.signal else f"exit code {part.exit_code}"
