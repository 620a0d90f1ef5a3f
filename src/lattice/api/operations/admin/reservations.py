"""Advance reservations: list, read, make, delete."""

import msgspec
from msgspec import Struct

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context, NoParameters
from lattice.api.errors import unknown
from lattice.api.find.cursors import Page
from lattice.core.machine.commands import DeleteReservation, SetReservation
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.wire.admin.reservations import ReservationFields, ReservationView, reservation_of, reservation_view

OTHERS = "others"  # stands for tenants and users that are none of the caller's business


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
    view = reservation_view(record, context.services.clock.now_ms())
    if context.reach(Permission.WRITE_RESERVATIONS) is Reach.ALL:
        return view
    own = context.identity.tenants
    return msgspec.structs.replace(
        view,
        tenants=_without(record.tenants, own),
        users=_without(record.users, (context.user,)),
        reason=view.reason if not (record.tenants or record.users) or set(record.tenants) & set(own) else "",
    )


def _without(names: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """One's own names; that there are others is said, which ones is not."""
    kept = tuple(name for name in names if name in own)
    return kept if len(kept) == len(names) else (*kept, OTHERS)
