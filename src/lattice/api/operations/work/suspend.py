"""Pauses of running allocations."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.find.lookup import find, find_number, view_of
from lattice.api.operations.work.allocations import ChangeAllocation
from lattice.core.machine.commands import PauseAllocation
from lattice.wire.work.allocations import AllocationView


async def suspend(context: Context, request: ChangeAllocation) -> AllocationView:
    """Suspend a running allocation; it keeps its nodes, and its walltime is paused."""
    return await _pause(context, request, is_paused=True)


async def resume(context: Context, request: ChangeAllocation) -> AllocationView:
    """Resume a suspended allocation."""
    return await _pause(context, request, is_paused=False)


async def _pause(context: Context, request: ChangeAllocation, *, is_paused: bool) -> AllocationView:
    found = await find(context, request.id, Permission.CHANGE)
    await context.carry_out(PauseAllocation(number=found.number, is_paused=is_paused), request.request_id)
    return view_of(context, await find_number(context, found.number) or found)
