"""`sinfo`: partitions and nodes, and in which state they are."""

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.pacing import joined_in_slices
from lattice.api.slurm.answering import require
from lattice.api.slurm.helping import asks_for_help, check_clusters, helped, repeated
from lattice.api.slurm.rows.machine import MachineRows
from lattice.slurm.listings import sinfo
from lattice.slurm.listings.documents import node_records, written
from lattice.slurm.listings.listing import read_line
from lattice.slurm.listings.machine import ReservationRow
from lattice.slurm.listings.sinfo_line import GRAMMAR, Query, read_query
from lattice.slurm.text import formats
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.times import format_date, format_moment, format_span
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

_RESERVATIONS = "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST"


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    require(context, Permission.READ_NODES)
    query = read_query(command.argv, command.environment)
    check_clusters(context, "sinfo", line)
    return await repeated(context, command, line.last("iterate"), lambda: _listing(context, query))


async def _listing(context: Context, query: Query) -> SlurmAnswer:
    line, rows = query.line, MachineRows(context)
    if line.has("reservation"):
        return _answer(query, _reservations(rows.reservations(), query))
    nodes = {name: node for name, node in rows.nodes().items() if query.takes(node)}
    if line.has("json", "yaml"):
        document = written("nodes", node_records(nodes.values()), line.which("json", "yaml"))
        return SlurmAnswer(stdout=await joined_in_slices(document))
    partitions = [
        replace(partition, nodes=tuple(node for node in partition.nodes if node.name in nodes))
        for partition in rows.partitions(nodes)
        if query.partitions is None or partition.name in query.partitions
    ]
    if line.has("list-reasons"):
        partitions = [partition for partition in partitions if partition.nodes]
    shown = sinfo.Shown(
        cluster=context.services.slurm.cluster,
        is_exact=line.has("exact"),
        by_node=line.has("Node"),
        time_form=query.time_form,
    )
    lines = list(sinfo.lines(partitions, query.parts, shown))
    return _answer(query, [*_head(context, query), *lines])


def _head(context: Context, query: Query) -> list[str]:
    if query.line.has("noheader"):
        return []
    date = [format_date(context.services.clock.now_ms() / 1000)] if query.line.has("long") else []
    return [*date, formats.line(query.parts, sinfo.header_of)]


def _answer(query: Query, lines: list[str]) -> SlurmAnswer:
    return SlurmAnswer(
        stdout="".join(f"{line}\n" for line in lines), stderr="".join(f"{text}\n" for text in query.complaints)
    )


def _reservations(rows: list[ReservationRow], query: Query) -> list[str]:
    if not rows:
        return ["No reservations in the system"]
    lines = [] if query.line.has("noheader") else [_RESERVATIONS]
    for row in rows:
        start, end = format_moment(row.start_at, query.time_form), format_moment(row.end_at, query.time_form)
        span = format_span(int(row.end_at - row.start_at), short=False)
        state = "ACTIVE" if row.is_active else "INACTIVE"
        lines.append(f"{row.name:<10.10} {state:>8}  {start:>19}  {end:>19}  {span:>11}  {fold(row.nodes)}")
    return lines
