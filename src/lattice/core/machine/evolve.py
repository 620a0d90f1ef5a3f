"""Folds one event into the state. The only code that writes to State; it cannot refuse and may not fail.

Before: the event was decided on exactly this state. After: every invariant holds again once all events of one command
are folded (a node is given back in the same command in which its last holder ended).

Theory. The state is a fold over the log, and the log is the truth: a replica that folds the same entries from the same beginning has the
same state. Three things follow. A fold depends on nothing but the state, the event and the time of the command: no clock, no
order of a set, no float that differs between machines. A fold does not judge: refusing is the business of `decide`, which saw the
same state a moment before; an event that does not fit is a defect, and raising stops the replica before it can differ from the
others. And a fold writes records, never parts of them: records are frozen and replaced as a whole by `State.put_*`, which update
the digest and every derived count in the same step, so that no reader finds the one without the other.

What an event means may never change once it was written to a log. A new meaning is a new event, or a field whose default is the
old meaning: old logs are folded by this code too. See docs/architecture/core.md.
"""

from typing import assert_never

from msgspec.structs import replace

from lattice.core.machine import events as ev
from lattice.core.machine.folds.admission import evolve_admission
from lattice.core.machine.folds.checkpoints import after_run, changed_by
from lattice.core.machine.folds.drift import evolve_drift
from lattice.core.machine.folds.evictions import EvictionEvent, evolve_eviction
from lattice.core.machine.folds.groups import canceller, evolve_group, with_use
from lattice.core.machine.folds.holdings import before, end_of, enter_time, give_back, take
from lattice.core.machine.folds.instances import evolve_instance
from lattice.core.machine.folds.revisions import RevisionEvent, evolve_revision
from lattice.core.machine.folds.site import evolve_site
from lattice.core.machine.folds.specified import evolve_specification
from lattice.core.machine.folds.staging import StagingEvent, evolve_staging
from lattice.core.machine.parts.node_history import NodeHistoryEntry, registration_entry
from lattice.core.machine.state import State
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.services.rollouts import started
from lattice.core.model.telemetry.modes import ACCESS_FEATURE, Mode
from lattice.core.model.work.allocations import (
    MAX_TAKEN,
    Allocation,
    AllocationState,
    Cause,
    Hold,
    TakenRun,
    TaskGroup,
)
from lattice.core.model.work.efficiency import held_amounts
from lattice.core.model.work.steps import Watcher, with_step
from lattice.core.model.work.usage import NO_USAGE

FAILED_WITHOUT_CODE = 125


def evolve(state: State, event: ev.AnyEvent, at: int) -> None:
    """Folds `event`, which happened at `at`."""
    match event:
        case ev.PartChanged() | ev.NodeJoined() | ev.NodeLeft() | ev.InstancesWanted() | ev.InstanceRenewed():
            evolve_instance(state, event, at)
        case (
            ev.AllocationSubmitted()
            | ev.AllocationPlaced()
            | ev.AllocationStarted()
            | ev.ServiceRevised()
            | ev.RolloutChanged()
        ):
            _evolve_run(state, event, at)
        case ev.AllocationEnded() | ev.StepsRecorded() | ev.AllocationStopping() | ev.AllocationRequeued():
            _evolve_end(state, event, at)
        case ev.CheckpointRequested() | ev.CheckpointRevised() | ev.CheckpointAdvanced() | ev.CheckpointEnded():
            _change(state, event.number, **changed_by(state, event))
        case (
            ev.AllocationHeld()
            | ev.AllocationReleased()
            | ev.AllocationUpdated()
            | ev.AllocationsArchived()
            | ev.TimeLimitNeared()
            | ev.AlertNoted()
            | ev.TerminalShared()
            | ev.AllocationPaused()
            | ev.CheckpointStored()
        ):
            _evolve_request(state, event, at)
        case ev.TaskGroupSubmitted() | ev.TaskReleased() | ev.TasksCancelled() | ev.TaskGroupHeld() | ev.TasksFolded():
            evolve_group(state, event, at)
        case ev.NodeRegistered() | ev.NodeMoved() | ev.NodeSpecified() | ev.NodeMeasured():
            _evolve_node(state, event, at)
        case ev.WaitChanged() | ev.TasksUnblocked() | ev.DagSubmitted() | ev.DagCancelled() | ev.DagEnded():
            _evolve_dependency(state, event, at)
        case (
            ev.EvictionBegan()
            | ev.EvictionChanged()
            | ev.EvictionEnded()
            | ev.CopyChanged()
            | ev.CopyForgotten()
            | ev.AllocationStaged()
        ):
            _evolve_room(state, event)
        case ev.NodeJudged() | ev.NodeEnrolled():
            evolve_admission(state, event, at)
        case (
            ev.DriftNoted()
            | ev.DriftEscalated()
            | ev.DriftVerified()
            | ev.DriftCleared()
            | ev.BaselineSet()
            | ev.BaselineUnset()
            | ev.FingerprintAccepted()
            | ev.FingerprintForgotten()
        ):
            evolve_drift(state, event, at)
        case _:
            evolve_site(state, event)


