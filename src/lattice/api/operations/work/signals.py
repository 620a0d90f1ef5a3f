"""Signals to allocations."""

from typing import Literal

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.find.lookup import find, view_of
from lattice.api.running.signals import send_signal
from lattice.slurm.text.signals import LAST, parse_signal
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.work.allocations import AllocationView


class SignalRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`signal` is a name or a number (`USR1`, `SIGUSR1`, `10`); `to` selects all processes, the steps, or only the entrypoint."""

    id: str
    signal: Short
    to: Literal["all", "steps", "entrypoint"] = "all"
    request_id: str = ""


async def signal_allocation(context: Context, request: SignalRequest) -> AllocationView:
    """Send a signal to the processes of an allocation; delivered at most once, and lost if the node is."""
    number = parse_signal(request.signal)
    if number is None:
        raise BadField("signal", f'"{request.signal[:40]}" is not a signal', hint=f"such as USR1, or 1 to {LAST}")
    found = await find(context, request.id, Permission.CHANGE)
    send_signal(context, found, number, request.to)
    return view_of(context, found)
