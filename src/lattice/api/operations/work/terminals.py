"""Terminals of a running allocation. They are followed, fed and resized as the steps they are."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.operations.work.steps import GetStep, get_step
from lattice.api.running.step_launch import not_running, single
from lattice.api.running.terminal_launch import TerminalFields, check_owner, open_terminal
from lattice.core.machine.commands import ShareTerminal
from lattice.core.model.work.allocations import Allocation
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line
from lattice.wire.work.steps import StepInfo

MAX_USER = 64


class WatcherFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user who may watch a terminal, or may no longer."""

    id: str
    step: int
    user: Short
    request_id: str = ""


async def attach(context: Context, request: TerminalFields) -> StepInfo:
    """Open a terminal on a node of a running allocation; it takes no CPUs and outlives its client."""
    return await open_terminal(context, request)


async def share_terminal(context: Context, request: WatcherFields) -> StepInfo:
    """Let another user of the tenant watch a terminal of your own, read-only."""
    allocation = await _own(context, request)
    check_line(request.user, "user", MAX_USER)
    if not request.user.strip() or request.user == allocation.user:
        raise BadField("user", "names no other user", hint="name the user who is to watch")
    if allocation.is_terminal:
        raise not_running(allocation)
    step = await get_step(context, GetStep(id=request.id, step=request.step))
    if not step.is_terminal:
        raise ApiError("conflict", f"{step.id} is a step, not a terminal", hint="its output is that of the allocation")
    if step.state == "ended":
        raise ApiError("conflict", f"{step.id} has ended", hint=f"`lattice attach {step.allocation}` opens a new one")
    return await _change(context, request, allocation, is_shared=True)


async def unshare_terminal(context: Context, request: WatcherFields) -> StepInfo:
    """End what `share_terminal` began: who watches is cut off within a second. Nothing changes where it is not shared."""
    allocation = await _own(context, request)
    return await _change(context, request, allocation, is_shared=False)


async def _own(context: Context, request: WatcherFields) -> Allocation:
    allocation = single(await find(context, request.id))
    check_owner(context, allocation)
    return allocation


async def _change(context: Context, request: WatcherFields, allocation: Allocation, *, is_shared: bool) -> StepInfo:
    command = ShareTerminal(number=allocation.number, step=request.step, user=request.user, is_shared=is_shared)
    await context.carry_out(command, request.request_id)
    return await get_step(context, GetStep(id=request.id, step=request.step))
