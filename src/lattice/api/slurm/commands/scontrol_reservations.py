"""`scontrol create reservation` and `scontrol delete`: advance reservations in Slurm's words, for operators."""

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.slurm.answering import complained, printed
from lattice.core.machine.commands import DeleteReservation, SetReservation
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.slurm.listings.listing import ListingLine
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.slurm.text.times import UNLIMITED, parse_limit, parse_moment
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

DENIED = "Access/permission denied"
_KNOWN = ("reservationname", "reservation", "starttime", "endtime", "duration", "nodes", "users", "accounts")
_SILENT = ("flags", "comment", "features", "partitionname", "partition", "nodecnt")


async def create(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    """Says the name of what it made."""
    words = [word for word in line.words if word.lower() != "reservation"]
    fields = {name.lower(): text for name, _, text in (word.partition("=") for word in words)}
    if "starttime" not in fields or not ({"duration", "endtime"} & fields.keys()):
        return complained("Error creating the reservation: a start time and an end time or duration are needed")
    unknown = next((name for name in fields if name not in (*_KNOWN, *_SILENT)), None)
    if unknown is not None:
        return complained(f"Unknown parameter {unknown}={fields[unknown]}", "No reservation created.")
    if context.reach(Permission.WRITE_RESERVATIONS) is not Reach.ALL:
        return complained(f"Error creating the reservation: {DENIED}")
    wanted = _reservation(context, fields)
    if isinstance(wanted, str):
        return complained(f"Error creating the reservation: {wanted}")
    try:
        await context.carry_out(SetReservation(reservation=wanted, create=True), command.request_id)
    except ApiError as problem:
        if problem.status >= 500:
            raise
        return complained(f"Error creating the reservation: {problem.view.message}")
    return printed(f"Reservation created: {wanted.name}")


def _reservation(context: Context, fields: dict[str, str]) -> AdvanceReservation | str:
    """The reservation, or what is wrong with it."""
    now = context.services.clock.now_ms() / 1000
    start = parse_moment(fields["starttime"], now)
    end = parse_moment(fields["endtime"], now) if "endtime" in fields else None
    if "duration" in fields and start is not None:
        length = parse_limit(fields["duration"])
        end = start + (365 * 86400 if length == UNLIMITED else length) if length is not None else None
    if start is None or end is None:
        return "Invalid time specified"
    nodes = fields.get("nodes", "")
    try:
        names = () if nodes.upper() in ("", "ALL") else tuple(expand(nodes))
    except BadHostlist:
        return "Invalid node name specified"
    users = tuple(filter(None, fields.get("users", "").split(",")))
    accounts = tuple(filter(None, fields.get("accounts", "").split(",")))
    name = (
        fields.get("reservationname") or fields.get("reservation") or _free_name(context, (*users, *accounts, "resv"))
    )
    return AdvanceReservation(
        name=name, start_at=int(start * 1000), end_at=int(end * 1000), nodes=names, tenants=accounts, users=users
    )


def _free_name(context: Context, heads: tuple[str, ...]) -> str:
    number = 1
    while f"{heads[0]}_{number}" in context.state.reservations:
        number += 1
    return f"{heads[0]}_{number}"


async def delete(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    words = list(line.words)
    if words and words[0].lower() in ("reservation", "reservationname") and len(words) > 1:
        words = [f"reservationname={words[1]}"]
    if not words:
        return complained("too few arguments for keyword:delete")
    kind, _, name = words[0].partition("=")
    if not kind.lower().startswith("reservation"):
        return complained(f"Invalid delete command: {words[0]}")
    failed = f"delete_reservation {words[0]}: "
    if context.reach(Permission.WRITE_RESERVATIONS) is not Reach.ALL:
        return complained(f"{failed}{DENIED}")
    if name not in context.state.reservations:
        return complained(f"{failed}Requested reservation is invalid")
    await context.carry_out(DeleteReservation(name=name), command.request_id)
    return SlurmAnswer()
