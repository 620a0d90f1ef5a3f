"""Finds the allocation behind an id, in the hot state or in the archive, and decides whether the caller may see it."""

from dataclasses import dataclass

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.core.machine.parts.folded_tasks import task_record
from lattice.core.model.ids import allocation_id, parse_allocation_id, parse_dag_id, parse_task_id
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import Allocation, AllocationState, Cause, TaskGroup
from lattice.wire.text.tasks import parse_task_set, positions_named
from lattice.wire.work.allocations import AllocationView, allocation_view, group_state, group_view

LARGEST = (1 << 63) - 1  # that a store can be asked for
WITHHELD = "something is wrong with its data; its owner can read what"
Record = Allocation | TaskGroup
_HINT = "`lattice status` lists yours, `lattice status --all` everything that you may see"


@dataclass(frozen=True, slots=True)
class Found:
    """A record and where it lies."""

    record: Allocation | TaskGroup
    is_archived: bool = False

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def head(self) -> Allocation:
        """What says whose it is."""
        return self.record.template if isinstance(self.record, TaskGroup) else self.record

    @property
    def is_ended(self) -> bool:
        if isinstance(self.record, TaskGroup):
            return self.record.is_done
        return self.record.is_terminal

    @property
    def state(self) -> AllocationState:
        if isinstance(self.record, TaskGroup):
            return group_state(self.record)
        return self.record.state


async def find(context: Context, text: str, permission: Permission = Permission.READ) -> Found:
    """The record behind `a17`, `17` or `a17_3`.

    Raises ApiError: not_found for what does not exist or must not be seen, forbidden for what may be seen but not treated
    as `permission` says.
    """
    if parse_task_set(text) is not None:
        name = text.partition("_")[0]
        raise ApiError(
            "invalid",
            f'"{text[:60]}" names several tasks',
            hint=f"name one of them, or the group {name}; `lattice status {name} --tasks` lists them",
        )
    number = await _number_behind(context, text)
    found = None if number is None else await find_number(context, number)
    if found is None or not _covers(context, Permission.READ, found):
        hint = f"`lattice dag status {text}` shows a DAG" if text[:1] == "d" and parse_dag_id(text) else _HINT
        raise ApiError("not_found", f'no allocation "{text[:60]}"', hint=hint)
    if not _covers(context, permission, found):
        raise ApiError(
            "forbidden",
            f"{allocation_id(found.number)} belongs to {found.head.user}",
            hint="only its owner and administrators may do this",
        )
    return found


async def find_tasks(context: Context, text: str, permission: Permission) -> tuple[Found, Intervals]:
    """As `find`, for orders that several tasks of a group may be given: `a17_[3-7,9]` is the group and their positions.

    No positions mean the whole record. Raises BadField for tasks that the group does not have.
    """
    several = parse_task_set(text)
    if several is None:
        return await find(context, text, permission), ()
    number, blocks = several
    name = allocation_id(number)
    found = await find(context, name, permission)
    if not isinstance(found.record, TaskGroup):
        raise ApiError("invalid", f"{name} is not a task group", hint=f"name it as {name}")
    positions = positions_named(found.record, blocks, name)
    return found, () if positions == ((0, found.record.size),) else positions


async def find_number(context: Context, number: int) -> Found | None:
    """The record with this number, regardless of its owner."""
    if number > LARGEST:
        return None
    hot = find_hot(context, number)
    if hot is not None:
        return hot
    archived = await context.services.replica.archived(number)
    if isinstance(archived, TaskGroup) and archived.number != number:
        return Found(_given_up(archived, number), is_archived=True)
    if archived is not None:
        return Found(archived, is_archived=True)
    # The task may be gone from the hot state while its group is still there.
    group = context.state.group_of(number)
    return None if group is None else Found(_given_up(group, number))


def find_hot(context: Context, number: int) -> Found | None:
    """The record in the hot state, without waiting for anything."""
    state = context.state
    record: Allocation | TaskGroup | None = state.groups.get(number) or state.find(number)
    return None if record is None else Found(record)


def view_of(context: Context, found: Found, *, is_new: bool = False) -> AllocationView:
    """What the caller reads of it; a new one has no reason to wait yet."""
    record = with_message(context, found.record)
    now_ms = context.services.clock.now_ms()
    explain = _nothing if is_new else context.services.scheduling.reason_for
    if isinstance(record, TaskGroup):
        is_staging = record.template.state is AllocationState.STAGING
        explained = staging_reason(context, record.template) if is_staging else explain(record.number)
        explained = "" if record.is_done else explained
        return group_view(record, now_ms=now_ms, explained=explained, archived=found.is_archived)
    explained = ""
    if record.state is AllocationState.STAGING:
        explained = staging_reason(context, record)
    elif record.is_waiting:
        explained = explain(record.number) or (explain(record.group) if record.group else "")
    elif record.state is AllocationState.STARTING:
        explained = context.services.observations.start_of(record.number, record.run)
    return allocation_view(
        record,
        now_ms=now_ms,
        explained=explained,
        archived=found.is_archived,
        readiness=context.services.observations.readiness,
        scaled=context.services.observations.scaling.get(record.number),
    )


def with_message(context: Context, record: Record) -> Record:
    """The record, without a message that names sources or results if the caller may not read its details.

    Only messages of work with data are withheld, and of these only what can hold a path.
    """
    head = record.template if isinstance(record, TaskGroup) else record
    if not (head.data or head.stages_out) or "/" not in head.message:
        return record
    if context.covers(Permission.READ_DETAILS, user=head.user, tenant=head.tenant):
        return record
    hidden = replace(head, message=WITHHELD)
    return replace(record, template=hidden) if isinstance(record, TaskGroup) else hidden


def staging_reason(context: Context, head: Allocation) -> str:
    """Why work waits for its data; empty where only the leader knows. Who may not read its details learns no names of sources."""
    if context.services.staging is None:
        return ""
    reason = context.services.staging.reason_for(head)
    if context.covers(Permission.READ_DETAILS, user=head.user, tenant=head.tenant):
        return reason
    copies = (context.state.staging.copies.get(use.key) for use in head.data)
    sources = sorted((copy.source for copy in copies if copy is not None), key=len, reverse=True)
    for source in sources:
        for text in (source, source.removeprefix("file://")):
            reason = reason.replace(text, "its data")
    return reason


def _nothing(number: int) -> str:
    return ""


def _covers(context: Context, permission: Permission, found: Found) -> bool:
    head = found.head
    return context.covers(permission, user=head.user, tenant=head.tenant)


async def _number_behind(context: Context, text: str) -> int | None:
    task = parse_task_id(text)
    if task is None:
        return parse_allocation_id(text)
    number, index = task
    group = await find_number(context, number)
    if group is None or not isinstance(group.record, TaskGroup):
        return None
    position = group.record.position_of(index)
    return None if position is None else number + 1 + position


def _given_up(group: TaskGroup, number: int) -> Allocation:
    """A task that was cancelled with its group before it became a record of its own."""
    return replace(
        task_record(group, number - group.number - 1),
        state=AllocationState.CANCELLED,
        cause=Cause.CANCELLED,
        ended_at=group.ended_at,
    )


async def payload_of(context: Context, found: Found) -> bytes:
    """What it runs, as it travels in the log; empty when that is no longer kept. For those who may read details."""
    holder = found.head.group or found.number
    payload = context.state.payloads.get(holder)
    if payload is None:
        payload = await context.services.replica.archived_payload(holder)
    return payload
