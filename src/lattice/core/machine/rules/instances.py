"""Instances of a service: one part per node, which ends, moves and is replaced without the others.

What holds: an instance that its node gives up leaves with its node, and the allocation continues with the others; the last one is
judged as the end of the run. A failed instance moves to another node and counts as one requeue; when no further requeue is
permitted it is given up, and the allocation wants one fewer. After ten minutes of health the count starts again.
See docs/architecture/services.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.transitions import PartTrigger, next_part_phase
from lattice.core.model.services.rollouts import RolloutPhase
from lattice.core.model.work.allocations import (
    ACTIVE,
    INSTANCE_SHIFT,
    Allocation,
    Cause,
    Part,
    PartPhase,
    RequeuePolicy,
    Restart,
)
from lattice.core.model.work.usage import Usage, total_usage

Events = tuple[ev.AnyEvent, ...]
HEALTHY_MS = 600_000  # after this time in health the count of failures starts again


def reported(part: Part, command: cmd.ReportPart, usage: Usage | None, at: int) -> Part:
    """The part of a service that runs, or whose process ended and starts again; a report may tell of both."""
    is_running = command.phase is PartPhase.RUNNING
    trigger = PartTrigger.RUNS if is_running else PartTrigger.RESTARTS
    phase = next_part_phase(part.phase, trigger) or part.phase
    told = replace(part, phase=phase, seq=command.seq, running_since=at if is_running else 0)
    if command.cause is None or (is_running and part.seq == command.seq - 1):
        return told  # there was no end before it, or it is known already
    return with_use(replace(told, **_end(command)), command, usage)


def _end(command: cmd.ReportPart) -> dict[str, object]:
    return {
        "cause": command.cause,
        "exit_code": command.exit_code,
        "signal": command.signal,
        "message": command.message,
    }


def with_use(part: Part, command: cmd.ReportPart, usage: Usage | None) -> Part:
    """What an attempt used comes on top of what earlier ones did."""
    return replace(
        part,
        cpu_s=part.cpu_s + command.cpu_s,
        peak_memory_mb=max(part.peak_memory_mb, command.peak_memory_mb),
        usage=part.usage if usage is None else total_usage((part.usage, usage)),
    )


def ended(allocation: Allocation, before: Part, part: Part, at: int) -> Events | None:
    """What follows when the instance `before` has ended as `part` says; None when the whole allocation is judged by it."""
    if not allocation.has_instances or allocation.state not in ACTIVE:
        return None
    again = _renewed(allocation, before, part)
    if again:
        return again
    others = [each for each in allocation.parts if each.node != part.node and each.phase is not PartPhase.ENDED]
    if not others or part.cause is Cause.WALLTIME:
        return None
    if before.phase is PartPhase.LEAVING:
        return (ev.NodeLeft(number=allocation.number, part=part, message=before.message),)
    if _is_done(allocation, part):
        return _given_up(allocation, part, f"the instance on node {part.node} is done: {how(part)}")
    healthy = is_healthy(before, at)
    if allocation.requeue is RequeuePolicy.NEVER:
        return _given_up(allocation, part, f"the instance on node {part.node} is not replaced: {how(part)}")
    if allocation.requeue_count >= allocation.max_requeue and not (healthy and allocation.max_requeue):
        why = f"after {allocation.requeue_count} requeues the instance of node {part.node} is given up: {how(part)}"
        return _given_up(allocation, part, why)
    message = f"the instance of node {part.node} moves to another node: {how(part)}"
    return (ev.NodeLeft(number=allocation.number, part=part, message=message, counted=True, is_anew=healthy),)


def _renewed(allocation: Allocation, before: Part, part: Part) -> Events:
    """What follows when an instance of a service that is being updated has ended; nothing when the update has no say in it.

    One that was ended for it starts again in its place, if its node is there. One of the new revision that failed for good takes the
    update back, which costs no requeue.
    """
    rollout = allocation.rollout
    if rollout is None or part.cause in (Cause.NODE, Cause.WALLTIME):
        return ()
    if before.phase is PartPhase.LEAVING:
        return (_again(allocation, part),) if part.node in rollout.renewing else ()
    is_good = part.cause is Cause.EXIT and part.exit_code == 0
    if rollout.phase is not RolloutPhase.ROLLING or part.node not in rollout.updated or is_good:
        return ()
    reason = f"the instance on node {part.node} failed: {how(part)}"
    turned = replace(rollout, phase=RolloutPhase.TAKING_BACK, reason=reason)
    return (
        ev.RolloutChanged(number=allocation.number, rollout=turned),
        _again(allocation, part),
    )


def _again(allocation: Allocation, gone: Part) -> ev.InstanceRenewed:
    """With the revision that is wanted when this is folded."""
    part = Part(
        node=gone.node,
        seq=(allocation.last_instance + 1) << INSTANCE_SHIFT,
        joined_at=gone.joined_at,
    )
    return ev.InstanceRenewed(number=allocation.number, gone=gone, part=part)


def is_healthy(part: Part, at: int) -> bool:
    """Whether it ran so long that what went wrong before does not count any more."""
    return bool(part.running_since) and at - part.running_since >= HEALTHY_MS


def runs_again(allocation: Allocation, cause: Cause) -> bool:
    """Whether the service as a whole runs again when its last instance has ended like this."""
    if allocation.restart in (Restart.NONE, Restart.NEVER) or cause is Cause.WALLTIME:
        return False
    return allocation.requeue is not RequeuePolicy.NEVER


def _is_done(allocation: Allocation, part: Part) -> bool:
    """Ended by itself, and not to be started again by what its user asked for."""
    if part.cause in (Cause.NODE, Cause.PROBE, Cause.LAUNCH, Cause.CANCELLED):
        return False
    is_good = part.cause is Cause.EXIT and part.exit_code == 0
    return allocation.restart is Restart.NEVER or (allocation.restart is Restart.ON_FAILURE and is_good)


def _given_up(allocation: Allocation, part: Part, message: str) -> Events:
    return (
        ev.NodeLeft(number=allocation.number, part=part, message=message),
        ev.InstancesWanted(number=allocation.number, wanted=allocation.size - 1),
    )


def how(part: Part) -> str:
    """How an instance ended, in a few words."""
    if part.message:
        return part.message
    return f"signal {part.signal}" if part.signal else f"exit code {part.exit_code}"


def leaving(allocation: Allocation, part: Part, reason: str) -> tuple[ev.PartChanged | ev.RolloutChanged, ...]:
    """The instance is ended; its node goes when it has, be it that an update had other plans with it."""
    gone = ev.PartChanged(number=allocation.number, part=replace(part, phase=PartPhase.LEAVING, message=reason))
    rollout = allocation.rollout
    if rollout is None or part.node not in rollout.renewing:
        return (gone,)
    left = replace(rollout, renewing=tuple(node for node in rollout.renewing if node != part.node))
    return (ev.RolloutChanged(number=allocation.number, rollout=left), gone)


def can_leave(allocation: Allocation, node: str) -> bool:
    """Whether the instance on the node may be taken away without ending the allocation."""
    others = (part for part in allocation.parts if part.node != node)
    return (
        allocation.has_instances
        and allocation.state in ACTIVE
        and any(part.phase not in (PartPhase.LEAVING, PartPhase.ENDED) for part in others)
    )
