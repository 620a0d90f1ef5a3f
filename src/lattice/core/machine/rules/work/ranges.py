"""Tasks of one group by ranges, or all of them: cancel, hold, release, requeue; and folding of those that have ended.

One command however many tasks it names. What still waits is changed as intervals of positions; only tasks that are records of
their own have events of their own. See docs/architecture/core.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.checkpoints.asking import before_stop
from lattice.core.machine.rules.checkpoints.requests import not_checkpointable
from lattice.core.machine.rules.work import runs
from lattice.core.machine.rules.work.tasks import live_tasks
from lattice.core.machine.state import State
from lattice.core.machine.transitions import AllocationTrigger, next_allocation_state
from lattice.core.model import intervals
from lattice.core.model.ids import allocation_id
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import Allocation, AllocationState, Hold, RequeuePolicy, StopIntent, TaskGroup
from lattice.core.model.work.checkpoints import CheckpointReason

Events = tuple[ev.AnyEvent, ...]
MAX_PIECES = 1_000
_MAX_FOLD_BATCH = 10_000


def cancel(state: State, command: cmd.CancelAllocation, actor: str) -> Events | Rejected:
    group = _group(state, command.number, command.positions)
    return group if isinstance(group, Rejected) else cancel_tasks(state, group, command.positions, actor)


def hold(state: State, command: cmd.HoldAllocation) -> Events | Rejected:
    group = _group(state, command.number, command.positions)
    return group if isinstance(group, Rejected) else hold_tasks(state, group, command.positions, command.hold)


def release(state: State, command: cmd.ReleaseAllocation) -> Events | Rejected:
    group = _group(state, command.number, command.positions)
    if isinstance(group, Rejected):
        return group
    return release_tasks(state, group, command.positions, as_operator=command.as_operator)


def requeue(state: State, command: cmd.RequeueAllocation, at: int) -> Events | Rejected:
    group = _group(state, command.number, command.positions)
    return group if isinstance(group, Rejected) else requeue_tasks(state, group, command.positions, command, at)


def cancel_tasks(state: State, group: TaskGroup, wanted: Intervals, actor: str) -> Events | Rejected:
    """Those that wait are given up together, those that run are stopped."""
    waiting = intervals.intersection(group.pending, wanted)
    live = [task for task in live_tasks(state, group) if _is_among(task, wanted)]
    if not waiting and not live:
        return _nothing(group, wanted, "has already ended", "all of these tasks have already ended")
    given_up: Events = ()
    if waiting:
        by = _another(state, group.template, actor)
        given_up = (ev.TasksCancelled(group=group.number, count=intervals.count(waiting), positions=waiting, by=by),)
    return (*given_up, *(event for task in live for event in cancel_one(state, task, actor)))


def _another(state: State, record: Allocation, actor: str) -> str:
    """Who cancels, if not the user whose work it is. Servers of the release before do not keep it."""
    return actor if state.level >= 2 and actor != record.user else ""


def cancel_one(state: State, task: Allocation, actor: str) -> Events:
    """Nothing changes for one that its deadline or its walltime is ending: it has failed, and will not run again; nor for one that
    has done its work."""
    if state.level >= 2 and (_is_failing(task) or task.intent is StopIntent.DONE):
        return ()
    if next_allocation_state(task.state, AllocationTrigger.STOP) is not None:
        by = _another(state, task, actor)
        # The first cancel ends the processes and lets results be copied; the second ends the copying too.
        abandons = task.stages_out and task.intent is StopIntent.CANCEL
        return (ev.AllocationStopping(number=task.number, intent=StopIntent.CANCEL, by=by, abandons=abandons),)
    return (runs.cancelled(task, _another(state, task, actor)),)


def _is_failing(task: Allocation) -> bool:
    if task.intent is StopIntent.WALLTIME:
        return task.requeue not in (RequeuePolicy.ALWAYS, RequeuePolicy.ON_WALLTIME)
    return task.intent is StopIntent.DEADLINE


def hold_tasks(state: State, group: TaskGroup, wanted: Intervals, by: Hold) -> Events | Rejected:
    """Those that wait are kept from starting. What an operator holds stays the operator's."""
    waiting = intervals.intersection(group.pending, wanted)
    live = [task for task in live_tasks(state, group) if _is_among(task, wanted)]
    tasks = [task for task in live if task.is_waiting]
    if not waiting and not tasks:
        return _nothing(group, wanted, "has no pending task", "none of these tasks is pending")
    return (
        *_hold_waiting(group, waiting, by),
        *(
            ev.AllocationHeld(number=task.number, hold=by)
            for task in tasks
            if task.hold is not Hold.OPERATOR and task.hold is not by
        ),
    )


def _hold_waiting(group: TaskGroup, waiting: Intervals, by: Hold) -> Events:
    template = group.template.hold
    if not waiting or template is Hold.OPERATOR or template is by:
        return ()
    if waiting == group.pending:
        kept = group.held_by_operator if by is Hold.USER else ()
        return (ev.TaskGroupHeld(group=group.number, hold=by, held_by_operator=kept),)
    if by is Hold.USER:
        added = intervals.difference(waiting, group.held_by_operator)
        held, by_operator = intervals.union(group.held, added), group.held_by_operator
    else:
        held = intervals.difference(group.held, waiting)
        by_operator = intervals.union(group.held_by_operator, waiting)
    if (held, by_operator) == (group.held, group.held_by_operator):
        return ()
    return (ev.TaskGroupHeld(group=group.number, hold=template, held=held, held_by_operator=by_operator),)


