"""One allocation: read, wait, cancel, hold, release, requeue, update."""

import asyncio

import msgspec
from msgspec import Struct

from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError, translated
from lattice.api.find.data import with_progress
from lattice.api.find.lookup import Found, find, find_hot, find_number, find_tasks, payload_of, view_of
from lattice.api.find.selection import Selection, hot_records
from lattice.api.find.states import parse_states
from lattice.api.limits import BULK_BATCH, DEFAULT_WAIT_S, MAX_BULK, MAX_TASK_PIECES, MAX_WAIT_S
from lattice.api.submit.filter import screen_update
from lattice.api.submit.revising import PendingChanges, revision_of
from lattice.core.machine.commands import (
    AnyCommand,
    CancelAllocation,
    HoldAllocation,
    ReleaseAllocation,
    RequeueAllocation,
    UpdateAllocation,
)
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import TERMINAL, AllocationState, Hold, TaskGroup
from lattice.wire.bounds import Short, TagFilters, TaskList, TaskSet
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_name, check_names, check_tags, parse_tag
from lattice.wire.work.allocations import AllocationView, CancelAnswer, details_view
from lattice.wire.work.payloads import decode_work
from lattice.wire.work.submissions import priority_class, walltime_s
from lattice.wire.work.telemetry import TelemetryFields, read_telemetry


class GetAllocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    details: bool = False


class WaitForAllocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    timeout: float = DEFAULT_WAIT_S


class ChangeAllocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cancel, hold, release, suspend, resume or requeue; only cancel and requeue take more than the ID."""

    id: str
    request_id: str = ""


class RequeueRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    request_id: str = ""
    hold: bool = False
    checkpoint: bool = False


class UpdateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    request_id: str = ""
    walltime: Short | int | None = None
    priority: Short | int | None = None
    preemption_class: int | None = None
    name: str | None = None
    concurrency: int | None = None  # of a task group: maximum concurrent tasks, 0 = all
    tags: dict[str, str] = {}
    untag: list[str] = []  # keys of tags to take away
    # Of work that still waits:
    vcluster: str | None = None
    nodes: int | None = None
    max_nodes: int | None = None  # with nodes: the upper end of a range
    cpus: int | None = None  # of each node, as memory and gpus; 0 = none asked for
    memory: Short | int | None = None
    gpus: int | None = None
    begin: Short | None = None  # "now" = as soon as possible
    depends_on: TaskList | None = None  # "" = on nothing any more
    comment: str | None = None  # of work of a Slurm command
    telemetry: TelemetryFields | None = None  # how closely it is measured from now on


class CancelMany(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Allocations by ID, or all unfinished allocations of the caller that match every filter."""

    ids: list[TaskSet] = []
    states: list[Short] = []
    all_mine: bool = False
    project: str = ""
    tag: TagFilters = []
    name: str = ""
    vcluster: str = ""
    request_id: str = ""


class CancelAnswers(Struct, frozen=True, kw_only=True):
    items: list[CancelAnswer]


async def get_allocation(context: Context, request: GetAllocation) -> AllocationView:
    """Get one allocation, task or task group, active or archived."""
    found = await find(context, request.id)
    view = view_of(context, found)
    if not request.details:
        return view
    head = found.head
    if not context.covers(Permission.READ_DETAILS, user=head.user, tenant=head.tenant):
        return msgspec.structs.replace(view, details=None)
    await record_access(context, "allocation.details", head)
    payload = await payload_of(context, found)
    details = with_progress(context, head, details_view(head, decode_work(payload))) if payload else None
    return msgspec.structs.replace(view, details=details)


async def wait(context: Context, request: WaitForAllocation) -> AllocationView:
    """Wait until the allocation has ended; returns its current state when the timeout expires first."""
    if not 0 <= request.timeout <= MAX_WAIT_S:
        raise BadField("timeout", f"{request.timeout:g} is not possible", limit=f"from 0 to {MAX_WAIT_S:g} s")
    found = await find(context, request.id)
    clock, feed = context.services.clock, context.services.feed
    deadline = clock.monotonic_s() + request.timeout
    while not found.is_ended:
        left = deadline - clock.monotonic_s()
        # Nothing may be awaited between looking and waiting, or a change could slip through.
        if left <= 0 or not await feed.next_change_of(found.number, left):
            break
        found = find_hot(context, found.number) or await find_number(context, found.number) or found
    return view_of(context, found)


async def cancel(context: Context, request: ChangeAllocation) -> AllocationView:
    """Cancel an allocation; the returned state may still be Stopping."""
    found, positions = await find_tasks(context, request.id, Permission.CHANGE)
    command = CancelAllocation(number=found.number, positions=positions)
    return await _change(context, found, command, request.request_id)


async def hold(context: Context, request: ChangeAllocation) -> AllocationView:
    """Keep a pending allocation from starting."""
    found, positions = await find_tasks(context, request.id, Permission.CHANGE)
    held_by = Hold.USER if found.head.user == context.user else Hold.OPERATOR
    command = HoldAllocation(number=found.number, hold=held_by, positions=positions)
    return await _change(context, found, command, request.request_id)


async def release(context: Context, request: ChangeAllocation) -> AllocationView:
    """Release a held allocation."""
    found, positions = await find_tasks(context, request.id, Permission.CHANGE)
    as_operator = context.reach_in(Permission.CHANGE, found.head.tenant) > Reach.OWN
    command = ReleaseAllocation(number=found.number, as_operator=as_operator, positions=positions)
    return await _change(context, found, command, request.request_id)


