"""Advance reservations: list, read, make, delete."""

import msgspec
from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.context import Context, NoParameters
from lattice.api.errors import unknown
from lattice.api.find.visibility import own_tenants_among, own_user_among, sees_all_reservations, visible_reservations
from lattice.core.machine.commands import DeleteReservation, SetReservation
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.wire.admin.reservations import ReservationFields, ReservationView, reservation_of, reservation_view


class GetReservation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str


class DropReservation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    request_id: str = ""


class Deleted(Struct, frozen=True, kw_only=True):
    name: str


async def list_reservations(context: Context, request: NoParameters) -> Page[ReservationView]:
    """List the reservations that concern the caller, earliest first."""
    records = sorted(visible_reservations(context).values(), key=lambda record: (record.start_at, record.name))
    return Page(items=[_view(context, record) for record in records])


async def get_reservation(context: Context, request: GetReservation) -> ReservationView:
    """Get one reservation."""
    return _view(context, _find(context, request.name))


async def create_reservation(context: Context, request: ReservationFields) -> ReservationView:
    """Reserve nodes for a period: for tenants or users, or for maintenance."""
    wanted = reservation_of(request)
    await context.carry_out(SetReservation(reservation=wanted, create=True), request.request_id)
    return _view(context, _find(context, wanted.name))


async def delete_reservation(context: Context, request: DropReservation) -> Deleted:
    """Delete a reservation; running work continues."""
    await context.carry_out(DeleteReservation(name=request.name), request.request_id)
    return Deleted(name=request.name)


def _find(context: Context, name: str) -> AdvanceReservation:
    visible = visible_reservations(context)
    record = visible.get(name)
    if record is None:
        raise unknown("reservation", name, visible)
    return record


def _view(context: Context, record: AdvanceReservation) -> ReservationView:
    view = reservation_view(record, context.services.clock.now_ms())
    if sees_all_reservations(context):
        return view
    return msgspec.structs.replace(
        view, tenants=own_tenants_among(context, record.tenants), users=own_user_among(context, record.users)
    )