def _evolve_room(state: State, event: EvictionEvent | StagingEvent) -> None:
    """Nodes and data that are made ready for work before it starts."""
    match event:
        case ev.CopyChanged() | ev.CopyForgotten() | ev.AllocationStaged():
            evolve_staging(state, event)
        case _:
            evolve_eviction(state, event)


_EndEvent = ev.AllocationEnded | ev.StepsRecorded | ev.AllocationStopping | ev.AllocationRequeued
_RunEvent = RevisionEvent | ev.AllocationSubmitted | ev.AllocationPlaced | ev.AllocationStarted
_RequestEvent = (
    ev.AllocationHeld
    | ev.AllocationReleased
    | ev.AllocationUpdated
    | ev.AllocationsArchived
    | ev.TimeLimitNeared
    | ev.AlertNoted
    | ev.TerminalShared
    | ev.AllocationPaused
    | ev.CheckpointStored
)
_NodeEvent = ev.NodeRegistered | ev.NodeMoved | ev.NodeSpecified | ev.NodeMeasured


def _evolve_end(state: State, event: _EndEvent, at: int) -> None:
    """A run on its way to its end. Whatever ends it gives its nodes back in the same command, so no node ever lacks the holder it names."""
    match event:
        case ev.AllocationEnded():
            _ended(state, event, at)
        case ev.StepsRecorded():
            _steps_recorded(state, event)
        case ev.AllocationStopping():
            _stopping(state, event, at)
        case ev.AllocationRequeued():
            _requeued(state, event, at)
        case _:
            assert_never(event)


_DependencyEvent = ev.WaitChanged | ev.TasksUnblocked | ev.DagSubmitted | ev.DagCancelled | ev.DagEnded


def _evolve_dependency(state: State, event: _DependencyEvent, at: int) -> None:
    registry = state.dependencies
    match event:
        case ev.WaitChanged():
            _wait_changed(state, event)
        case ev.TasksUnblocked():
            group = replace(state.groups[event.group], task_waits=event.waits)
            state.put_group(replace(group, blocked=group.blocked_now()))
        case ev.DagSubmitted():
            registry.put_dag(event.dag)
            state.next_number = event.dag.number + 1
        case ev.DagCancelled():
            registry.put_dag(replace(registry.dags[event.dag], cancelled_by=event.by))
        case ev.DagEnded():
            registry.put_dag(replace(registry.dags[event.dag], state=event.state, ended_at=at, counts=event.counts))
        case _:
            assert_never(event)


def _wait_changed(state: State, event: ev.WaitChanged) -> None:
    """For a group the template waits, for all tasks that are still folded into it; tasks of their own have left it by then."""
    group = state.groups.get(event.number)
    if group is None:
        _change(state, event.number, waits_for=event.waits_for, eligible_at=event.eligible_at)
        return
    template = replace(group.template, waits_for=event.waits_for, eligible_at=event.eligible_at)
    group = replace(group, template=template)
    state.put_group(replace(group, blocked=group.blocked_now()))


# allocations


def _evolve_run(state: State, event: _RunEvent, at: int) -> None:
    match event:
        case ev.AllocationSubmitted():
            state.put_allocation(event.allocation)
            state.put_payload(event.allocation.number, event.payload)
            state.next_number = event.allocation.number + 1
        case ev.AllocationPlaced():
            _placed(state, event)
        case ev.ServiceRevised() | ev.RolloutChanged():
            evolve_revision(state, event)
        case ev.AllocationStarted():
            started_at = before(at, event.elapsed_s, state.allocations[event.number])
            _change(state, event.number, state=AllocationState.RUNNING, started_at=started_at, prologue_failures=0)
        case _:
            assert_never(event)


