"""A signal to a running job: to its steps, to the batch shell, or to both."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.lookup import Found
from lattice.core.model.allocations import Allocation, AllocationState
from lattice.ports.steps import StepRefused


async def send(context: Context, found: Found, signal: int, to: str) -> None:
    """Raises ApiError: conflict for what does not run, invalid for what cannot be reached this way."""
    record = found.record
    if not isinstance(record, Allocation) or record.state is not AllocationState.RUNNING:
        raise ApiError("conflict", "Job/step already completing or completed" if found.is_ended else "Job is pending")
    desk = context.services.steps
    for step in desk.live(record.number) if desk is not None else ():
        try:
            if desk is not None:
                desk.signal(record.number, step.step, signal)
        except StepRefused:
            continue  # ended in the meantime
