"""Looks up what a submission continues from: the newest complete checkpoint of another allocation of the same user."""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.checkpoints import ResumePoint


async def with_resume_point(context: Context, command: SubmitAllocation, wanted: str) -> SubmitAllocation:
    """The command with the checkpoint that it continues from. Raises ApiError; a stranger's work is as if it did not exist."""
    text, _, number = wanted.partition(":")
    found = await find(context, text)
    record = found.record
    label = allocation_id(found.number)
    if (found.head.user, found.head.tenant) != (command.user, command.tenant):
        raise ApiError("forbidden", f"{label} is not yours: its checkpoints can be continued by its user alone")
    if not isinstance(record, Allocation):
        raise ApiError("invalid", f"{label} is a task group", hint=f"name one of its tasks, such as {label}_0")
    kept = record.checkpoints.kept
    chosen = [each for each in kept if str(each.n) == number] if number else list(kept)
    if not chosen:
        what = f"no complete checkpoint {number[:20]}" if number else "no complete checkpoint to resume from"
        raise ApiError("conflict", f"{label} has {what}", hint=f"`lattice checkpoint list {label}` lists what it has")
    newest = chosen[-1]
    return replace(command, resume_from=ResumePoint(number=found.number, n=newest.n, path=newest.path))