def _evolve_request(state: State, event: _RequestEvent, at: int) -> None:
    match event:
        case ev.AllocationPaused():
            _paused(state, event, at)
        case ev.AllocationHeld():
            _change(state, event.number, hold=event.hold)
        case ev.AllocationReleased():
            _change(state, event.number, hold=Hold.NONE)
        case ev.AllocationUpdated():
            _updated(state, event)
        case ev.AllocationsArchived():
            _archived(state, event)
        case ev.TimeLimitNeared():
            _change(state, event.number, limit_noted=event.percent)
        case ev.AlertNoted():
            _change(state, event.number, alerted=(*state.allocations[event.number].alerted, event.rule))
        case ev.TerminalShared():
            _shared(state, event)
        case ev.CheckpointStored():
            _change(state, event.number, **changed_by(state, event))
        case _:
            assert_never(event)


def _change(state: State, number: int, /, **changes: object) -> Allocation:
    """Puts the changed record and, for a task, the changed counters of its group."""
    old = state.allocations[number]
    new = replace(old, **changes)
    state.put_allocation(new)
    if old.group and old.state is not new.state and old.group in state.groups:
        state.put_group(_recount(state.groups[old.group], old, new))
    return new


def _recount(group: TaskGroup, old: Allocation, new: Allocation) -> TaskGroup:
    """The group's counters after one of its tasks changed its state.

    Counters are differences, never recounts: a group has up to 100,000 tasks. `checks/invariants.py` recounts in tests. The group
    shows the worst end of its tasks, the first of equals, so the order in which reports come in decides between these only.
    """
    if new.state is AllocationState.FAILED and _badness(new) > _badness(group):
        group = replace(group, cause=new.cause, exit_code=new.exit_code, signal=new.signal)
    if new.held_cpus:
        group = with_use(group, new)
    if new.state is AllocationState.CANCELLED:
        group = replace(group, cancelled_by=canceller(group, new.cancelled_by))
    return replace(
        group,
        started_at=group.started_at or new.started_at,
        live=group.live - (not old.is_terminal) + (not new.is_terminal),
        holding=group.holding - old.is_holding + new.is_holding,
        completed=group.completed + (new.state is AllocationState.COMPLETED),
        failed=group.failed + (new.state is AllocationState.FAILED),
        cancelled=group.cancelled + (new.state is AllocationState.CANCELLED),
        ended_at=max(group.ended_at, new.ended_at),
    )


def _badness(failed: Allocation | TaskGroup) -> int:
    """Orders failed tasks by what a shell would say of them; 0 when none has failed yet."""
    if failed.cause is None:
        return 0
    return 128 + failed.signal if failed.signal else failed.exit_code or FAILED_WITHOUT_CODE


def _placed(state: State, event: ev.AllocationPlaced) -> None:
    """The allocation gets its shares and the nodes their holder: both sides of one fact, which no command may see apart."""
    rollout = state.allocations[event.number].rollout
    record = _change(
        state,
        event.number,
        state=AllocationState.STARTING,
        run=event.run,
        shares=event.shares,
        parts=event.parts,
        message="",
        rollout=rollout if rollout is None else started(rollout, tuple(part.node for part in event.parts)),
    )
    for share in event.shares:
        take(state, record, share)


def _steps_recorded(state: State, event: ev.StepsRecorded) -> None:
    """A step may be recorded twice, by two leaders: `with_step` keeps one. Numbers only rise, so that none is given again."""
    old = state.allocations[event.number]
    steps, next_step = old.steps, old.next_step
    for record in event.steps:
        steps = with_step(steps, record)
        next_step = max(next_step, record.step + 1)
    ended = {record.step for record in event.steps}
    watchers = tuple(each for each in old.watchers if each.step not in ended)
    _change(state, event.number, steps=steps, next_step=next_step, watchers=watchers)


def _stopping(state: State, event: ev.AllocationStopping, at: int) -> None:
    """The time of the first stop stays, and who cancelled first; the intent is the newest, and so is the lost node if named."""
    old = state.allocations[event.number]
    is_repeated = old.intent is event.intent
    _change(
        state,
        event.number,
        state=AllocationState.STOPPING,
        intent=event.intent,
        cancelled_by=old.cancelled_by if is_repeated else event.by,
        lost_node=event.lost_node or old.lost_node,
        stop_asked_at=old.stop_asked_at or at,
        paused_at=0,  # it must be resumed to end
        abandons=old.abandons or event.abandons,
    )