def release_tasks(state: State, group: TaskGroup, wanted: Intervals, *, as_operator: bool) -> Events | Rejected:
    """Takes holds away; those of an operator only for an operator."""
    live = [task for task in live_tasks(state, group) if _is_among(task, wanted)]
    if not live and not intervals.intersection(group.pending, wanted):
        return _nothing(group, wanted, "has already ended", "all of these tasks have already ended")
    held, by_operator = _held(group)
    freed = intervals.intersection(held, wanted)
    locked = intervals.intersection(by_operator, wanted)
    tasks = [task for task in live if task.hold is Hold.USER or (as_operator and task.hold is Hold.OPERATOR)]
    if not as_operator and not freed and not tasks and (locked or any(t.hold is Hold.OPERATOR for t in live)):
        return Rejected(
            code="forbidden",
            message=f"tasks of {allocation_id(group.number)} are held by an operator",
            hint="Only an operator can release them.",
        )
    events: list[ev.AnyEvent] = []
    if freed or (as_operator and locked):
        left = intervals.difference(by_operator, wanted) if as_operator else by_operator
        events.append(_held_now(group, intervals.difference(held, wanted), left))
    return (*events, *(ev.AllocationReleased(number=task.number) for task in tasks))


def _held(group: TaskGroup) -> tuple[Intervals, Intervals]:
    """The waiting tasks that their user holds, and those that an operator holds, one by one or all together."""
    by_operator = group.pending if group.template.hold is Hold.OPERATOR else group.held_by_operator
    all_held = group.pending if group.template.hold is Hold.USER else group.held
    return intervals.difference(all_held, by_operator), by_operator


def _held_now(group: TaskGroup, held: Intervals, by_operator: Intervals) -> ev.TaskGroupHeld:
    return ev.TaskGroupHeld(group=group.number, hold=Hold.NONE, held=held, held_by_operator=by_operator)


def requeue_tasks(
    state: State, group: TaskGroup, wanted: Intervals, command: cmd.RequeueAllocation, at: int
) -> Events | Rejected:
    """Ends the present runs of those that run, and runs them again."""
    if command.checkpoint and group.template.checkpoints.way is None:
        return not_checkpointable(group.template)
    running = [
        task
        for task in live_tasks(state, group)
        if _is_among(task, wanted) and (task.is_running or task.state is AllocationState.STARTING)
    ]
    if not running:
        return _nothing(group, wanted, "has no running task", "none of these tasks is running")
    return tuple(event for task in running for event in requeue_one(state, task, command, at))


def requeue_one(state: State, task: Allocation, command: cmd.RequeueAllocation, at: int) -> Events:
    """Ends the present run, after a checkpoint if that is asked for and its processes run."""
    asked = before_stop(state, task, CheckpointReason.REQUEUE, at) if command.checkpoint else None
    begun = asked or ev.AllocationStopping(number=task.number, intent=StopIntent.REQUEUE)
    return (ev.AllocationHeld(number=task.number, hold=Hold.USER), begun) if command.hold else (begun,)


def check_concurrency(group: TaskGroup | None, command: cmd.UpdateAllocation) -> Rejected | None:
    """Only groups have a limit on concurrent tasks."""
    if command.concurrency is None:
        return None
    if group is None:
        return Rejected(code="invalid", message=f"{allocation_id(command.number)} is not a task group")
    if command.concurrency < 0:
        return Rejected(
            code="invalid",
            message="the number of tasks at once cannot be negative",
            requested=str(command.concurrency),
        )
    if group.template.mutex and command.concurrency != 1:
        return Rejected(
            code="conflict",
            message=f'{allocation_id(group.number)} has the mutex "{group.template.mutex}": its tasks run one at a time',
            requested=f"{command.concurrency or group.size} tasks at once",
            limit="1 task at once",
        )
    return None


def fold(state: State, command: cmd.FoldTasks) -> Events:
    """Takes those that have ended and whose group is still here; others are left alone."""
    numbers = tuple(
        number for number in dict.fromkeys(command.numbers[:_MAX_FOLD_BATCH]) if _is_foldable(state, number)
    )
    return (ev.TasksFolded(numbers=numbers),) if numbers else ()


def _is_foldable(state: State, number: int) -> bool:
    record = state.allocations.get(number)
    return record is not None and record.is_terminal and record.group in state.groups


def everything(group: TaskGroup) -> Intervals:
    """All positions of the group."""
    return ((0, group.size),)


def _group(state: State, number: int, wanted: Intervals) -> TaskGroup | Rejected:
    group = state.groups.get(number)
    if group is None:
        return Rejected(
            code="not_found",
            message=f"no task group {allocation_id(number)}",
            hint="`lattice status --all` lists yours.",
        )
    if not _is_well_formed(wanted, group.size):
        return Rejected(
            code="invalid",
            message=f"task group {allocation_id(number)} has no such tasks",
            requested=str(wanted[:3]),
            limit=f"positions 0 to {group.size - 1}",
        )
    if len(wanted) > MAX_PIECES:
        return Rejected(
            code="invalid",
            message="the tasks named lie in too many pieces",
            requested=f"{len(wanted):,} pieces",
            limit=f"{MAX_PIECES:,} pieces",
            hint="Name longer ranges, or the whole group.",
        )
    return group


def _is_well_formed(wanted: Intervals, size: int) -> bool:
    bounds = [bound for piece in wanted for bound in piece]
    return bounds == sorted(set(bounds)) and bounds[0] >= 0 and bounds[-1] <= size


def _is_among(task: Allocation, wanted: Intervals) -> bool:
    return intervals.contains(wanted, task.number - task.group - 1)


def _nothing(group: TaskGroup, wanted: Intervals, all_text: str, some_text: str) -> Rejected:
    label = allocation_id(group.number)
    if wanted == everything(group):
        return Rejected(code="conflict", message=f"task group {label} {all_text}")
    return Rejected(code="conflict", message=f"{label}: {some_text}")
