"""Advance reservations: list, read, make, delete."""

from msgspec import Struct

from lattice.api.context import Context, NoParameters
from lattice.api.cursors import Page
from lattice.api.errors import unknown
from lattice.core.machine.commands import DeleteReservation, SetReservation
from lattice.core.model.reservations import AdvanceReservation
from lattice.wire.reservations import ReservationFields, ReservationView, reservation_of, reservation_view


class GetReservation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class DropReservation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    request_id: str = ""


class Deleted(Struct, frozen=True, kw_only=True):
    name: str


async def list_reservations(context: Context, request: NoParameters) -> Page[ReservationView]:
    """All reservations, those that come first at the top."""
    records = sorted(context.state.reservations.values(), key=lambda record: (record.start_at, record.name))
    return Page(items=[_view(context, record) for record in records])


async def get_reservation(context: Context, request: GetReservation) -> ReservationView:
    """One reservation."""
    return _view(context, _find(context, request.name))


async def create_reservation(context: Context, request: ReservationFields) -> ReservationView:
    """Keeps nodes for a time: for tenants or users, or for nobody."""
    wanted = reservation_of(request)
    await context.carry_out(SetReservation(reservation=wanted, create=True), request.request_id)
    return _view(context, _find(context, wanted.name))


async def delete_reservation(context: Context, request: DropReservation) -> Deleted:
    """Gives the nodes back; what runs on them goes on."""
    await context.carry_out(DeleteReservation(name=request.name), request.request_id)
    return Deleted(name=request.name)


def _find(context: Context, name: str) -> AdvanceReservation:
    record = context.state.reservations.get(name)
    if record is None:
        raise unknown("reservation", name, context.state.reservations)
    return record


def _view(context: Context, record: AdvanceReservation) -> ReservationView:
    return reservation_view(record, context.services.clock.now_ms())