def _ended(state: State, event: ev.AllocationEnded, at: int) -> None:
    """The last change of a record. `old` is kept for the ledger and for giving back: the new record holds nothing any more."""
    old = state.allocations[event.number]
    was_holding = old.is_holding
    if was_holding and not old.started_at and event.cause in _RAN:
        old = replace(old, started_at=before(at, event.elapsed_s, old))
    _change(
        state,
        event.number,
        state=event.state,
        cause=event.cause,
        exit_code=event.exit_code,
        signal=event.signal,
        message=event.message,
        cpu_s=event.cpu_s,
        peak_memory_mb=event.peak_memory_mb,
        usage=event.usage,
        ended_at=end_of(old, at, event.elapsed_s),
        paused_at=0,
        started_at=old.started_at,
        intent=None,
        cancelled_by=event.by,
        checkpoints=after_run(old, at),
        watchers=(),
        shares=(*old.shares, *old.released),
        released=(),
        **_held(state, old),
    )
    state.finished[event.state] = state.finished.get(event.state, 0) + 1
    if was_holding:
        enter_time(state, old, at, event.elapsed_s)
        give_back(state, old)


def _held(state: State, record: Allocation) -> dict[str, int]:
    """What it held, written down with its end: a node may have other hardware when somebody asks how well it was used."""
    if not record.is_holding or not record.started_at:
        return {}
    cpus, memory_mb = held_amounts((*record.shares, *record.released), state.nodes)
    return {"held_cpus": cpus, "held_memory_mb": memory_mb}


# A run that ended before its start was noticed did run, and has a start.
_RAN = frozenset({Cause.EXIT, Cause.SIGNAL, Cause.OOM, Cause.WALLTIME})


def _requeued(state: State, event: ev.AllocationRequeued, at: int) -> None:
    """Everything that belonged to the last run is cleared; the submission time stays."""
    old = state.allocations[event.number]
    _change(
        state,
        event.number,
        state=AllocationState.SUSPENDED if event.suspended else AllocationState.PENDING,
        requeue_count=(0 if event.is_anew else old.requeue_count) + event.counted,
        restart_count=old.restart_count + 1,
        preempted=old.preempted + event.preempted,
        taken=_with_taken(old, at, event.elapsed_s) if event.preempted else old.taken,
        eligible_at=event.eligible_at,
        hold=event.hold if event.hold is not Hold.NONE else old.hold,
        message=event.message,
        shares=(),
        parts=(),
        intent=None,
        lost_node="",
        started_at=0,
        paused_at=0,
        paused_ms=0,
        stop_asked_at=0,
        cpu_s=0.0,
        peak_memory_mb=0,
        usage=NO_USAGE,
        limit_noted=0,
        alerted=(),
        wanted=0,
        last_instance=0,
        left_restarts=0,
        left=(),
        released=(),
        scaled_at=0,
        rollout=old.rollout if old.rollout is None else replace(old.rollout, updated=(), renewing=()),
        prologue_failures=old.prologue_failures + event.prologue_failed,
        avoided=(*old.avoided, event.avoid) if event.avoid else old.avoided,
        request=replace(old.request, exclude=(*old.request.exclude, event.avoid)) if event.avoid else old.request,
        checkpoints=after_run(old, at),
        watchers=(),
    )
    enter_time(state, old, at, event.elapsed_s)
    give_back(state, old)


def _with_taken(old: Allocation, at: int, elapsed_s: float) -> tuple[TakenRun, ...]:
    ended_at = end_of(old, at, elapsed_s)
    this = TakenRun(run=old.run, started_at=old.started_at, ended_at=ended_at, nodes=old.run_nodes)
    return (*old.taken, this)[-MAX_TAKEN:]


def _paused(state: State, event: ev.AllocationPaused, at: int) -> None:
    if event.is_paused:
        _change(state, event.number, paused_at=at)
    else:
        old = state.allocations[event.number]
        _change(state, event.number, paused_at=0, paused_ms=old.paused_ms + max(0, at - old.paused_at))


def _shared(state: State, event: ev.TerminalShared) -> None:
    watcher, old = Watcher(event.step, event.user), state.allocations[event.number].watchers
    watchers = (*old, watcher) if event.is_shared else tuple(each for each in old if each != watcher)
    _change(state, event.number, watchers=watchers)


