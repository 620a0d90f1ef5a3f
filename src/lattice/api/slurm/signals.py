"""A signal to a running job: to its steps, to the batch shell, or to both."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found
from lattice.api.running.signals import send_signal
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import SignalTarget


async def send(context: Context, found: Found, signal: int, to: SignalTarget) -> None:
    """Raises ApiError: conflict for what does not run."""
    record = found.record
    if not isinstance(record, Allocation) or not record.is_running:
        raise ApiError("conflict", "Job/step already completing or completed" if found.is_ended else "Job is pending")
    send_signal(context, found, signal, to)
