"""Advance reservations: who may make which, and that no work starts which would run into one it does not belong to.

See docs/architecture/core.md.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.work.allocations import Allocation

Events = tuple[ev.AnyEvent, ...]
MAX_RESERVATIONS = 1_000
_END_OF_TIME = 2**62


def set_reservation(state: State, command: cmd.SetReservation, actor: str, at: int) -> Events | Rejected:
    wanted = command.reservation
    old = state.reservations.get(wanted.name)
    if command.create and old is not None:
        return Rejected(code="already_exists", message=f'reservation "{wanted.name}" exists already')
    if not command.create and old is None:
        return _not_found(state, wanted.name)
    if old is None and len(state.reservations) >= MAX_RESERVATIONS:
        return Rejected(code="quota", message="there are too many reservations", limit=f"{MAX_RESERVATIONS}")
    refusal = _check(state, wanted, at)
    if refusal is not None:
        return refusal
    created_by, created_at = (old.created_by, old.created_at) if old else (actor, at)
    return (ev.ReservationSet(reservation=replace(wanted, created_by=created_by, created_at=created_at)),)


def _check(state: State, wanted: AdvanceReservation, at: int) -> Rejected | None:
    if not wanted.name or len(wanted.name) > 63 or not wanted.name.isprintable():
        return Rejected(code="invalid", message="a reservation needs a name of up to 63 printable characters")
    if wanted.end_at <= wanted.start_at:
        return Rejected(code="invalid", message="a reservation must end after it starts")
    if wanted.repeat_s and wanted.repeat_s * 1000 < wanted.end_at - wanted.start_at:
        return Rejected(code="invalid", message="a reservation cannot repeat before it has ended")
    if wanted.repeat_s < 0 or wanted.occurrence(at) is None:
        return Rejected(code="invalid", message="the reservation lies in the past")
    for what, names, known in (
        ("node", wanted.nodes, state.nodes),
        ("tenant", wanted.tenants, state.tenants),
    ):
        strangers = sorted(set(names) - set(known))
        if strangers:
            shown = ", ".join(sorted(known)[:20])
            return Rejected(code="not_found", message=f'unknown {what} "{strangers[0]}"', hint=f"Known: {shown}.")
    return None


def delete_reservation(state: State, command: cmd.DeleteReservation) -> Events | Rejected:
    if command.name not in state.reservations:
        return _not_found(state, command.name)
    return (ev.ReservationDeleted(name=command.name),)


def check_placement(state: State, allocation: Allocation, shares: tuple[Share, ...], at: int) -> Rejected | None:
    """Refuses nodes that a reservation covers while the allocation would run, unless it admits it."""
    end = at + allocation.walltime_s * 1000 if allocation.walltime_s else _END_OF_TIME
    for reservation in state.reservations.values():
        if reservation.admits(allocation.tenant, allocation.user):
            continue
        window = reservation.occurrence(at)
        if window is not None and window[0] < end and any(reservation.covers(share.node) for share in shares):
            return Rejected(code="stale", message=f'reservation "{reservation.name}" needs the nodes')
    return None


def _not_found(state: State, name: str) -> Rejected:
    known = ", ".join(sorted(state.reservations)[:20])
    return Rejected(code="not_found", message=f'unknown reservation "{name}"', hint=f"Known: {known or 'none'}.")