_REVISED = ("vcluster", "request", "eligible_at", "depends_on", "waits_for", "asked")


def _updated(state: State, event: ev.AllocationUpdated) -> None:
    """Of a group the template changes, and with it every task that has not left it; tasks of their own get events of their own."""
    group = state.groups.get(event.number)
    old = state.allocations[event.number] if group is None else group.template
    changes = {
        "walltime_s": event.walltime_s,
        "preemption_class": event.preemption_class,
        "name": event.name,
        "tags": old.tags if event.tags is None else event.tags,
        # A new limit may be approached again.
        "limit_noted": old.limit_noted if old.walltime_s == event.walltime_s else 0,
        "telemetry": old.telemetry if event.telemetry is None else event.telemetry,
    }
    revised = event.revised
    if revised is not None:
        changes |= {name: getattr(revised, name) for name in _REVISED}
    elif event.telemetry is not None and event.telemetry.mode is Mode.AUDIT:
        # A later run needs such nodes, too.
        features = tuple(dict.fromkeys((*old.request.features, ACCESS_FEATURE)))
        changes["request"] = replace(old.request, features=features)
    if group is not None:
        concurrency = group.concurrency if event.concurrency is None else event.concurrency
        group = replace(group, template=replace(old, **changes), concurrency=concurrency)
        if revised is not None:
            group = replace(group, task_waits=revised.task_waits)
            group = replace(group, blocked=group.blocked_now())
        state.put_group(group)
    else:
        _change(state, event.number, **changes)


def _archived(state: State, event: ev.AllocationsArchived) -> None:
    """Takes records out of the state. The applier has read them for the archive before it folds this: here they are gone for good."""
    for number in event.numbers:
        if number in state.dependencies.dags:
            state.dependencies.drop_dag(number)
            continue
        if number in state.groups:
            state.drop_group(number)
        else:
            state.drop_allocation(number)
        state.drop_payload(number)


# nodes


def _evolve_node(state: State, event: _NodeEvent, at: int) -> None:
    match event:
        case ev.NodeRegistered():
            _node_registered(state, event, at)
        case ev.NodeMoved():
            _node_moved(state, event, at)
        case ev.NodeSpecified() | ev.NodeMeasured():
            evolve_specification(state, event, at)
        case _:
            assert_never(event)


def _node_moved(state: State, event: ev.NodeMoved, at: int) -> None:
    """The event says everything about the node's standing; only what an operator wrote about a drain is carried over.

    A node shows one reason. When something else has to be shown while a drain is still wanted (the node fell silent), the words of
    the drain go to `drained_for` and `drained_by`, and come back when the node does.
    """
    node = state.nodes[event.node]
    is_order = event.trigger in (NodeTrigger.DRAIN, NodeTrigger.DRAIN_URGENT)
    is_hidden = event.drain_wanted and not is_order and node.drain_words != (event.reason, event.by)
    drained_for, drained_by = node.drain_words if is_hidden else ("", "")
    state.put_node(
        replace(
            node,
            state=event.state,
            down_cause=event.down_cause,
            drain_wanted=event.drain_wanted,
            reason=event.reason,
            reason_by=event.by,
            degrade_cause=event.degrade_cause,
            boot_failures=event.boot_failures,
            former_boot=event.former_boot,
            wipe=event.wipe,
            drained_for=drained_for,
            drained_by=drained_by,
            changed_at=at,
        )
    )
    entry = NodeHistoryEntry(
        at=at,
        trigger=event.trigger,
        from_state=node.state,
        to_state=event.state,
        by=event.actor or event.by,
        why=event.note or event.reason,
        allocations=event.lost,
    )
    state.histories.tell(event.node, entry)


def _node_registered(state: State, event: ev.NodeRegistered, at: int) -> None:
    old = state.nodes.get(event.node)
    if old is None:
        old = Node(id=event.node, hardware=event.hardware, state=NodeState.UNKNOWN, changed_at=at)
    new = replace(
        old,
        hardware=event.hardware,
        address=event.address,
        boot_id=event.boot_id,
        agent_version=event.agent_version,
        registered_at=at,
    )
    state.put_node(new)
    entry = registration_entry(old, new, at)
    if entry is not None:
        state.histories.tell(event.node, entry)
