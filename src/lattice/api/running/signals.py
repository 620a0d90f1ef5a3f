"""Signals to running work: to everything of it, to its steps, or to its entrypoint alone."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.ports.nodes.agents import RunKey, SignalRunOrder, SignalTarget


def send_signal(context: Context, found: Found, signal: int, to: SignalTarget) -> Allocation:
    """The signal is on its way to all nodes of the allocation. Raises ApiError for what does not run."""
    record = found.record
    name = allocation_id(found.number)
    if isinstance(record, TaskGroup):
        raise ApiError(
            "invalid", f"{name} is a task group", hint=f"name one of its tasks, such as {name}_{record.index_at(0)}"
        )
    if not record.is_running:
        hint = "it has ended" if found.is_ended else f"wait until it runs: `lattice watch {name}`"
        raise ApiError("conflict", f"{name} is not running", current=str(record.state), hint=hint)
    order = SignalRunOrder(key=RunKey(record.number, record.run), signal=signal, to=to)
    heard = [context.services.links.send(node, order) for node in record.nodes]
    if not any(heard):
        raise ApiError("unavailable", f"no node of {name} is connected now", hint="try again in a moment")
    return record