async def requeue(context: Context, request: RequeueRequest) -> AllocationView:
    """Stop the current run and queue the allocation again under the same ID; with `checkpoint`, after it has written a checkpoint."""
    found, positions = await find_tasks(context, request.id, Permission.CHANGE)
    command = RequeueAllocation(
        number=found.number, hold=request.hold, positions=positions, checkpoint=request.checkpoint
    )
    return await _change(context, found, command, request.request_id)


_PENDING = ", ".join(PendingChanges.__struct_fields__)


async def update(context: Context, request: UpdateRequest) -> AllocationView:
    """Change an allocation within the limits of its tenant and vCluster; what it asks of the machine, only while it is pending."""
    wanted = request.preemption_class
    if request.priority is not None:
        if wanted is not None:
            raise BadField("priority", "given together with preemption_class", hint="give one")
        wanted = priority_class(request.priority, "priority")
    elif wanted is not None:
        wanted = priority_class(wanted, "preemption_class")
    changes = (request.walltime, wanted, request.name, request.concurrency, request.tags or None, request.untag or None)
    requested = PendingChanges(**{name: getattr(request, name) for name in PendingChanges.__struct_fields__})
    telemetry = read_telemetry(request.telemetry)
    if telemetry is None and all(change is None for change in changes) and requested == PendingChanges():
        raise BadField("", "nothing to change", hint=f"give walltime, priority, name, tags, telemetry or {_PENDING}")
    walltime = None if request.walltime is None else walltime_s(request.walltime, "walltime")
    name = None if request.name is None else check_name(request.name, "name")
    found = await find(context, request.id, Permission.CHANGE)
    _refuse_archived(found)
    command = UpdateAllocation(
        number=found.number,
        walltime_s=walltime,
        preemption_class=wanted,
        name=name,
        concurrency=request.concurrency,
        set_tags=check_tags(request.tags),
        drop_tags=check_names(request.untag, "untag"),
        revision=await revision_of(context, found.head, requested),
        telemetry=telemetry,
    )
    command, warnings = await screen_update(context, found.head, command)
    view = await _change(context, found, command, request.request_id)
    return msgspec.structs.replace(view, warnings=tuple(warnings)) if warnings else view


async def cancel_many(context: Context, request: CancelMany) -> CancelAnswers:
    """Cancel allocations by ID, or all of the caller's own that match the filters; returns the outcome of each."""
    filters = {name: getattr(request, name) for name in ("states", "project", "tag", "name", "vcluster")}
    narrowing = [name for name, value in filters.items() if value]
    if bool(request.ids) == (request.all_mine or bool(narrowing)):
        raise BadField("", "give either ids, or all_mine with or without filters")
    if narrowing and not request.all_mine:
        raise BadField(narrowing[0], "needs all_mine", hint='add "all_mine": true')
    if len(request.ids) > MAX_BULK:
        hint = "name them in several requests, or cancel all_mine"
        raise BadField("ids", "too many", current=f"{len(request.ids):,}", limit=f"{MAX_BULK:,}", hint=hint)
    pieces = sum(text.count(",") for text in request.ids)
    if pieces > MAX_TASK_PIECES:
        hint = "name tasks as ranges, or in several requests"
        raise BadField("ids", "too many pieces", current=f"{pieces:,}", limit=f"{MAX_TASK_PIECES:,}", hint=hint)
    ids = request.ids or await _mine(context, request)
    answers: list[CancelAnswer] = []
    for start in range(0, len(ids), BULK_BATCH):
        chunk = ids[start : start + BULK_BATCH]
        one_by_one = (_cancel_one(context, text, request.request_id) for text in chunk)
        answers += await asyncio.gather(*one_by_one)
    if request.all_mine:
        # Those that ended by themselves in the meantime were not named by the caller.
        answers = [answer for answer in answers if (answer.error or {}).get("code") != "conflict"]
    return CancelAnswers(items=answers)


async def _mine(context: Context, request: CancelMany) -> list[str]:
    wanted = parse_states(request.states) or frozenset(AllocationState) - TERMINAL
    mine = Selection(
        states=wanted - TERMINAL,
        user=context.user,
        project=request.project,
        tags=tuple(parse_tag(text) for text in request.tag),
        name=request.name,
        vcluster=request.vcluster,
    )
    return [allocation_id(record.number) async for record in hot_records(context.state, mine)]


async def _cancel_one(context: Context, text: str, request_id: str) -> CancelAnswer:
    try:
        found, positions = await find_tasks(context, text, Permission.CHANGE)
        command = CancelAllocation(number=found.number, positions=positions)
        _refuse_archived(found)
        await context.carry_out(command, request_id, part=text if positions else str(found.number))
    except Exception as error:  # noqa: BLE001 - one bad id must not spoil the others
        view = translated(error).view
        return CancelAnswer(id=text, ok=False, error=msgspec.to_builtins(view))
    return CancelAnswer(id=text if positions else allocation_id(found.number), ok=True)


async def _change(context: Context, found: Found, command: AnyCommand, request_id: str) -> AllocationView:
    _refuse_archived(found)
    await context.carry_out(command, request_id)
    return view_of(context, await find_number(context, found.number) or found)


def _refuse_archived(found: Found) -> None:
    if found.is_archived:
        what = "task group" if isinstance(found.record, TaskGroup) else "allocation"
        raise ApiError("conflict", f"{what} {allocation_id(found.number)} is already {found.state}")
