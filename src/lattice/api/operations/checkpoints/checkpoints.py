"""Checkpoints of allocations: ask for one, list them."""

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find, find_hot, find_number
from lattice.core.machine.commands import RequestCheckpoint
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.wire.checkpoints.checkpoints import FAILED, WRITING, CheckpointView, checkpoint_views
from lattice.wire.text.problems import BadField

# A node knows at once whether anything there can answer.
REFUSED_WITHIN_S = 1.0
MAX_WAIT_S = 300.0


class CheckpointOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait` = seconds to wait until it is complete or has failed."""

    id: str
    wait: float = 0.0
    request_id: str = ""


class CheckpointsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class CheckpointQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait` = seconds to wait while it is being written."""

    id: str
    n: int
    wait: float = 0.0


async def request_checkpoint(context: Context, request: CheckpointOrder) -> CheckpointView:
    """Ask a running allocation for a checkpoint; the work continues. One that is being written already is joined."""
    _check_wait(request.wait)
    found = await find(context, request.id, Permission.CHANGE)
    await context.carry_out(RequestCheckpoint(number=found.number), request.request_id)
    record = _single(await find_number(context, found.number) or found)
    if record.checkpoints.open is None and record.checkpoints.unheard:
        raise _unheard(record)
    view = await _settled(context, record, record.checkpoints.last_n, max(REFUSED_WITHIN_S, request.wait))
    if view.state == FAILED and view.nodes == 0 and not view.seconds:
        raise _none_written(record, view.message)
    return view


def _unheard(record: Allocation) -> ApiError:
    return _none_written(record, record.checkpoints.unheard)


def _none_written(record: Allocation, why: str) -> ApiError:
    return ApiError(
        "conflict",
        f"{allocation_id(record.number)} wrote no checkpoint: {why}",
        hint="the work continues; `lattice checkpoint list` shows what is known",
    )


async def list_checkpoints(context: Context, request: CheckpointsQuery) -> Page[CheckpointView]:
    """List the checkpoints of an allocation: those that are kept, the newest that failed, and one that is being written."""
    return Page(items=checkpoint_views(_single(await find(context, request.id))))


async def get_checkpoint(context: Context, request: CheckpointQuery) -> CheckpointView:
    """Get one checkpoint of an allocation."""
    _check_wait(request.wait)
    record = _single(await find(context, request.id))
    return await _settled(context, record, request.n, request.wait)


async def _settled(context: Context, record: Allocation, n: int, wait_s: float) -> CheckpointView:
    """The checkpoint, as soon as it is not being written any more, or when the time is over."""
    clock, feed = context.services.clock, context.services.feed
    deadline = clock.monotonic_s() + wait_s
    while True:
        view = next((each for each in checkpoint_views(record) if each.n == n), None)
        if view is None and record.checkpoints.unheard:
            raise _unheard(record)
        if view is None:
            raise ApiError(
                "not_found",
                f"{allocation_id(record.number)} has no checkpoint {n}",
                hint=f"`lattice checkpoint list {allocation_id(record.number)}` lists them",
            )
        left = deadline - clock.monotonic_s()
        # Nothing may be awaited between looking and waiting, or a change could slip through.
        if view.state != WRITING or left <= 0 or not await feed.next_change_of(record.number, left):
            return view
        record = _single(find_hot(context, record.number) or await find_number(context, record.number) or Found(record))


def _single(found: Found) -> Allocation:
    if isinstance(found.record, Allocation):
        return found.record
    name = allocation_id(found.number)
    raise ApiError("invalid", f"{name} is a task group", hint=f"name one of its tasks, such as {name}_0")


def _check_wait(wait_s: float) -> None:
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise BadField("wait", f"{wait_s:g} is not possible", limit=f"from 0 to {MAX_WAIT_S:g} s")
